"""The members on this host of a window that spans hosts: an origin reads and writes their memory itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..datatypes._memory import buffer, part
from ._direct import Direct
from ._epochs import Epochs
from .apart import Apart
from .exposed import Exposed
from .sharing import open_to_all, share

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Near:
    """`exposed`: the memory of each of them, by its rank in the window. `memory`: this member's own."""

    def __init__(self, communicator: Any, memory: buffer, exposed: Mapping[int, Any], control: Any) -> None:
        self._communicator = communicator
        self._control = control
        self.memory = memory
        self.exposed = exposed

    def close(self) -> None:
        """Ends that, once nobody reaches for this member's memory any more."""
        if self._control.is_apart:
            self._control.shut_door()
        self._communicator.close()
        self.exposed, self.memory = {}, buffer()


def meet(
    communicator: Any, ranks: Sequence[int], flavor: int, memory: buffer | None, size: int, unit: int
) -> Near | None:
    """Returns how the members on this host reach each other; None where they do not. All of them call it.

    `communicator`: theirs, which this takes over. `ranks`: theirs in the window. `memory`: the program's own, if
    any; else there are `size` new bytes.
    """
    if len(ranks) == 1:
        found = None
    elif memory is None:
        found = _map(communicator, flavor, size, unit, ranks)
    else:
        found = _open(communicator, flavor, memory, unit, ranks)
    if found is None:
        communicator.close()
    return found


def _map(near: Any, flavor: int, size: int, unit: int, ranks: Sequence[int]) -> Near | None:
    shared = share(near, flavor, size, unit)
    if shared is None:
        return None
    whole = buffer.frombuffer(shared.control)
    parts = [part(whole, *where) for where in zip(shared.offsets, shared.sizes, strict=True)]
    exposed = [Exposed(memory, False) for memory in parts]
    return Near(near, parts[near.rank], dict(zip(ranks, exposed, strict=True)), shared.control)


def _open(near: Any, flavor: int, memory: buffer, unit: int, ranks: Sequence[int]) -> Near | None:
    opened = open_to_all(near, flavor, memory, unit)
    if opened is None:
        return None
    native = Direct(opened.control, Epochs(near.fail), opened.addresses, opened.sizes, opened.units, False)
    exposed = [Apart(native, place) for place in range(len(ranks))]
    return Near(near, memory, dict(zip(ranks, exposed, strict=True)), opened.control)
