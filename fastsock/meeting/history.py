"""Remembers listeners on other hosts that let an offer lapse, so that a lesson is paid for once.

They are better left on TCP, so this process tries them ever more rarely.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    Where = tuple[str, int]

MOST_KNOWN = 4096
MOST_SKIPPED = 64


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

lets_offers_lapse = _lapses.skips
"""Whether this time no offer should be made there."""

lapsed = _lapses.more_rarely
"""An offer there lapsed: the listener did not answer it."""

joined = _lapses.always
"""The listener answered."""

forget = _lapses.forget
"""Forgets everything."""
