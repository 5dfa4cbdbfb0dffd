"""The pointer that all members of a file share: a number in a window, where each member moves it by itself."""

from __future__ import annotations

from array import array

from fastsock.system.forkable import new_lock

from ..constants import MODE_NOCHECK, WIN_FLAVOR_ALLOCATE
from ..datatypes.op import SUM
from ..datatypes.op import constants_by_name as operations
from ..windows.formation import form
from ..windows.mapped import MappedWindow
from ..windows.sharing import share
from ..windows.win import Win

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_HOME = 0
"""The member that has the numbers."""
_NUMBER = 8  # bytes of a number
_SLOTS = 64
_KEPT = "file pointers"
_READ, _REPLACE = operations["NO_OP"], operations["REPLACE"]

ALONE = -1
"""What stands for a slot where a file has a window of its own."""


class _Table:
    """The pointers of all files that the members of a communicator have open. They share the memory of these."""

    def __init__(self, window: MappedWindow) -> None:
        self.record = window
        self.window = Win.of(window)
        self.window.Lock_all(MODE_NOCHECK)
        self.unused = list(range(_SLOTS)) if window.rank == _HOME else []
        """It chooses for all."""


def _table(communicator: Any) -> _Table | None:
    """Returns that of a communicator; None where its members share no memory. The first time all members call it."""
    kept: dict[str, Any] = communicator.locks
    if _KEPT not in kept:
        shared = share(communicator, WIN_FLAVOR_ALLOCATE, _number_bytes(communicator, _SLOTS), _NUMBER)
        window = None if shared is None else MappedWindow(communicator, WIN_FLAVOR_ALLOCATE, shared)
        kept[_KEPT] = None if window is None else _Table(window)
    found: _Table | None = kept[_KEPT]
    return found


def _number_bytes(communicator: Any, count: int) -> int:
    return count * _NUMBER if communicator.rank == _HOME else 0


def choose(communicator: Any) -> int:
    """Returns the slot of a new pointer, at the home: the others are to be told. All members call it."""
    table = _table(communicator)
    if table is None or not table.unused:
        return ALONE
    slot = table.unused.pop()
    SlotPointer(communicator, slot).set(0)  # nobody else uses it before it is told
    return slot


def give_back(communicator: Any, slot: int) -> None:
    """Takes back a slot that nothing was made of, at the home."""
    table = _table(communicator)
    if table is not None and slot != ALONE:
        table.unused.append(slot)


class _Pointer:
    """Counts etypes of the view."""

    def __init__(self, window: Win, slot: int) -> None:
        self._window = window
        self._slot = slot

    def _fetch(self, number: int, op: Any) -> int:
        found = array("q", (0,))
        self._window.Fetch_and_op(array("q", (number,)), found, _HOME, self._slot, op)
        self._window.Flush(_HOME)
        return found[0]

    def take(self, count: int) -> int:
        """Moves it by so many; returns where it was."""
        return self._fetch(count, SUM)

    def read(self) -> int:
        """Returns where it is."""
        return self._fetch(0, _READ)

    def set(self, place: int) -> None:
        """Moves it there."""
        self._fetch(place, _REPLACE)


class SlotPointer(_Pointer):
    """One of a communicator's table."""

    def __init__(self, communicator: Any, slot: int) -> None:
        table = _table(communicator)
        assert table is not None
        super().__init__(table.window, slot)
        self._table = table

    def close(self) -> None:
        """Returns when all members have called it."""
        self._table.record.native.control.fence()
        if self._table.record.rank == _HOME:
            self._table.unused.append(self._slot)


class WindowPointer(_Pointer):
    """One with a window of its own. All members make it."""

    def __init__(self, communicator: Any) -> None:
        window = form(communicator, WIN_FLAVOR_ALLOCATE, None, _number_bytes(communicator, 1), _NUMBER, {})
        super().__init__(Win.of(window), 0)
        self._window.Lock_all(MODE_NOCHECK)

    def close(self) -> None:
        """Returns when all members have called it."""
        self._window.Unlock_all()
        self._window.Free()


class OwnPointer:
    """That of a file with one member."""

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
