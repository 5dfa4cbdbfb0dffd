"""The named datatypes of C, C++ and Fortran, and the codes by which Python knows them."""

from __future__ import annotations

import struct

from ..constants import COMBINER_NAMED
from ._memory import LONG_DOUBLE_ALIGNMENT, LONG_DOUBLE_SIZE, WCHAR_SIZE, Part, TypeRecord, basic_type, struct_type

_POINTER = struct.calcsize("P")


def _c(name: str, code: str, native: str, kind: str, wire: int = 0) -> TypeRecord:
    """A type of C. `struct` knows its size by the letter `native`."""
    size = struct.calcsize(native)
    return basic_type(name, kind, size, code, alignment=struct.calcsize(f"c{native}") - size, wire=wire)


def _complex(name: str, code: str, part: TypeRecord) -> TypeRecord:
    return basic_type(name, "c", 2 * part.size, code, alignment=part.alignment, wire=2 * part.wire)


def _fortran(name: str, kind: str, size: int, code: str) -> TypeRecord:
    alignment = size // 2 if kind == "c" else size
    return basic_type(name, kind, size, code, alignment=min(alignment, 16))


def _pair(name: str, value: TypeRecord, index: TypeRecord) -> TypeRecord:
    """The type of a C structure of the two."""
    offset = value.size + -value.size % index.alignment
    made = struct_type(COMBINER_NAMED, None, [value, index], [0, offset], [1, 1])
    made.name, made.parts = name, [Part(value, (0,), 1), Part(index, (offset,), 1)]
    return made


_long_double = basic_type("LONG_DOUBLE", "f", LONG_DOUBLE_SIZE, "g", alignment=LONG_DOUBLE_ALIGNMENT, wire=16)
_float = _c("FLOAT", "f", "f", "f")
_double = _c("DOUBLE", "d", "d", "f")
_short = _c("SHORT", "h", "h", "i")
_int = _c("INT", "i", "i", "i")
_long = _c("LONG", "l", "l", "i", 4)

_TYPES = [
    basic_type("PACKED", "V", 1, "B"),
    basic_type("BYTE", "V", 1, "B"),
    basic_type("AINT", "i", _POINTER, "p", wire=8),
    basic_type("OFFSET", "i", 8, "p" if _POINTER == 8 else "q"),
    basic_type("COUNT", "i", 8, "p" if _POINTER == 8 else "q"),
    _c("CHAR", "c", "c", "S"),
    basic_type("WCHAR", "S", WCHAR_SIZE, "U", wire=2),
    _c("SIGNED_CHAR", "b", "b", "i"),
    _short,
    _int,
    _long,
    _c("LONG_LONG", "q", "q", "i"),
    _c("UNSIGNED_CHAR", "B", "B", "u"),
    _c("UNSIGNED_SHORT", "H", "H", "u"),
    _c("UNSIGNED", "I", "I", "u"),
    _c("UNSIGNED_LONG", "L", "L", "u", 4),
    _c("UNSIGNED_LONG_LONG", "Q", "Q", "u"),
    _float,
    _double,
    _long_double,
    _c("C_BOOL", "b1", "?", "b"),
    _c("INT8_T", "i1", "b", "i"),
    _c("INT16_T", "i2", "h", "i"),
    _c("INT32_T", "i4", "i", "i"),
    _c("INT64_T", "i8", "q", "i"),
    _c("UINT8_T", "u1", "B", "u"),
    _c("UINT16_T", "u2", "H", "u"),
    _c("UINT32_T", "u4", "I", "u"),
    _c("UINT64_T", "u8", "Q", "u"),
    basic_type("FLOAT16_T", "f", 2, "e"),
    basic_type("BFLOAT16_T", "V", 2, ""),
    _complex("C_COMPLEX", "F", _float),
    _complex("C_DOUBLE_COMPLEX", "D", _double),
    _complex("C_LONG_DOUBLE_COMPLEX", "G", _long_double),
    _c("CXX_BOOL", "?", "?", "b"),
    _complex("CXX_FLOAT_COMPLEX", "F", _float),
    _complex("CXX_DOUBLE_COMPLEX", "D", _double),
    _complex("CXX_LONG_DOUBLE_COMPLEX", "G", _long_double),
    _pair("SHORT_INT", _short, _int),
    _pair("INT_INT", _int, _int),
    _pair("LONG_INT", _long, _int),
    _pair("FLOAT_INT", _float, _int),
    _pair("DOUBLE_INT", _double, _int),
    _pair("LONG_DOUBLE_INT", _long_double, _int),
    _fortran("CHARACTER", "S", 1, "c"),
    _fortran("LOGICAL", "b", 4, "i"),
    _fortran("INTEGER", "i", 4, "i"),
    _fortran("REAL", "f", 4, "f"),
    _fortran("DOUBLE_PRECISION", "f", 8, "d"),
    _fortran("COMPLEX", "c", 8, "F"),
    _fortran("DOUBLE_COMPLEX", "c", 16, "D"),
    _fortran("LOGICAL1", "b", 1, "b1"),
    _fortran("LOGICAL2", "b", 2, "i2"),
    _fortran("LOGICAL4", "b", 4, "i4"),
    _fortran("LOGICAL8", "b", 8, "i8"),
    _fortran("LOGICAL16", "b", 16, "i16"),
    _fortran("INTEGER1", "i", 1, "i1"),
    _fortran("INTEGER2", "i", 2, "i2"),
    _fortran("INTEGER4", "i", 4, "i4"),
    _fortran("INTEGER8", "i", 8, "i8"),
    _fortran("INTEGER16", "i", 16, "i16"),
    _fortran("REAL2", "f", 2, "f2"),
    _fortran("REAL4", "f", 4, "f4"),
    _fortran("REAL8", "f", 8, "f8"),
    _fortran("REAL16", "f", 16, "f16"),
    _fortran("COMPLEX4", "c", 4, "c4"),
    _fortran("COMPLEX8", "c", 8, "c8"),
    _fortran("COMPLEX16", "c", 16, "c16"),
    _fortran("COMPLEX32", "c", 32, "c32"),
]

TYPES: dict[str, TypeRecord] = {record.name: record for record in _TYPES}
"""The records of the named types by the names of the module's constants."""

# The names that programs are told, where they are not just the constant's.
for _name, _shown in {"LONG_LONG": "LONG_LONG_INT", "INT_INT": "2INT"}.items():
    TYPES[_name].name = _shown
for _record in _TYPES:
    _record.name = f"MPI_{_record.name}"

ALIASES = {
    "TWOINT": "INT_INT",
    "FLOAT32_T": "FLOAT",
    "FLOAT64_T": "DOUBLE",
    "C_FLOAT_COMPLEX": "C_COMPLEX",
    "UNSIGNED_INT": "UNSIGNED",
    "SIGNED_SHORT": "SHORT",
    "SIGNED_INT": "INT",
    "SIGNED_LONG": "LONG",
    "SIGNED_LONG_LONG": "LONG_LONG",
    "BOOL": "C_BOOL",
    "SINT8_T": "INT8_T",
    "SINT16_T": "INT16_T",
    "SINT32_T": "INT32_T",
    "SINT64_T": "INT64_T",
    "F_BOOL": "LOGICAL",
    "F_INT": "INTEGER",
    "F_FLOAT": "REAL",
    "F_DOUBLE": "DOUBLE_PRECISION",
    "F_COMPLEX": "COMPLEX",
    "F_FLOAT_COMPLEX": "COMPLEX",
    "F_DOUBLE_COMPLEX": "DOUBLE_COMPLEX",
}

CODES = {
    "?": "C_BOOL",
    "b": "SIGNED_CHAR",
    "h": "SHORT",
    "i": "INT",
    "l": "LONG",
    "q": "LONG_LONG",
    "B": "UNSIGNED_CHAR",
    "H": "UNSIGNED_SHORT",
    "I": "UNSIGNED",
    "L": "UNSIGNED_LONG",
    "Q": "UNSIGNED_LONG_LONG",
    "e": "FLOAT16_T",
    "f": "FLOAT",
    "d": "DOUBLE",
    "g": "LONG_DOUBLE",
    "E": "COMPLEX4",
    "F": "C_COMPLEX",
    "D": "C_DOUBLE_COMPLEX",
    "G": "C_LONG_DOUBLE_COMPLEX",
    "Ze": "COMPLEX4",
    "Zf": "C_COMPLEX",
    "Zd": "C_DOUBLE_COMPLEX",
    "Zg": "C_LONG_DOUBLE_COMPLEX",
    "b1": "C_BOOL",
    "i1": "INT8_T",
    "i2": "INT16_T",
    "i4": "INT32_T",
    "i8": "INT64_T",
    "i16": "INTEGER16",
    "u1": "UINT8_T",
    "u2": "UINT16_T",
    "u4": "UINT32_T",
    "u8": "UINT64_T",
    "f2": "FLOAT16_T",
    "f4": "FLOAT",
    "f8": "DOUBLE",
    "f16": "LONG_DOUBLE" if _long_double.size == 16 else "REAL16",
    "c4": "COMPLEX4",
    "c8": "C_COMPLEX",
    "c16": "C_DOUBLE_COMPLEX",
    "c32": "C_LONG_DOUBLE_COMPLEX" if _long_double.size == 16 else "COMPLEX32",
    "n": "COUNT" if _POINTER == 8 else "INT",
    "N": "UNSIGNED_LONG" if _long.size == _POINTER else "UNSIGNED",
    "p": "AINT",
    "P": "UNSIGNED_LONG" if _long.size == _POINTER else "UNSIGNED",
    "c": "CHAR",
    "a": "CHAR",
    "S": "CHAR",
    "S1": "CHAR",
    "s": "CHAR",
    "1s": "CHAR",
    "U": "WCHAR",
    "U1": "WCHAR",
    "u": "UINT16_T",
    "1u": "UINT16_T",
    "w": "WCHAR",
    "1w": "WCHAR",
    "M": "INT64_T",
    "M8": "INT64_T",
    "m": "INT64_T",
    "m8": "INT64_T",
}
"""Character codes and type strings, as in the buffer protocol and in numpy, and the constants that they mean."""

C_CODES = [*"?bhilqBHILQfdgFDG", "b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "f16"]
C_CODES += ["c8", "c16", "c32"]
"""Those of `CODES` that mean C types by size and kind."""

FORTRAN_CODES = {
    "l": "LOGICAL",
    "i": "INTEGER",
    "r": "REAL",
    "s": "REAL",
    "d": "DOUBLE_PRECISION",
    "c": "COMPLEX",
    "z": "DOUBLE_COMPLEX",
    **{f"l{n}": f"LOGICAL{n}" for n in (1, 2, 4, 8, 16)},
    **{f"i{n}": f"INTEGER{n}" for n in (1, 2, 4, 8, 16)},
    **{f"r{n}": f"REAL{n}" for n in (2, 4, 8, 16)},
    **{f"c{n}": f"COMPLEX{n}" for n in (4, 8, 16, 32)},
}

_CHARS = {
    "b": {1: "?", 2: "h", 4: "i", 8: "l"},
    "i": {1: "b", 2: "h", 4: "i", 8: "l"},
    "u": {1: "B", 2: "H", 4: "I", 8: "L"},
    "f": {2: "e", 4: "f", 8: "d", 16: "g"},
    "c": {4: "E", 8: "F", 16: "D", 32: "G"},
}


def type_char(record: TypeRecord) -> str:
    """The character code of a named type; empty where it has none."""
    if len(record.code) <= 1:
        return record.code
    return _CHARS[record.kind].get(record.size, "")


def type_string(record: TypeRecord) -> str:
    """The type string of a named type, as numpy writes it; empty where it has none."""
    if not record.code:
        return ""
    if record.kind == "S":
        return "U1" if record.size > 1 else "S1"
    if record.kind == "V":
        return "u1"
    kind = "i" if record.kind == "b" and record.size > 1 else record.kind
    return f"{kind}{record.size}"
