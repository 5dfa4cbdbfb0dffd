"""Names for annotations, those of mpi4py.typing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, SupportsIndex, TypeAlias, TypeVar, Union

__all__ = [
    "Aint",
    "Bottom",
    "BufSpec",
    "BufSpecB",
    "BufSpecV",
    "BufSpecW",
    "Buffer",
    "Count",
    "Displ",
    "InPlace",
    "Offset",
    "S",
    "SupportsBuffer",
    "SupportsCAI",
    "SupportsDLPack",
    "T",
    "TargetSpec",
    "TypeSpec",
    "U",
    "V",
]

S = TypeVar("S")
T = TypeVar("T")
U = TypeVar("U")
V = TypeVar("V")


class SupportsBuffer(Protocol):
    """An object that exports a buffer."""

    def __buffer__(self, flags: int, /) -> memoryview: ...


class SupportsDLPack(Protocol):
    """An object that exports DLPack."""

    def __dlpack__(self, /, *, stream: Any = None) -> object: ...

    def __dlpack_device__(self) -> tuple[int, int]: ...


class SupportsCAI(Protocol):
    """An object that exports CUDA's array interface."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...


Buffer: TypeAlias = SupportsBuffer | SupportsDLPack | SupportsCAI
Bottom: TypeAlias = Any  # MPI.BOTTOM or None
InPlace: TypeAlias = Any  # MPI.IN_PLACE or None
Aint = Count = Displ = Offset = SupportsIndex
TypeSpec: TypeAlias = Any  # MPI.Datatype or str
BufSpec: TypeAlias = Union[Buffer, tuple[Any, ...], list[Any]]  # noqa: UP007  # at run time, before Python 3.12
BufSpecB = BufSpecV = BufSpec
BufSpecW: TypeAlias = Union[tuple[Buffer, Sequence[Any]], tuple[Buffer, Any, Sequence[Any]], list[Any]]  # noqa: UP007
TargetSpec: TypeAlias = Union[SupportsIndex, tuple[Any, ...], list[Any]]  # noqa: UP007
