"""How items stand in a file: as in memory, in the portable representation, or as the program's own functions say."""

from __future__ import annotations

from collections.abc import Callable

from .. import ranks
from ..constants import (
    COMBINER_F90_COMPLEX,
    COMBINER_F90_INTEGER,
    COMBINER_F90_REAL,
    COMBINER_NAMED,
    COMBINER_VALUE_INDEX,
    ERR_ARG,
    ERR_CONVERSION,
    ERR_DUP_DATAREP,
    ERR_UNSUPPORTED_DATAREP,
    MAX_DATAREP_STRING,
)
from ..datatypes._memory import TypeRecord, buffer
from ..datatypes.datatype import BYTE, Datatype, _datatype_create
from ..exceptions import Exception as MPIException

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Convert = Callable[[Any, Datatype, int, Any, int], None]

_BASIC = (COMBINER_NAMED, COMBINER_VALUE_INDEX, COMBINER_F90_INTEGER, COMBINER_F90_REAL, COMBINER_F90_COMPLEX)


class Representation:
    """As in memory: nothing is converted."""

    converts = False

    def in_file(self, datatype: Datatype) -> Datatype:
        """Returns the datatype of bytes that says where the data of an item stand in the file."""
        return datatype

    def nbytes(self, type_: TypeRecord, count: int) -> int:
        """Returns how many bytes the data of so many items are in the file."""
        return count * type_.size


class _Converting(Representation):
    converts = True

    def basic_size(self, type_: TypeRecord) -> int:
        """Returns how many bytes a basic item has in the file."""
        raise NotImplementedError

    def in_file(self, datatype: Datatype) -> Datatype:
        record = datatype._type()
        found: Datatype | None = record.known.get(("in file", self))
        if found is None:
            found = record.known["in file", self] = self._made(datatype)
        return found

    def _made(self, datatype: Datatype) -> Datatype:
        record = datatype.ob
        if record.combiner in _BASIC:
            return BYTE.Create_contiguous(sum(self.basic_size(basic) for basic, _ in record.basics()))
        base, combiner, parameters = datatype.decode()
        if "datatypes" in parameters:
            parameters["datatypes"] = [self.in_file(each) for each in parameters["datatypes"]]
        else:
            base = self.in_file(base)
        return _datatype_create(base, combiner, parameters)

    def nbytes(self, type_: TypeRecord, count: int) -> int:
        if type_.basic is not None and type_.basic.size:
            return count * type_.elements * self.basic_size(type_.basic)
        return count * sum(self.basic_size(basic) for basic, _ in type_.basics())

    def data_of(self, type_: TypeRecord, nbytes: int) -> int:
        """Returns how many bytes in memory the whole elements are among the first bytes in the file."""
        item = self.nbytes(type_, 1)
        whole, rest = divmod(nbytes, item)
        found = whole * type_.size
        for basic, _ in type_.basics():
            rest -= self.basic_size(basic)
            if rest < 0:
                break
            found += basic.size
        return found

    def to_file(self, datatype: Datatype, count: int, packed: buffer) -> buffer:
        """Returns the data of items, which are given without their gaps, as they are to stand in the file."""
        raise NotImplementedError

    def from_file(self, datatype: Datatype, count: int, data: buffer, packed: buffer) -> None:
        """Does the opposite. The data are those of all items, also where not all were read."""
        raise NotImplementedError


class _External(_Converting):
    """external32: the numbers big end first, of standard sizes."""

    def basic_size(self, type_: TypeRecord) -> int:
        return type_.wire

    def to_file(self, datatype: Datatype, count: int, packed: buffer) -> buffer:
        from ..datatypes.packing import to_external  # with numpy

        return buffer.frombuffer(to_external(datatype.ob, count, packed))

    def from_file(self, datatype: Datatype, count: int, data: buffer, packed: buffer) -> None:
        from ..datatypes.packing import from_external

        memoryview(packed)[:] = memoryview(from_external(datatype.ob, count, data))


class _Own(_Converting):
    """A program's own. Its functions see items without their gaps."""

    def __init__(self, read: Convert | None, write: Convert | None, extent: Callable[[Datatype], int]) -> None:
        self.read = read
        self.write = write
        self.extent = extent
        self._sizes: dict[TypeRecord, int] = {}

    def basic_size(self, type_: TypeRecord) -> int:
        if type_ not in self._sizes:
            self._sizes[type_] = self._call(self.extent, Datatype.for_record(type_))
        return self._sizes[type_]

    def to_file(self, datatype: Datatype, count: int, packed: buffer) -> buffer:
        if self.write is None:
            return packed
        data = buffer.allocate(self.nbytes(datatype.ob, count), True)
        self._call(self.write, packed, _without_gaps(datatype), count, data, 0)
        return data

    def from_file(self, datatype: Datatype, count: int, data: buffer, packed: buffer) -> None:
        if self.read is None:
            memoryview(packed)[:] = memoryview(data)[: packed.nbytes]
        else:
            self._call(self.read, packed, _without_gaps(datatype), count, data, 0)

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except MPIException:
            raise
        except Exception as error:  # whatever the program's function raises
            text = f"a function of the data representation raised {error!r}"
            raise MPIException(ERR_CONVERSION, text) from error


def _without_gaps(datatype: Datatype) -> Datatype:
    """Returns the datatype of the same elements, one after another."""
    record = datatype.ob
    if record.dense:
        return datatype
    found: Datatype | None = record.known.get("without gaps")
    if found is None:
        places, types, end = [], [], 0
        for basic, _ in record.basics():
            places.append(end)
            types.append(Datatype.for_record(basic))
            end += basic.size
        found = Datatype.Create_struct([1] * len(types), places, types).Create_resized(0, end)
        record.known["without gaps"] = found
    return found


_PREDEFINED: dict[str, Representation] = {
    "native": Representation(),
    "internal": Representation(),
    "external32": _External(),
}


def representation(name: str) -> Representation:
    """Returns the representation of a name. Raises MPI.Exception (ERR_UNSUPPORTED_DATAREP)."""
    known = _PREDEFINED | ranks.current().representations
    found: Representation | None = known.get(name)
    if found is None:
        raise MPIException(ERR_UNSUPPORTED_DATAREP, f"no data representation {name!r}: there are {', '.join(known)}")
    return found


def Register_datarep(
    datarep: str, read_fn: Convert | None, write_fn: Convert | None, extent_fn: Callable[[Datatype], int]
) -> None:
    """Give a name to a data representation of the program's own, for `File.Set_view`.

    `extent_fn` gets a predefined datatype and returns how many bytes an item of it has in the file. The others get
    (items in memory, their datatype, their number, the bytes in the file, 0) and fill the one from the other. None:
    nothing is converted. Raises MPI.Exception: ERR_DUP_DATAREP for a name that is taken, ERR_ARG for one that is too
    long.
    """
    own = ranks.current().representations
    if datarep in _PREDEFINED or datarep in own:
        raise MPIException(ERR_DUP_DATAREP, f"there is a data representation {datarep!r} already: take another name")
    if not datarep or len(datarep) > MAX_DATAREP_STRING:
        raise MPIException(ERR_ARG, f"a name of {len(datarep)} characters: it has 1 to {MAX_DATAREP_STRING}")
    own[datarep] = _Own(read_fn, write_fn, extent_fn)
