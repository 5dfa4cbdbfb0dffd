"""The numbers by which the native kernels know operations and types."""

from __future__ import annotations

from fastsock.core.binding._team import OPERATIONS, TYPES, can_reduce, reduce_local

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._memory import TypeRecord

__all__ = ["NUMBERS", "kernel_of", "reduce_local"]

NUMBERS: dict[object, int] = {}
"""Of the predefined operations that the kernels do, by their records."""

_BY_KIND = {
    **{("i", size): f"INT{8 * size}" for size in (1, 2, 4, 8)},
    **{("u", size): f"UINT{8 * size}" for size in (1, 2, 4, 8)},
    ("f", 4): "FLOAT",
    ("f", 8): "DOUBLE",
    ("c", 8): "COMPLEX_FLOAT",
    ("c", 16): "COMPLEX_DOUBLE",
    ("b", 1): "BOOL",
}
# Fortran's logical values, and bytes, are integers of which only some operations are defined
_LOGICAL = {("b", size): f"INT{8 * size}" for size in (2, 4, 8)}
_LOGICAL_OPERATIONS = ("LAND", "LOR", "LXOR", "REPLACE", "NO_OP")
_BYTE_OPERATIONS = ("BAND", "BOR", "BXOR", "REPLACE", "NO_OP")
_BY_CODE = {"g": "LONG_DOUBLE", "G": "COMPLEX_LONG_DOUBLE", "f16": "QUAD", "c32": "COMPLEX_QUAD"}


def kernel_of(operation: str, type_: TypeRecord) -> tuple[int, int] | None:
    """Returns (type, operation) as numbers of the native kernels; None where these do not know them."""
    known = type_.known
    if operation not in known:
        name = _name(operation, type_)
        numbers = None if name is None else (TYPES[name], OPERATIONS[operation])
        known[operation] = None if numbers is None or not can_reduce(numbers[1], numbers[0]) else numbers
    found: tuple[int, int] | None = known[operation]
    return found


def _name(operation: str, type_: TypeRecord) -> str | None:
    if type_.parts and type_.constant_name in TYPES:
        return type_.constant_name  # a pair; what its gaps hold does not travel
    if not type_.dense:
        return None
    basic = type_.basic
    if basic is None or basic.parts:
        return None
    kind = (basic.kind, basic.size)
    if kind in _LOGICAL:
        return _LOGICAL[kind] if operation in _LOGICAL_OPERATIONS else None
    if basic.kind == "V" and basic.size == 1:
        return "UINT8" if operation in _BYTE_OPERATIONS else None
    return _BY_CODE.get(basic.code) or _BY_KIND.get(kind)
