"""The pointer that all members of a file share: a number in a window, where each member moves it by itself."""

from __future__ import annotations

from array import array

from fastsock.system.forkable import new_lock

from ..constants import MODE_NOCHECK, WIN_FLAVOR_ALLOCATE
from ..datatypes.op import SUM
from ..datatypes.op import constants_by_name as operations
from ..windows.formation import form
from ..windows.win import Win

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_HOME = 0
"""The member that has the number."""


class SharedPointer:
    """Counts etypes of the view. All members make it, and end it."""

    def __init__(self, communicator: Any) -> None:
        size = 8 if communicator.rank == _HOME else 0
        self._window = Win.of(form(communicator, WIN_FLAVOR_ALLOCATE, None, size, 8, {}))
        self._window.Lock_all(MODE_NOCHECK)

    def _fetch(self, number: int, op: Any) -> int:
        given, found = array("q", [number]), array("q", [0])
        self._window.Fetch_and_op(given, found, _HOME, 0, op)
        self._window.Flush(_HOME)
        return found[0]

    def take(self, count: int) -> int:
        """Moves it by so many; returns where it was."""
        return self._fetch(count, SUM)

    def read(self) -> int:
        """Returns where it is."""
        return self._fetch(0, operations["NO_OP"])

    def set(self, place: int) -> None:
        """Moves it there."""
        self._fetch(place, operations["REPLACE"])

    def close(self) -> None:
        """Returns when all members have called it."""
        self._window.Unlock_all()
        self._window.Free()


class OwnPointer:
    """The same of a file with one member."""

    def __init__(self) -> None:
        self._place = 0
        self._lock = new_lock()

    def take(self, count: int) -> int:
        with self._lock:
            before = self._place
            self._place += count
        return before

    def read(self) -> int:
        return self._place

    def set(self, place: int) -> None:
        self._place = place

    def close(self) -> None:
        pass
