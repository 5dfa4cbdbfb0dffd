"""Numbers that multiprocessing detaches from their sockets, kept on the fast path.

`multiprocessing.connection` makes a Connection of a socket's bare number. It reads, writes and closes that number by
os.read, os.write and os.close. These know the numbers of fast connections (os_calls.py). So a fast socket object
stands for the number until it is closed, or released because other code takes it.
"""

from __future__ import annotations

import _socket
import atexit
import sys

from ..connection import carriers, registry
from .patches import is_replacement, wrapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_kept: dict[int, Any] = {}


def stays_fast(taker: dict[str, Any]) -> bool:
    """Whether the module with these globals uses numbers only through functions that know fast connections."""
    if taker.get("__name__") != "multiprocessing.connection":
        return False
    kind = taker["Connection"]
    taken = (kind._read, kind._write, *kind._close.__defaults__)  # when it was imported, perhaps too early
    return all(is_replacement(function) for function in taken)


def show_askers(taker: dict[str, Any]) -> None:
    """From now on whoever asks a Connection of that module for its number is known, as he may watch it. Idempotent."""
    kind = taker["_ConnectionBase"]
    original = kind.fileno
    if is_replacement(original):
        return

    def fileno(self):  # type: ignore[no-untyped-def]
        number = original(self)
        if carriers.is_known(number):
            carriers.shown(number, sys._getframe(1))
        return number

    kind.fileno = wrapping(original, fileno)


def keep(keeper: Any) -> int:
    """Lets `keeper`, a fast socket without other users, stand for its number. Returns it. It may be polled."""
    descriptor: int = keeper.fileno()
    _kept[descriptor] = keeper
    return descriptor


def taken(descriptor: int) -> Any:
    """Takes away the socket that stood for the number, and returns it, or None. Other code owns the number now."""
    return _kept.pop(descriptor, None)


def close(descriptor: int) -> bool:
    """Closes the number and its connection. Returns False if no socket stands for the number."""
    keeper = _kept.pop(descriptor, None)
    if keeper is not None:
        keeper.close()
    return keeper is not None


def _at_exit() -> None:
    """A number that its program leaves open ends with the process. fastsock must not warn of it."""
    for keeper in list(_kept.values()):
        registry.left_open(keeper._fast_connection)
        _socket.socket.detach(keeper)


atexit.register(_at_exit)
