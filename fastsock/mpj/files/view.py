"""Views: which bytes of a file a member sees, and how its items stand there."""

from __future__ import annotations

from ..constants import ERR_ARG, ERR_TYPE
from ..datatypes._memory import buffer, landing, outgoing
from ..datatypes.datatype import BYTE, Datatype
from ..exceptions import Exception as MPIException
from ._direct import Seen
from ._transfer import Places
from .representations import Representation, representation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..datatypes.buffers import Simple


class View(Seen):
    """Items of `filetype` from byte `displacement` on, whose data are counted in items of `etype`. Never changes."""

    __slots__ = ("datarep", "displacement", "etype", "filetype", "in_file", "representation")

    def __init__(self, displacement: int, etype: Datatype, filetype: Datatype, datarep: str) -> None:
        """Raises MPI.Exception: ERR_TYPE, ERR_ARG, ERR_UNSUPPORTED_DATAREP."""
        if displacement < 0:
            raise MPIException(ERR_ARG, f"a view from byte {displacement} on: it begins at 0 or behind")
        self.representation: Representation = representation(datarep)
        self.displacement = displacement
        # the program may free its handles
        self.etype = Datatype.for_record(etype._type())
        self.filetype = Datatype.for_record(filetype._type())
        self.datarep = datarep
        unit = self.representation.in_file(self.etype).ob.size
        self.in_file = self.representation.in_file(self.filetype)
        if unit == 0 or self.in_file.ob.size % unit:
            raise MPIException(
                ERR_TYPE, f"a filetype of {self.in_file.ob.size} bytes does not consist of etypes of {unit}"
            )
        try:
            places = Places(self.in_file.ob, displacement)
        except ValueError as error:
            raise MPIException(ERR_ARG, f"the filetype is none: {error}") from None
        super().__init__(places, unit, self.representation.converts)

    def etypes(self, simple: Simple) -> int:
        """Returns how many etypes the items of a message argument are."""
        type_ = simple.datatype._type()
        nbytes = self.representation.nbytes(type_, simple.count) if self.converts else type_.size * simple.count
        found, rest = divmod(nbytes, self.unit)
        if rest:
            raise MPIException(ERR_TYPE, f"{nbytes} bytes are no whole number of etypes, which have {self.unit}")
        return found

    def after(self, place: int) -> int:
        """Returns the first etype that lies whole behind a place in the file."""
        size = self.in_file.ob.size
        if size == 0:
            return 0
        if self.places.ordered:
            return -(-self.places.below(place) // self.unit)
        each = self.in_file.ob  # items that lie within each other: all before the first that is behind the place
        items = max(0, -(-(place - self.displacement - each.true_lb) // max(each.extent, 1)))
        return items * size // self.unit

    def outgoing(self, simple: Simple) -> buffer:
        """Returns the data of items as they are to stand in the file."""
        data = outgoing(simple.address, simple.count, simple.datatype)
        if self.converts:
            return self.representation.to_file(simple.datatype, simple.count, data)  # type: ignore[attr-defined, no-any-return]
        return data

    def landing(self, simple: Simple) -> tuple[buffer, Any]:
        """Returns memory to read into, and what to call with the bytes that were read: it returns those of the data.

        None: the bytes are where they belong.
        """
        room, land = landing(simple.address, simple.count, simple.datatype)
        if not self.converts:
            return room, land if land is None else _landed(land)
        converting: Any = self.representation
        type_ = simple.datatype.ob
        data = buffer.allocate(converting.nbytes(type_, simple.count), True)

        def convert(nbytes: int) -> int:
            length: int = converting.data_of(type_, nbytes)
            if length == 0:
                return 0
            native = buffer.allocate(room.nbytes)
            converting.from_file(simple.datatype, simple.count, data, native)
            memoryview(room)[:length] = memoryview(native)[:length]
            if land is not None:
                land(length)
            return length

        return data, convert


def _landed(land: Any) -> Any:
    def landed(nbytes: int) -> int:
        land(nbytes)
        return nbytes

    return landed


def whole_file() -> View:
    """Returns the view that a file has at first."""
    return View(0, BYTE, BYTE, "native")
