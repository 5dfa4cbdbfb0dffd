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
    """Return new memory of `size` bytes, with anything in it. Raises MPI.Exception (ERR_ARG) where it is negative."""
    if index(size) < 0:
        raise Exception(ERR_ARG, f"{size} bytes cannot be allocated: the size is 0 or more")
    return buffer.allocate(size)


def Free_mem(mem: buffer) -> None:
    """Free memory of `Alloc_mem`. Raises MPI.Exception (ERR_BASE) for anything else."""
    if not isinstance(mem, buffer):
        raise Exception(ERR_BASE, f"a {type(mem).__name__} does not come from Alloc_mem")
    mem.release()


def Get_address(location: Any) -> int:
    """Return the address of a buffer; 0 for BOTTOM."""
    if location is None or location is BOTTOM:
        return 0
    return acquire(location, True, False).address


def Aint_add(base: int, disp: int) -> int:
    """Return an address so many bytes further on."""
    return _signed(index(base) + index(disp))


def Aint_diff(addr1: int, addr2: int) -> int:
    """Return how many bytes lie between two addresses."""
    return _signed(index(addr1) - index(addr2))


def _signed(address: int) -> int:
    """The address as the signed number that C has for it."""
    address %= _ADDRESSES
    return address - _ADDRESSES if address >= _ADDRESSES // 2 else address
