"""Datatypes: handles of type maps."""

from __future__ import annotations

from operator import index

from .. import constants
from ..attributes import Attributed
from ..constants import (
    COMBINER_CONTIGUOUS,
    COMBINER_DARRAY,
    COMBINER_DUP,
    COMBINER_F90_COMPLEX,
    COMBINER_F90_INTEGER,
    COMBINER_F90_REAL,
    COMBINER_HINDEXED,
    COMBINER_HINDEXED_BLOCK,
    COMBINER_HVECTOR,
    COMBINER_INDEXED,
    COMBINER_INDEXED_BLOCK,
    COMBINER_NAMED,
    COMBINER_RESIZED,
    COMBINER_STRUCT,
    COMBINER_SUBARRAY,
    COMBINER_VALUE_INDEX,
    COMBINER_VECTOR,
    ERR_ARG,
    ERR_COUNT,
    ERR_TYPE,
    MAX_OBJECT_NAME,
    TYPECLASS_COMPLEX,
    TYPECLASS_INTEGER,
    TYPECLASS_LOGICAL,
    TYPECLASS_REAL,
)
from ..exceptions import Exception
from ..handle import public
from . import predefined
from ._memory import Contents, MakesTypes, Part, TypeRecord, basic_type, same_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

_PREDEFINED = frozenset(
    (COMBINER_NAMED, COMBINER_VALUE_INDEX, COMBINER_F90_INTEGER, COMBINER_F90_REAL, COMBINER_F90_COMPLEX)
)
_NAMES = {value: name[len("COMBINER_") :] for name, value in vars(constants).items() if name.startswith("COMBINER_")}

_null = basic_type("MPI_DATATYPE_NULL", "", 0, "")
_null.combiner = -1


@public
class Datatype(MakesTypes, Attributed):
    """What the items of a message are, and where their data lie (MPI 4.1, chapter 5).

    Sizes, extents and bounds are in bytes. Raises MPI.Exception: ERR_TYPE for a null datatype, ERR_COUNT for a negative
    count or length, ERR_ARG for other arguments that mean nothing; and ValueError where lists differ in length.
    """

    __slots__ = ()

    ob: TypeRecord
    null = _null

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickle named types by name, others by how they are made."""
        if self.ob.constant is not None:
            return super().__reduce__()
        base, combiner, parameters = self.decode()
        return _datatype_create, (base, combiner, parameters, True)

    def _type(self) -> TypeRecord:
        """The record; raises where the handle is null."""
        record = self.ob
        if record is _null:
            raise Exception(ERR_TYPE, "the datatype is null: it was freed, or never made")
        return record

    # -- what it is --

    def Get_size(self) -> int:
        """Return how many bytes of data an item has, without its gaps."""
        return self._type().size

    def Get_extent(self) -> tuple[int, int]:
        """Return the lower bound and the extent: how far apart neighbouring items are."""
        record = self._type()
        return record.lb, record.extent

    def Get_true_extent(self) -> tuple[int, int]:
        """Return where the data of an item begin, and from there to their end."""
        record = self._type()
        return record.true_lb, record.true_extent

    @property
    def size(self) -> int:
        """How many bytes of data an item has."""
        return self._type().size

    @property
    def extent(self) -> int:
        """How many bytes neighbouring items are apart."""
        return self._type().extent

    @property
    def lb(self) -> int:
        """The lower bound, in bytes."""
        return self._type().lb

    @property
    def ub(self) -> int:
        """The upper bound, in bytes."""
        return self._type().lb + self.ob.extent

    @property
    def true_extent(self) -> int:
        """How many bytes there are from the first byte of data to the end of the last."""
        return self._type().true_extent

    @property
    def true_lb(self) -> int:
        """Where the data begin, in bytes."""
        return self._type().true_lb

    @property
    def true_ub(self) -> int:
        """Where the data end, in bytes."""
        return self._type().true_ub

    # -- making others of it: see MakesTypes --

    @classmethod
    def Get_value_index(cls, value: Datatype, index: Datatype) -> Self:
        """Return the predefined datatype of pairs of a value and an index; DATATYPE_NULL where there is none."""
        found = _value_index.get((_typed(value), _typed(index)))
        return cls.of(_null if found is None else found)

    @classmethod
    def Create_f90_integer(cls, r: int) -> Self:
        """Return an integer type of at least `r` decimal digits. Raises MPI.Exception (ERR_ARG)."""
        for digits, size in ((2, 1), (4, 2), (9, 4), (18, 8), (38, 16)):
            if r <= digits:
                return cls.of(_parametrised(COMBINER_F90_INTEGER, f"INTEGER{size}", (r,)))
        raise Exception(ERR_ARG, f"no integer type has {r} decimal digits")

    @classmethod
    def Create_f90_real(cls, p: int, r: int) -> Self:
        """Return a real type of at least `p` decimal digits and the range `r`. Raises MPI.Exception (ERR_ARG)."""
        return cls.of(_parametrised(COMBINER_F90_REAL, f"REAL{_real_size(p, r)}", (p, r)))

    @classmethod
    def Create_f90_complex(cls, p: int, r: int) -> Self:
        """Return a complex type of at least `p` digits and the range `r`. Raises MPI.Exception (ERR_ARG)."""
        return cls.of(_parametrised(COMBINER_F90_COMPLEX, f"COMPLEX{2 * _real_size(p, r)}", (p, r)))

    @classmethod
    def Match_size(cls, typeclass: int, size: int) -> Self:
        """Return the type of a class (TYPECLASS_...) with so many bytes. Raises MPI.Exception (ERR_ARG)."""
        name = _CLASSES.get(typeclass)
        record = predefined.TYPES.get(f"{name}{size}")
        if name is None or record is None:
            raise Exception(ERR_ARG, f"no datatype of class {typeclass} has {size} bytes")
        found: Self = cls.for_record(record)
        return found

    # -- how it was made --

    def Get_envelope(self) -> tuple[int, int, int, int, int]:
        """Return how many (integers, addresses, counts, datatypes) the type was made with, and its combiner."""
        record = self._type()
        contents = record.contents
        if contents is None:
            return 0, 0, 0, 0, record.combiner
        return len(contents.integers), 0, len(contents.counts), len(contents.types), record.combiner

    def Get_contents(self) -> tuple[list[int], list[int], list[int], list[Datatype]]:
        """Return the (integers, addresses, counts, datatypes) that the type was made with.

        Raises MPI.Exception (ERR_TYPE) where it is predefined.
        """
        contents = self._type().contents
        if contents is None:
            raise Exception(ERR_TYPE, f"{self.ob.name} is predefined and has no contents")
        types = [Datatype.for_record(type_) for type_ in contents.types]
        return list(contents.integers), [], list(contents.counts), types

    @property
    def envelope(self) -> tuple[int, int, int, int, int]:
        """What `Get_envelope` returns."""
        return self.Get_envelope()

    @property
    def contents(self) -> tuple[list[int], list[int], list[int], list[Datatype]]:
        """What `Get_contents` returns."""
        return self.Get_contents()

    def decode(self) -> tuple[Datatype, str, dict[str, Any]]:
        """Return the datatype that this one was made of, the name of its combiner, and the arguments by name."""
        record = self._type()
        contents = record.contents
        name = _NAMES[record.combiner]
        if contents is None:
            return (self if record.constant is None else self.for_record(record)), name, {}
        types = [Datatype.for_record(type_) for type_ in contents.types]
        base = types[0] if len(types) == 1 else DATATYPE_NULL
        return base, name, _parameters(record.combiner, contents, types)

    @property
    def combiner(self) -> int:
        """How the datatype was made: a constant COMBINER_..."""
        return self._type().combiner

    @property
    def is_named(self) -> bool:
        """Whether this is a named datatype."""
        return self._type().combiner == COMBINER_NAMED

    @property
    def is_predefined(self) -> bool:
        """Whether this is a predefined datatype; the null handle is one."""
        return self.ob is _null or self.ob.combiner in _PREDEFINED

    # -- packing --

    def Pack(self, inbuf: Any, outbuf: Any, position: int, comm: Any) -> int:
        """Pack all whole items of `inbuf` into `outbuf` from byte `position` on; return the position after them.

        Raises MPI.Exception: ERR_TRUNCATE where they have no room, ERR_TYPE where the extent is not positive.
        """
        from .packing import pack

        return pack(self._type(), inbuf, outbuf, position)

    def Unpack(self, inbuf: Any, position: int, outbuf: Any, comm: Any) -> int:
        """Unpack `inbuf` from byte `position` on into all items of `outbuf`; return the position after them.

        Raises MPI.Exception: ERR_TRUNCATE where there are not enough, ERR_TYPE where the extent is not positive.
        """
        from .packing import unpack

        return unpack(self._type(), inbuf, position, outbuf)

    def Pack_size(self, count: int, comm: Any) -> int:
        """Return how many bytes `count` packed items take."""
        return _count(count) * self._type().size

    def Pack_external(self, datarep: str, inbuf: Any, outbuf: Any, position: int) -> int:
        """Do what `Pack` does, in the portable representation **external32**: the only `datarep` that there is.

        Raises MPI.Exception (ERR_UNSUPPORTED_DATAREP) for another, and as `Pack` does.
        """
        from .packing import pack_external

        return pack_external(datarep, self._type(), inbuf, outbuf, position)

    def Unpack_external(self, datarep: str, inbuf: Any, position: int, outbuf: Any) -> int:
        """Do what `Unpack` does, from the representation **external32**. Raises as `Pack_external` does."""
        from .packing import unpack_external

        return unpack_external(datarep, self._type(), inbuf, position, outbuf)

    def Pack_external_size(self, datarep: str, count: int) -> int:
        """Return how many bytes `count` items take in **external32**. Raises as `Pack_external` does."""
        from .packing import external_size

        return external_size(datarep, self._type(), _count(count))

    # -- names and codes --

    def Get_name(self) -> str:
        """Return the name."""
        return self.ob.name

    def Set_name(self, name: str) -> None:
        """Set the name; what is longer than MAX_OBJECT_NAME - 1 characters is cut."""
        self._type().name = name[: MAX_OBJECT_NAME - 1]

    name = property(Get_name, Set_name, doc="Print name.")

    def tocode(self) -> str:
        """Return the code by which Python knows a predefined datatype. Raises ValueError where there is none."""
        code = _coded(self.ob).code
        if not code:
            raise ValueError("cannot map to character code or type string")
        return code

    @classmethod
    def fromcode(cls, code: str) -> Datatype:
        """Return the predefined datatype that has this code in Python. Raises ValueError where there is none."""
        try:
            return by_code[code]
        except KeyError:
            raise ValueError(f"cannot map code {code!r} to MPI datatype") from None

    @property
    def typestr(self) -> str:
        """The type string, as numpy writes it; V and the extent where there is none."""
        if self.ob is _null:
            return ""
        return predefined.type_string(_coded(self.ob)) or f"V{max(self.ob.extent, 0)}"

    @property
    def typechar(self) -> str:
        """The character code, as numpy writes it; V where there is none."""
        if self.ob is _null:
            return ""
        return predefined.type_char(_coded(self.ob)) or "V"


def _typed(datatype: Datatype) -> TypeRecord:
    if not isinstance(datatype, Datatype):
        raise TypeError(f"expected a Datatype, got a {type(datatype).__name__}")
    return datatype._type()


def _count(value: int) -> int:
    value = index(value)
    if value < 0:
        raise Exception(ERR_COUNT, f"{value} is negative")
    return value


def _real_size(p: int, r: int) -> int:
    for digits, range_, size in ((6, 37, 4), (15, 307, 8), (33, 4931, 16)):
        if p <= digits and r <= range_:
            return size
    raise Exception(ERR_ARG, f"no real type has {p} decimal digits and the range {r}")


_CLASSES = {
    TYPECLASS_REAL: "REAL",
    TYPECLASS_INTEGER: "INTEGER",
    TYPECLASS_COMPLEX: "COMPLEX",
    TYPECLASS_LOGICAL: "LOGICAL",
}
_parametrised_types: dict[tuple[int, ...], TypeRecord] = {}


def _parametrised(combiner: int, name: str, arguments: tuple[int, ...]) -> TypeRecord:
    """The one record for these arguments."""
    key = (combiner, *arguments)
    if key not in _parametrised_types:
        base = predefined.TYPES[name]
        new = same_type(base, combiner, Contents(arguments, (), ()))
        new.name, new.code, new.kind, new.predefined = base.name, base.code, base.kind, True
        new.parts = [Part(base, (0,), 1)]
        _parametrised_types[key] = new
    return _parametrised_types[key]


def _coded(record: TypeRecord) -> TypeRecord:
    """The type whose codes stand for this one: of a duplicate, the original."""
    while record.combiner == COMBINER_DUP and record.contents is not None:
        record = record.contents.types[0]
    return record


def _parameters(combiner: int, contents: Contents, types: list[Datatype]) -> dict[str, Any]:
    """The named arguments by which `Create_...` makes the type again."""
    integers, counts = list(contents.integers), list(contents.counts)
    if combiner == COMBINER_CONTIGUOUS:
        return {"count": counts[0]}
    if combiner in (COMBINER_VECTOR, COMBINER_HVECTOR):
        return dict(zip(("count", "blocklength", "stride"), counts, strict=True))
    if combiner in (COMBINER_INDEXED, COMBINER_HINDEXED, COMBINER_STRUCT):
        n = counts[0]
        found = {"blocklengths": counts[1 : n + 1], "displacements": counts[n + 1 :]}
        return {**found, "datatypes": types} if combiner == COMBINER_STRUCT else found
    if combiner in (COMBINER_INDEXED_BLOCK, COMBINER_HINDEXED_BLOCK):
        return {"blocklength": counts[1], "displacements": counts[2:]}
    if combiner == COMBINER_SUBARRAY:
        n = integers[0]
        lists = [counts[i * n : (i + 1) * n] for i in range(3)]
        return {**dict(zip(("sizes", "subsizes", "starts"), lists, strict=True)), "order": integers[1]}
    if combiner == COMBINER_DARRAY:
        n = integers[2]
        lists = [integers[3 + i * n : 3 + (i + 1) * n] for i in range(3)]
        some = dict(zip(("distribs", "dargs", "psizes"), lists, strict=True))
        return {"size": integers[0], "rank": integers[1], "gsizes": list(counts), **some, "order": integers[-1]}
    if combiner == COMBINER_RESIZED:
        return {"lb": counts[0], "extent": counts[1]}
    if combiner == COMBINER_VALUE_INDEX:
        return {"value": types[0], "index": types[1]}
    if combiner == COMBINER_F90_INTEGER:
        return {"r": integers[0]}
    if combiner in (COMBINER_F90_REAL, COMBINER_F90_COMPLEX):
        return {"p": integers[0], "r": integers[1]}
    return {}


def _datatype_create(datatype: Datatype, combiner: str, params: dict[str, Any], free: bool = False) -> Datatype:
    """Return the datatype that `Create_...` makes of another with these arguments; the reverse of `decode`."""
    made: Datatype = getattr(datatype, f"Create_{combiner.lower()}")(**params).Commit()
    return made


def _datatype_decode(datatype: Datatype, mark: bool = False) -> tuple[Datatype, str, dict[str, Any]]:
    """Decode datatype to base datatype, combiner name, and parameters."""
    return datatype.decode()


def _typecode(datatype: Datatype) -> str | None:
    """Return the code of a datatype in Python; None where it has none."""
    return _coded(datatype.ob).code or None


def _typealign(datatype: Datatype) -> int | None:
    """Return MPI datatype alignment."""
    record = _coded(datatype.ob)
    return record.alignment if record.combiner in _PREDEFINED else None


DATATYPE_NULL = Datatype.named(_null, "DATATYPE_NULL")

constants_by_name: dict[str, Datatype] = {"DATATYPE_NULL": DATATYPE_NULL}
"""All predefined datatypes by the names of the module's constants."""
for _name, _record in predefined.TYPES.items():
    constants_by_name[_name] = Datatype.named(_record, _name)
for _alias, _name in predefined.ALIASES.items():
    constants_by_name[_alias] = constants_by_name[_name]

BYTE = constants_by_name["BYTE"]

by_code: dict[str, Datatype] = {code: constants_by_name[name] for code, name in predefined.CODES.items()}
"""The predefined datatypes by character code and type string."""
by_code_c = {code: by_code[code] for code in predefined.C_CODES}
by_code_fortran = {code: constants_by_name[name] for code, name in predefined.FORTRAN_CODES.items()}

_value_index: dict[tuple[TypeRecord, TypeRecord], TypeRecord] = {
    (predefined.TYPES[_name], predefined.TYPES["INT"]): predefined.TYPES[f"{_name}_INT"]
    for _name in ("SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "LONG_DOUBLE")
}
