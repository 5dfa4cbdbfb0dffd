"""Where at the target an operation works, read as mpi4py reads it."""

from __future__ import annotations

from operator import index

from ..constants import ERR_COUNT, ERR_RMA_RANGE
from ..datatypes._memory import span
from ..datatypes.buffers import Simple, datatype_named
from ..datatypes.datatype import Datatype
from ..exceptions import Exception as MPIException

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Place:
    """`count` items of a datatype, `displacement` units of the target from the beginning of its memory."""

    __slots__ = ("count", "datatype", "displacement")

    def __init__(self, displacement: int, count: int, datatype: Datatype) -> None:
        self.displacement = displacement
        self.count = count
        self.datatype = datatype

    @property
    def nbytes(self) -> int:
        """The length of the data, without gaps."""
        return self.count * self.datatype.ob.size

    @property
    def key(self) -> tuple[int, int, Datatype]:
        """All of it."""
        return self.displacement, self.count, self.datatype


def place_of(target: Any, origin: Simple) -> Place:
    """Reads None, a displacement, or [displacement, count, datatype]; what is left out is as at the origin.

    Raises ValueError for anything else, KeyError for an unknown datatype, and MPI.Exception (ERR_COUNT).
    """
    displacement, count, datatype = 0, origin.count, origin.datatype
    if isinstance(target, (list, tuple)):
        if len(target) > 3:
            raise ValueError("target: expecting 3 items at most")
        if len(target) > 0:
            displacement = index(target[0])
        if len(target) > 1:
            count = index(target[1])
        if len(target) > 2:
            datatype = datatype_named(target[2])
        if count < 0:
            raise MPIException(ERR_COUNT, f"target: {count} items are less than none")
    elif hasattr(target, "__index__"):
        displacement = index(target)
    elif target is not None:
        raise ValueError("target: expecting integral or list/tuple")
    return Place(displacement, count, datatype)


def check_within(place: Place, unit: int, size: int, whose: str) -> int:
    """Returns the offset in bytes of a place in memory of a size. Raises MPI.Exception (ERR_RMA_RANGE)."""
    offset = place.displacement * unit
    low, high = span(place.datatype._type(), place.count)
    if place.count and not 0 <= offset + low <= offset + high <= size:
        raise MPIException(
            ERR_RMA_RANGE,
            f"the bytes {offset + low} to {offset + high} are not in the {size} bytes of {whose}: "
            "displacements count from the beginning of the target's memory, in its own units",
        )
    return offset
