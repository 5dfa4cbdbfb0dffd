"""Reduction operations on memory: `target = source op target`, element by element, by numpy."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from ..constants import ERR_OP
from ..exceptions import Exception
from ._memory import TypeRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Array = np.ndarray[Any, Any]
    Kernel = Callable[[Array, Array], None]


def _ufunc(function: Any) -> Kernel:
    def kernel(source: Array, target: Array) -> None:
        function(source, target, out=target)

    return kernel


def _logical(function: Any) -> Kernel:
    def kernel(source: Array, target: Array) -> None:
        target[...] = function(source, target)

    return kernel


def _locating(better: Any) -> Kernel:
    def kernel(source: Array, target: Array) -> None:
        one, other = source["value"], target["value"]
        wins = better(one, other) | ((one == other) & (source["index"] < target["index"]))
        target[wins] = source[wins]

    return kernel


def _replace(source: Array, target: Array) -> None:
    target[...] = source


def _keep(source: Array, target: Array) -> None:
    pass


# name -> (what it does, which kinds of elements it takes)
_KERNELS: dict[str, tuple[Kernel, str]] = {
    "MAX": (_ufunc(np.maximum), "iuf"),
    "MIN": (_ufunc(np.minimum), "iuf"),
    "SUM": (_ufunc(np.add), "iufc"),
    "PROD": (_ufunc(np.multiply), "iufc"),
    "LAND": (_logical(np.logical_and), "iufcb"),
    "LOR": (_logical(np.logical_or), "iufcb"),
    "LXOR": (_logical(np.logical_xor), "iufcb"),
    "BAND": (_ufunc(np.bitwise_and), "iubV"),
    "BOR": (_ufunc(np.bitwise_or), "iubV"),
    "BXOR": (_ufunc(np.bitwise_xor), "iubV"),
    "MAXLOC": (_locating(np.greater), "P"),
    "MINLOC": (_locating(np.less), "P"),
    "REPLACE": (_replace, "iufcbSVP"),
    "NO_OP": (_keep, "iufcbSVP"),
}


def check_defined(name: str, type_: TypeRecord) -> None:
    """Refuses an operation that is not defined on a type."""
    _, kind = _dtype(type_)
    if kind not in _KERNELS[name][1]:
        raise Exception(ERR_OP, f"{name} is not defined on {type_.name or 'a derived datatype'}")


def reduce_packed(name: str, type_: TypeRecord, source: Any, target: Any) -> None:
    """Combines all items of two contiguous buffers of packed items: `target = source op target`."""
    check_defined(name, type_)
    dtype, _ = _dtype(type_)
    kernel, _ = _KERNELS[name]
    with np.errstate(all="ignore"):
        kernel(np.frombuffer(source, dtype), np.frombuffer(target, dtype))


def _dtype(type_: TypeRecord) -> tuple[Any, str]:
    """The numpy type of a packed predefined datatype, and its kind: that of `TypeRecord`, or "P" for pairs."""
    found: tuple[Any, str] | None = type_.known.get("dtype")
    if found is not None:
        return found
    if type_.constant is not None and len(type_.parts) == 2:
        value, index = type_.parts
        found = np.dtype([("value", _number(value.type)), ("index", _number(index.type))]), "P"
    else:
        basic = type_.basic
        if basic is None:
            raise Exception(ERR_OP, "predefined operations are not defined on derived datatypes")
        found = _number(basic), basic.kind
    type_.known["dtype"] = found
    return found


def _number(basic: TypeRecord) -> Any:
    kind, size = basic.kind, basic.size
    if kind == "b":
        code = "?" if size == 1 else f"i{size}"
    elif kind in ("V", "S"):
        code = f"u{size}"
    elif basic.code in ("g", "G"):
        code = basic.code
    else:
        code = f"{kind}{size}"
    # numpy calls C's long double f16, which Fortran's REAL(16) is not
    if code not in ("f16", "c32"):
        with suppress(TypeError):
            return np.dtype(code)
    raise Exception(ERR_OP, f"no operation on {basic.name}")
