"""What this process learned of the listeners that it connects to. A lesson is paid for once.

Some listeners let offers lapse. The connections of others end as soon as they began. Both are better left on TCP, so
this process asks them ever more rarely. Where one process always accepts, a meeting's memory can be reserved before.
"""

from __future__ import annotations

from ..system.genuine import genuine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    Where = tuple[str, int]

MOST_KNOWN = 4096
MOST_SKIPPED = 64
MOST_SHORT = 1000  # of short ones: one that carries much ends that wherever the kernel's counts can be seen
MOST_TRUST = 8

# A connection that was not worth its meeting: what that costs more than TCP's, a few exchanges or some data earn back.
SHORT_SECONDS = 5e-3
SHORT_BYTES = 64 << 10
SHORT_WAITS = 6
ENOUGH_SHORT = 8  # one soon after the other: who connects now and then has the time
SOON_SECONDS = 0.05
ENOUGH_NOBODY = 4
_UNUSED = {"bytes_sent": 0, "bytes_received": 0, "waits": 0, "spins": 0}


class Backoff:
    """Skips 1, 3, 7, ... occasions, more each time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: dict[Where, list[int]] = {}

    def skips(self, where: Where) -> bool:
        entry = self._entries.get(where)
        if entry is None or entry[1] <= 0:
            return False
        entry[1] -= 1
        return True

    def skip_all(self, where: Where) -> int:
        entry = self._entries.get(where)
        if entry is None:
            return 0
        left, entry[1] = entry[1], 0
        return left

    def more_rarely(self, where: Where) -> None:
        if len(self._entries) > MOST_KNOWN:
            self._entries.clear()
        entry = self._entries.setdefault(where, [0, 0])
        entry[0] = entry[1] = min(2 * entry[0] + 1, self._most)

    def always(self, where: Where) -> None:
        if self._entries:
            self._entries.pop(where, None)

    def forget(self) -> None:
        self._entries.clear()


_lapses = Backoff(MOST_SKIPPED)
_short = Backoff(MOST_SHORT)
_in_a_row: dict[Where, list[float]] = {}  # how many short ones, and when the last one was
_nobody: dict[Where, list[float]] = {}  # how many found no fastsock, and when the last one was
_accepting: dict[Where, list[int]] = {}  # a process, and how sure that is

lets_offers_lapse = _lapses.skips
"""Whether this time no offer should be made there."""

lapsed = _lapses.more_rarely
"""Nobody answered there."""


def joined(where: Where, pid: int) -> None:
    """That process accepted there."""
    _lapses.always(where)
    entry = _accepting.get(where)
    if entry is None or entry[0] != pid:
        if len(_accepting) > MOST_KNOWN:
            _accepting.clear()
        _accepting[where] = [pid, 1 if entry is None else -MOST_TRUST]
    elif entry[1] < MOST_TRUST:
        entry[1] += 1


def who_accepts(where: Where) -> int:
    """The process that will probably accept there, or 0: nobody knows, or several take turns."""
    entry = _accepting.get(where)
    return entry[0] if entry is not None and entry[1] > 0 else 0


def has_short_connections(where: Where, last: float = 0.0) -> bool:
    """Whether this connection should stay on TCP. last: when one did that was taken into account by skip_more()."""
    row = _in_a_row.get(where)
    if row is None or row[0] < ENOUGH_SHORT:
        return False
    row[1] = max(row[1], last)
    now = genuine.monotonic()
    if now - row[1] > SOON_SECONDS:
        row[0] = 0
        return False
    row[1] = now
    return _short.skips(where)


def skip_more(where: Where) -> int:
    """How many more should stay, one soon after the other, without being asked for again."""
    return _short.skip_all(where)


def closed_unused(where: Where, seconds: float) -> None:
    """A connection ended that its program never used."""
    if seconds < SHORT_SECONDS:
        ended(where, seconds, _UNUSED)


def finds_nobody(where: Where) -> bool:
    """No fastsock listens there. Says whether several connections, one soon after the other, found that."""
    now = genuine.monotonic()
    if len(_nobody) > MOST_KNOWN:
        _nobody.clear()
    row = _nobody.setdefault(where, [0, now])
    if now - row[1] > SOON_SECONDS:
        row[0] = 0
    row[0] += 1
    row[1] = now
    return row[0] >= ENOUGH_NOBODY


def ended(where: Where, seconds: float, counts: Mapping[str, Any]) -> None:
    """A connection that moved has ended: how long it lived, and what it counted."""
    if (
        seconds >= SHORT_SECONDS
        or counts["bytes_sent"] + counts["bytes_received"] >= SHORT_BYTES
        or counts["waits"] + counts["spins"] >= SHORT_WAITS
    ):
        if _in_a_row.pop(where, None):
            _short.always(where)
        return
    now = genuine.monotonic()
    if len(_in_a_row) > MOST_KNOWN:
        _in_a_row.clear()
    row = _in_a_row.setdefault(where, [0, now])
    if now - row[1] > SOON_SECONDS:
        row[0] = 0
        _short.always(where)
    row[0] += 1
    row[1] = now
    if row[0] >= ENOUGH_SHORT:
        _short.more_rarely(where)


def forget() -> None:
    """Begins anew."""
    _lapses.forget()
    _short.forget()
    _in_a_row.clear()
    _nobody.clear()
    _accepting.clear()
