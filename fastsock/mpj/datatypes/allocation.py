"""Memory for messages, and addresses of memory."""

from __future__ import annotations

from operator import index

from ..constants import ERR_ARG, ERR_BASE
from ..exceptions import Exception
from ..info import INFO_NULL, Info
from ._memory import BOTTOM, acquire, buffer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ADDRESSES = 1 << 64


def Alloc_mem(size: int, info: Info = INFO_NULL) -> buffer:
    """Allocate memory for message passing and remote memory access."""
    if index(size) < 0:
        raise Exception(ERR_ARG, f"{size} bytes")
    return buffer.allocate(size)


def Free_mem(mem: buffer) -> None:
    """Free memory allocated with `Alloc_mem`."""
    if not isinstance(mem, buffer):
        raise Exception(ERR_BASE, f"a {type(mem).__name__} was not allocated")
    mem.release()


def Get_address(location: Any) -> int:
    """Get the address of a location in memory."""
    if location is None or location is BOTTOM:
        return 0
    return acquire(location, True, False).address


def Aint_add(base: int, disp: int) -> int:
    """Return the sum of base address and displacement."""
    return _signed(index(base) + index(disp))


def Aint_diff(addr1: int, addr2: int) -> int:
    """Return the difference between absolute addresses."""
    return _signed(index(addr1) - index(addr2))


def _signed(address: int) -> int:
    """The address as the signed number that C has for it."""
    address %= _ADDRESSES
    return address - _ADDRESSES if address >= _ADDRESSES // 2 else address
