"""A listener's presence: bound names that say that fastsock listens at an address."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable

from ..system.owned_descriptor import OwnedDescriptor
from . import unix_calls
from .names import packed, presence_name, presence_names
from .unix_calls import DATAGRAM, UNIX, Raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Presence:
    """A bound presence name, held until closed or dropped."""

    def __init__(self, name: bytes) -> None:
        """Binds the name. Raises OSError: EADDRINUSE if another listener at the address holds it."""
        self._holder: OwnedDescriptor | None = None
        holder = Raw(UNIX, DATAGRAM)
        try:
            holder.bind(name)
        except BaseException:
            holder.close()
            raise
        # A dropped listener warns by itself. The holder must not warn again, so it is only a number.
        self._holder = OwnedDescriptor(holder.detach())

    def close(self) -> None:
        if self._holder is not None:
            self._holder.close()

    def is_held(self) -> bool:
        """Whether the name is still bound. A program that closes every number closes it too."""
        return self._holder is not None and self._holder.is_ours()

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_ending():  # else this module's globals may be gone, and the kernel closes the socket
            self.close()

    def identity(self) -> tuple[int, int]:
        """Descriptor and inode."""
        assert self._holder is not None
        return self._holder.number, self._holder.inode


def announce(local: Any, dual_stack: bool) -> tuple[list[Presence], bool]:
    """Binds the presence names of a listener at `local`. Returns those that it bound, and whether it bound all.

    A name that another listener holds serves as well.
    """
    ip, port = local[0], local[1]
    if ip == "0.0.0.0":
        places = ["any4"]
    elif ip == "::":
        places = ["any6", "any4"] if dual_stack else ["any6"]
    else:
        places = [packed(ip)]
    held = []
    for place in places:
        with contextlib.suppress(OSError):
            held.append(Presence(presence_name(place, port)))
    return held, len(held) == len(places)


def has_presence(ip: str, port: int) -> bool:
    """Whether a listener with fastsock is at that address, or at every address of the port.

    The listener is told of the question, so that it looks for offers only where there may be some.
    """
    exact, anywhere = presence_names(ip, port)
    return unix_calls.knock(exact) or unix_calls.knock(anywhere)
