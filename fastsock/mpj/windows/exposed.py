"""The memory of a member, and what is done to it: by its server for other ranks, by its own threads for itself."""

from __future__ import annotations

from typing import NoReturn

from fastsock.system.forkable import new_lock

from ..constants import ERR_BASE, ERR_OP, ERR_RMA_ATTACH, ERR_RMA_FLAVOR, ERR_RMA_RANGE, ERR_TYPE
from ..datatypes._memory import buffer, landing, outgoing, span
from ..datatypes.buffers import view
from ..datatypes.datatype import BYTE, Datatype
from ..exceptions import Exception as MPIException

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_INEXACT = ("f", "c")


class Exposed:
    """Fixed memory, where offsets count from its beginning; or of a dynamic window, where they are addresses."""

    def __init__(self, memory: buffer, dynamic: bool) -> None:
        # A program may release its buffer: then what the buffer was of stays, as long as the window does.
        self._owners: tuple[Any, ...] = (memory, memory.obj)
        self.base = memory.address
        self.size = memory.nbytes
        self.dynamic = dynamic
        self.updating = new_lock()
        """Held while items are read and written in one: accumulates are atomic by it."""
        self._regions: dict[int, buffer] = {}

    def close(self) -> None:
        """Lets go of the memory. Nobody may reach it any more."""
        self._owners = ()
        self._regions.clear()
        self.size = 0

    # Dynamic windows

    def attach(self, memory: buffer) -> None:
        """Opens memory to the other ranks. Raises MPI.Exception: ERR_RMA_FLAVOR, ERR_RMA_ATTACH."""
        if not self.dynamic:
            raise MPIException(ERR_RMA_FLAVOR, "only a window of Create_dynamic has memory attached to it")
        first, end = memory.address, memory.address + memory.nbytes
        for address, other in self._regions.items():
            if address < end and first < address + other.nbytes:
                raise MPIException(ERR_RMA_ATTACH, f"{memory.nbytes} bytes at {first:#x} overlap what is attached")
        self._regions[first] = memory

    def detach(self, memory: buffer) -> None:
        """Closes memory that was attached. Raises MPI.Exception: ERR_RMA_FLAVOR, ERR_BASE."""
        if not self.dynamic:
            raise MPIException(ERR_RMA_FLAVOR, "only a window of Create_dynamic has memory attached to it")
        if self._regions.pop(memory.address, None) is None:
            raise MPIException(ERR_BASE, f"nothing is attached at {memory.address:#x}")

    def _address(self, offset: int, count: int, datatype: Datatype) -> int:
        """Where items are. Raises MPI.Exception (ERR_RMA_RANGE)."""
        low, high = span(datatype.ob, count)
        low, high = low + offset, high + offset
        if self.dynamic:
            for address, memory in list(self._regions.items()):
                if address <= low and high <= address + memory.nbytes:
                    return offset
            self._refuse(f"the addresses {low:#x} to {high:#x} are not attached to the window")
        if not 0 <= low <= high <= self.size:
            self._refuse(f"the bytes {low} to {high} are not in the {self.size} bytes of the window")
        return self.base + offset

    def _refuse(self, text: str) -> NoReturn:
        raise MPIException(ERR_RMA_RANGE, text)

    # Put, Get

    def room(self, offset: int, count: int, datatype: Datatype) -> tuple[buffer, Any]:
        """Returns memory for data of items, and what to call with their length once they are there, or None."""
        return landing(self._address(offset, count, datatype), count, datatype)

    def store(self, offset: int, count: int, datatype: Datatype, data: Any) -> None:
        """Writes data over the items."""
        room, land = self.room(offset, count, datatype)
        length = len(data)
        memoryview(room)[:length] = data
        if land is not None:
            land(length)

    def load(self, offset: int, count: int, datatype: Datatype) -> buffer:
        """Returns the data of the items: the memory itself, where they have no gaps."""
        return outgoing(self._address(offset, count, datatype), count, datatype)

    # Accumulate

    def accumulate(self, op: Any, offset: int, count: int, datatype: Datatype, data: Any) -> None:
        """Combines data into the items."""
        address = self._address(offset, count, datatype)
        with self.updating:
            _combine(op, address, count, datatype, data)

    def fetch(self, op: Any, offset: int, count: int, datatype: Datatype, data: Any) -> bytes:
        """Combines data into the items; returns what these were."""
        address = self._address(offset, count, datatype)
        with self.updating:
            before = bytes(outgoing(address, count, datatype))
            _combine(op, address, count, datatype, data)
        return before

    def swap(self, offset: int, datatype: Datatype, compared: Any, data: Any) -> bytes:
        """Writes data over an item that is equal to `compared`; returns what it was."""
        address = self._address(offset, 1, datatype)
        size = datatype.ob.size
        with self.updating:
            before = bytes(view(address, size))
            if before == bytes(compared):
                view(address, size)[:] = data
        return before


def check_updates(op: Any, datatype: Datatype) -> None:
    """Refuses an operation that is not predefined, or not defined on what items consist of. Raises MPI.Exception."""
    if not op.ob.name:
        raise MPIException(ERR_OP, "windows know predefined operations only: a program's own function stays at home")
    if op.ob.name not in ("REPLACE", "NO_OP"):
        op._combine(unit_of(datatype))


def check_swaps(datatype: Datatype) -> None:
    """Refuses what cannot be compared byte by byte. Raises MPI.Exception (ERR_TYPE)."""
    type_ = datatype._type()
    if not type_.predefined or type_.kind in ("", *_INEXACT):
        raise MPIException(
            ERR_TYPE, f"{type_.name or 'a derived datatype'} is compared and swapped by no rank: integers, logicals are"
        )


def unit_of(datatype: Datatype) -> Datatype:
    """Returns the datatype of what items consist of."""
    type_ = datatype._type()
    if type_.predefined:
        return datatype
    if type_.basic is None:
        raise MPIException(ERR_TYPE, "the items consist of different types: an operation needs one")
    return Datatype.of(type_.basic)


def _combine(op: Any, address: int, count: int, datatype: Datatype, data: Any) -> None:
    name = op.ob.name
    if name == "NO_OP":
        return
    room, land = landing(address, count, datatype)
    length = len(data)
    target = memoryview(room)[:length]
    if name == "REPLACE":
        target[:] = data
    else:
        if land is not None:
            memoryview(room)[:] = outgoing(address, count, datatype)
        op._combine(unit_of(datatype))(data, target)
    if land is not None:
        land(length)


NOTHING = buffer()
__all__ = ["BYTE", "NOTHING", "Exposed", "check_swaps", "check_updates", "unit_of"]
