# cython: language_level=3, annotation_typing=False, freethreading_compatible=True
"""The types that have forms of their own, and what is found of them without an import."""

from __future__ import annotations

import builtins
import importlib
import sys
from typing import Any

try:
    import cython
except ModuleNotFoundError:
    from fastsock.rmi import _interpreted as cython

if not cython.compiled:
    from fastsock.rmi._format import (
        ARRAY,
        BYTEARRAY,
        COMPLEX,
        DATE,
        DATETIME,
        DECIMAL,
        DTYPE,
        ELLIPSIS,
        EXCEPTION,
        FRACTION,
        FROZENSET,
        NOT_IMPLEMENTED,
        PATH,
        RANGE,
        SCALAR,
        SET,
        SLICE,
        TIME,
        TIMEDELTA,
        TIMEZONE,
        TYPED_ARRAY,
        UUID,
        VIEW,
        ZONE,
    )

# Types that are met less often, by module and name: to look one up imports nothing.
LATER: dict[tuple[str, str], int] = {
    ("datetime", "datetime"): DATETIME,
    ("datetime", "date"): DATE,
    ("datetime", "time"): TIME,
    ("datetime", "timedelta"): TIMEDELTA,
    ("datetime", "timezone"): TIMEZONE,
    ("zoneinfo", "ZoneInfo"): ZONE,
    ("decimal", "Decimal"): DECIMAL,
    ("fractions", "Fraction"): FRACTION,
    ("uuid", "UUID"): UUID,
    ("pathlib", "PosixPath"): PATH,
    ("pathlib", "PurePosixPath"): PATH,
    ("pathlib", "PureWindowsPath"): PATH,
    ("array", "array"): TYPED_ARRAY,
    ("numpy", "ndarray"): ARRAY,
}
BUILTIN: dict[type, int] = {
    bytearray: BYTEARRAY,
    memoryview: VIEW,
    set: SET,
    frozenset: FROZENSET,
    complex: COMPLEX,
    range: RANGE,
    slice: SLICE,
    type(Ellipsis): ELLIPSIS,
    type(NotImplemented): NOT_IMPLEMENTED,
}
EXCEPTIONS: dict[str, type[BaseException]] = {
    name: found
    for name, found in vars(builtins).items()
    if isinstance(found, type) and issubclass(found, BaseException) and found.__name__ == name
}
for _raised in EXCEPTIONS.values():
    BUILTIN[_raised] = EXCEPTION
UNCOUNTED = (*BUILTIN, bytes, tuple, list, dict, float, int, str)  # for without="early-detection"

PATHS = ("PosixPath", "PurePosixPath", "PureWindowsPath")
PLAIN = ("|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8", "<c8", "<c16")
plain_codes: dict[Any, int] = {}  # dtype to its place in PLAIN
plain_types: list[Any] = []
SIZES = (1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 8, 16)
_np: Any = None  # numpy, when the first array comes


def load_numpy() -> Any:
    global _np
    if _np is None:
        import numpy

        plain_types[:] = [numpy.dtype(text) for text in PLAIN]
        plain_codes.update({dtype: code for code, dtype in enumerate(plain_types)})
        _np = numpy
    return _np


_found: dict[tuple[str, str], Any] = {}


def later(module: str, name: str) -> Any:
    """A class of the standard library, imported when the first instance comes."""
    found = _found.get((module, name))
    if found is None:
        found = _found[module, name] = getattr(importlib.import_module(module), name)
    return found


def tag_of(kind: type) -> int | None:
    root = kind.__module__.partition(".")[0]
    if root == "numpy":
        numpy = load_numpy()
        if issubclass(kind, numpy.generic) and kind is not numpy.record:
            return int(SCALAR)
        if issubclass(kind, numpy.dtype):
            return int(DTYPE)
    tag = LATER.get((root, kind.__qualname__))
    if tag is not None and getattr(sys.modules.get(root), kind.__qualname__, None) is kind:
        return tag
    return None


def name_of(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
