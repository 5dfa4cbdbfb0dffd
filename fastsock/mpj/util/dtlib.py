"""Conversion between numpy's data types and MPI's, with mpi4py's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fastsock.mpj.constants import COMBINER_INDEXED, COMBINER_INDEXED_BLOCK, COMBINER_VECTOR, ORDER_FORTRAN

from ..datatypes import datatype as datatypes
from ..datatypes.datatype import Datatype

__all__ = ["from_numpy_dtype", "to_numpy_dtype"]

DType = np.dtype[Any]


def from_numpy_dtype(dtype: Any) -> Datatype:
    """Return a new MPI datatype for a numpy data type. Raises ValueError for objects and foreign byte orders."""
    dtype = np.dtype(dtype)
    if dtype.hasobject:
        raise ValueError("NumPy datatype with object entries")
    if not dtype.isnative:
        raise ValueError("NumPy datatype with non-native byteorder")
    if dtype.fields is not None:
        fields = [dtype.fields[name] for name in dtype.names or ()]
        members = [from_numpy_dtype(field[0]) for field in fields]
        structure = Datatype.Create_struct([1] * len(fields), [field[1] for field in fields], members)
        return structure.Create_resized(0, dtype.itemsize)
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        element = from_numpy_dtype(base)
        if len(shape) == 1:
            return element.Create_contiguous(shape[0])
        return element.Create_subarray(shape, shape, [0] * len(shape))
    return Datatype.fromcode(dtype.char).Dup()


def to_numpy_dtype(datatype: Datatype) -> DType:
    """Return the numpy data type for an MPI datatype. Raises ValueError where there is none."""
    if not datatype:
        raise ValueError("cannot convert null MPI datatype to NumPy")
    base, combiner, parameters = datatype.decode()
    convert = _CONVERTERS.get(combiner)
    if convert is None:
        raise ValueError(f"cannot convert {combiner.lower()} MPI datatype to NumPy")
    return convert(datatype, base, parameters)


def _code(datatype: Datatype) -> str | None:
    return datatypes._typecode(datatype)


def _named(datatype: Datatype, base: Datatype, parameters: dict[str, Any]) -> DType:
    named = datatypes.constants_by_name
    code = _code(datatype)
    if code is not None:
        return np.dtype(code)
    for value in ("SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "LONG_DOUBLE"):
        if datatype == named[f"{value}_INT"]:
            return np.dtype(f"{_code(named[value])},i", align=True)
    raise ValueError(f"cannot convert {datatype.name} to NumPy")


def _duplicate(datatype: Datatype, base: Datatype, parameters: dict[str, Any]) -> DType:
    return to_numpy_dtype(base)


def _contiguous(datatype: Datatype, base: Datatype, parameters: dict[str, Any]) -> DType:
    return np.dtype((to_numpy_dtype(base), (parameters["count"],)))


def _subarray(datatype: Datatype, base: Datatype, parameters: dict[str, Any]) -> DType:
    shape = parameters["sizes"]
    if parameters["subsizes"] != shape or any(parameters["starts"]):
        raise ValueError("cannot convert subarray MPI datatype to NumPy")
    if parameters["order"] == ORDER_FORTRAN:
        shape = shape[::-1]
    return np.dtype((to_numpy_dtype(base), tuple(shape)))


def _pair(datatype: Datatype, base: Datatype, parameters: dict[str, Any]) -> DType:
    return np.dtype(
        [("f0", to_numpy_dtype(parameters["value"])), ("f1", to_numpy_dtype(parameters["index"]))], align=True
    )


def _resized(datatype: Datatype, base: Datatype, parameters: dict[str, Any]) -> DType:
    _, combiner, inner = base.decode()
    if combiner != "STRUCT":
        raise ValueError("cannot convert resized MPI datatype to NumPy")
    return _structure(datatype, base, inner)


def _structure(datatype: Datatype, base: Datatype, parameters: dict[str, Any]) -> DType:
    formats = [
        (to_numpy_dtype(member), length) if length != 1 else to_numpy_dtype(member)
        for member, length in zip(parameters["datatypes"], parameters["blocklengths"], strict=True)
    ]
    return _fields(formats, parameters["displacements"], datatype.extent)


def _vector(datatype: Datatype, base: Datatype, parameters: dict[str, Any]) -> DType:
    unit = base.extent if datatype.combiner == COMBINER_VECTOR else 1
    count, stride = parameters["count"], parameters["stride"] * unit
    block = (to_numpy_dtype(base), (parameters["blocklength"],))
    return _fields([block] * count, [stride * number for number in range(count)], datatype.extent)


def _indexed(datatype: Datatype, base: Datatype, parameters: dict[str, Any]) -> DType:
    by_items = datatype.combiner in (COMBINER_INDEXED, COMBINER_INDEXED_BLOCK)
    unit = base.extent if by_items else 1
    places = [place * unit for place in parameters["displacements"]]
    lengths = parameters.get("blocklengths") or [parameters["blocklength"]] * len(places)
    return _fields([(to_numpy_dtype(base), (length,)) for length in lengths], places, None)


def _fields(formats: Sequence[Any], offsets: Sequence[int], itemsize: int | None) -> DType:
    """The data type of a structure; it is marked as aligned where it is."""
    layout: Any = {
        "names": [f"f{number}" for number in range(len(formats))],
        "formats": list(formats),
        "offsets": list(offsets),
    }
    if itemsize is not None:
        layout["itemsize"] = itemsize
    try:
        found: DType = np.dtype(layout | {"aligned": True})
    except ValueError:
        found = np.dtype(layout)
    return found


_CONVERTERS: dict[str, Callable[[Datatype, Datatype, dict[str, Any]], DType]] = {
    "NAMED": _named,
    "F90_INTEGER": _named,
    "F90_REAL": _named,
    "F90_COMPLEX": _named,
    "DUP": _duplicate,
    "CONTIGUOUS": _contiguous,
    "SUBARRAY": _subarray,
    "VALUE_INDEX": _pair,
    "RESIZED": _resized,
    "STRUCT": _structure,
    "VECTOR": _vector,
    "HVECTOR": _vector,
    "INDEXED": _indexed,
    "HINDEXED": _indexed,
    "INDEXED_BLOCK": _indexed,
    "HINDEXED_BLOCK": _indexed,
}
