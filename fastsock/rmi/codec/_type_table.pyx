# cython: language_level=3, freethreading_compatible=True
"""The types that have forms of their own, and what is found of them without an import."""
from fastsock.rmi.codec._format cimport *

import builtins
import importlib
import sys


# Types that are met less often, by module and name: to look one up imports nothing.
LATER = {
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
BUILTIN = {
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
EXCEPTIONS = {
    name: found
    for name, found in vars(builtins).items()
    if isinstance(found, type) and issubclass(found, BaseException) and found.__name__ == name
}
for _raised in EXCEPTIONS.values():
    BUILTIN[_raised] = EXCEPTION
UNCOUNTED = (*BUILTIN, bytes, tuple, list, dict, float, int, str)  # for without="early-detection"

PATHS = ("PosixPath", "PurePosixPath", "PureWindowsPath")
PLAIN = ("|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8", "<c8", "<c16")
plain_codes = {}  # dtype to its place in PLAIN
plain_types = []
SIZES = (1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 8, 16)
_np = None  # numpy, when the first array comes


cpdef load_numpy():
    global _np
    if _np is None:
        import numpy

        plain_types[:] = [numpy.dtype(text) for text in PLAIN]
        plain_codes.update({dtype: code for code, dtype in enumerate(plain_types)})
        _np = numpy
    return _np


_found = {}


cpdef later(str module, str name):
    """A class of the standard library, imported when the first instance comes."""
    found = _found.get((module, name))
    if found is None:
        found = _found[module, name] = getattr(importlib.import_module(module), name)
    return found


def tag_of(kind):
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


def name_of(kind):
    return f"{kind.__module__}.{kind.__qualname__}"
