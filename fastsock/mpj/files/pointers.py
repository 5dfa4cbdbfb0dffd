"""The pointer that all members of a file share: a number in memory that they map, or in a window."""

from __future__ import annotations

from array import array

from ..constants import MODE_NOCHECK, WIN_FLAVOR_ALLOCATE
from ..datatypes.op import SUM
from ..datatypes.op import constants_by_name as operations
from ..windows.formation import form
from ..windows.sharing import share
from ..windows.win import Win
from ._direct import Pointer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fastsock.core.binding._window import Window as Control

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

    def __init__(self, control: Control, rank: int) -> None:
        self.control = control
        self.is_home = rank == _HOME
        self.unused = list(range(_SLOTS)) if self.is_home else []
        """It chooses for all."""


def _table(communicator: Any) -> _Table | None:
    """Returns that of a communicator; None where its members share no memory. The first time all members call it."""
    kept: dict[str, Any] = communicator.locks
    if _KEPT not in kept:
        shared = share(communicator, WIN_FLAVOR_ALLOCATE, _number_bytes(communicator, _SLOTS), _NUMBER)
        kept[_KEPT] = None if shared is None else _Table(shared.control, communicator.rank)
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


class SlotPointer(Pointer):
    """One of a communicator's table."""

    def __init__(self, communicator: Any, slot: int) -> None:
        table = _table(communicator)
        assert table is not None
        super().__init__(table.control, slot)
        self._slot = slot
        self._table = table

    def close(self) -> None:
        """Returns when all members have called it."""
        self._table.control.fence()
        if self._table.is_home:
            self._table.unused.append(self._slot)


class WindowPointer:
    """One with a window of its own. All members make it."""

    def __init__(self, communicator: Any) -> None:
        window = form(communicator, WIN_FLAVOR_ALLOCATE, None, _number_bytes(communicator, 1), _NUMBER, {})
        self._window = Win.of(window)
        self._window.Lock_all(MODE_NOCHECK)

    def _fetch(self, number: int, op: Any) -> int:
        found = array("q", (0,))
        self._window.Fetch_and_op(array("q", (number,)), found, _HOME, 0, op)
        self._window.Flush(_HOME)
        return found[0]

    def take(self, count: int) -> int:
        """Moves it by so many etypes of the view; returns where it was."""
        return self._fetch(count, SUM)

    def read(self) -> int:
        """Returns where it is."""
        return self._fetch(0, _READ)

    def set(self, place: int) -> None:
        """Moves it there."""
        self._fetch(place, _REPLACE)

    def close(self) -> None:
        """Returns when all members have called it."""
        self._window.Unlock_all()
        self._window.Free()


class OwnPointer(Pointer):
    """That of a file with one member."""

    def __init__(self) -> None:
        super().__init__(bytearray(_NUMBER), 0)

    def close(self) -> None:
        pass
