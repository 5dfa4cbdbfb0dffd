"""Remembers how this process's connections to each listener went, so that a lesson is paid for once.

Some listeners let offers lapse. The connections of others end soon after they begin. Both kinds are better left on TCP,
so this process tries them ever more rarely. Where one process always accepts, memory can be reserved before a meeting.
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
MOST_SHORT = 1000  # connections kept on TCP because they are short; one that carries much ends that, where counts show
MOST_TRUST = 8

# A connection that was not worth its meeting is shorter than all of these. A meeting costs more than TCP, but a few
# exchanges, or some data, earn that back.
SHORT_SECONDS = 5e-3
SHORT_BYTES = 64 << 10
SHORT_WAITS = 6
ENOUGH_SHORT = 8  # one soon after the other: a program that connects now and then has time for a meeting
SOON_SECONDS = 0.05
ENOUGH_NOBODY = 4


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
_in_a_row: dict[Where, list[float]] = {}  # the number of short connections, and the time of the last one
_nobody: dict[Where, list[float]] = {}  # the number that found no fastsock, and the time of the last one
_accepting: dict[Where, list[int]] = {}  # the process that accepts, and how sure that is

lets_offers_lapse = _lapses.skips
"""Whether this time no offer should be made there."""

lapsed = _lapses.more_rarely
"""An offer there lapsed: the listener did not answer it."""


def joined(where: Where, pid: int) -> None:
    """The process accepted a connection there, and joined."""
    _lapses.always(where)
    entry = _accepting.get(where)
    if entry is None or entry[0] != pid:
        if len(_accepting) > MOST_KNOWN:
            _accepting.clear()
        _accepting[where] = [pid, 1 if entry is None else -MOST_TRUST]
    elif entry[1] < MOST_TRUST:
        entry[1] += 1


def who_accepts(where: Where) -> int:
    """The process that will probably accept there. It is 0 if that is not known, or if several take turns."""
    entry = _accepting.get(where)
    return entry[0] if entry is not None and entry[1] > 0 else 0


def has_short_connections(where: Where, last: float = 0.0) -> bool:
    """Whether this connection should stay on TCP, because those before it were short.

    last: the time of the last connection that stayed on TCP because of skip_more(); 0 if there was none.
    """
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
    """How many more connections in quick succession should stay on TCP without asking again."""
    return _short.skip_all(where)


def closed_unused(where: Where, seconds: float) -> None:
    """A connection ended, and its program had never used it. seconds: how long it lived."""
    if seconds < SHORT_SECONDS:
        ended(where, seconds, {})


def finds_nobody(where: Where) -> bool:
    """A connection found no fastsock there. Returns whether several in quick succession have found none."""
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
    """A connection that had moved has ended. seconds: how long it lived.

    counts: its path's statistics. Where a path keeps none, as a stream of the kernel's, the time alone decides.
    """
    if (
        seconds >= SHORT_SECONDS
        or counts.get("bytes_sent", 0) + counts.get("bytes_received", 0) >= SHORT_BYTES
        or counts.get("waits", 0) + counts.get("spins", 0) >= SHORT_WAITS
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
    """Forgets everything."""
    _lapses.forget()
    _short.forget()
    _in_a_row.clear()
    _nobody.clear()
    _accepting.clear()
