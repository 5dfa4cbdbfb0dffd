"""Questions about handles that programs of Python and C ask."""

from __future__ import annotations

from .handle import Handle
from .messages.status import Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_HANDLE_SIZE = 8
_STATUS_SIZE = 32


def _sizeof(arg: Any) -> int:
    """Size in bytes of the underlying MPI handle."""
    kind = arg if isinstance(arg, type) else type(arg)
    if issubclass(kind, Status):
        return _STATUS_SIZE
    if issubclass(kind, Handle):
        return _HANDLE_SIZE
    raise TypeError("expecting an MPI type or instance")


def _addressof(arg: Any) -> int:
    """Memory address of the underlying MPI handle: of the object, as there is no handle in C."""
    if isinstance(arg, (Handle, Status)):
        return id(arg)
    raise TypeError("expecting an MPI instance")


def _handleof(arg: Any) -> int:
    """Unsigned integer value with the underlying MPI handle."""
    return id(arg) if isinstance(arg, Status) else _checked(arg).handle


def _checked(arg: Any) -> Handle:
    if not isinstance(arg, Handle):
        raise TypeError("expecting an MPI instance")
    return arg
