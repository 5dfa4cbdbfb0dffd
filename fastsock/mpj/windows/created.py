"""Windows of a program's own memory, whose members share a host: their origins reach into the targets' processes."""

from __future__ import annotations

from ..constants import ERR_RMA_ATTACH, ERR_RMA_RANGE, PROC_NULL, WIN_FLAVOR_DYNAMIC
from ..datatypes._memory import buffer, part, span
from .apart import Apart
from .direct import DirectWindow
from .exposed import Exposed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .sharing import Opened
    from .target import Place


class CreatedWindow(DirectWindow):
    """The windows of Create and Create_dynamic."""

    def __init__(self, communicator: Any, flavor: int, memory: buffer, opened: Opened) -> None:
        super().__init__(communicator, flavor, opened.control, opened.addresses, opened.sizes, opened.units)
        self.exposed = [Apart(self.native, rank) for rank in range(len(opened.sizes))]
        self.memory = memory
        self._own = Exposed(memory, flavor == WIN_FLAVOR_DYNAMIC)  # what the program may let go of stays

    def reached(self, rank: int, place: Place) -> int:
        """Of a dynamic window it returns an address."""
        if not self._own.dynamic:
            return super().reached(rank, place)
        self.check(rank)
        self.epochs.access(rank)
        low, high = span(place.datatype._type(), place.count)
        low, high = low + place.displacement, high + place.displacement
        is_address = 0 <= low <= high < 1 << 63
        if place.nbytes and not (is_address and self._do(self.native.control.is_attached, rank, low, high)):
            raise self.fail(ERR_RMA_RANGE, f"the addresses {low:#x} to {high:#x} are not attached to {self.title}")
        return place.displacement

    def attach(self, memory: buffer) -> None:
        self.check(self.rank)
        with self._own.updating:
            self.guarded(self._own.attach, memory)
            if memory.nbytes and not self.native.control.attach(memory.address, memory.nbytes):
                self._own.detach(memory)
                raise self.fail(ERR_RMA_ATTACH, f"too much is attached to {self.title}: attach larger pieces of memory")

    def detach(self, memory: buffer) -> None:
        self.check(self.rank)
        with self._own.updating:
            self.guarded(self._own.detach, memory)
            self.native.control.detach(memory.address)

    def shared_query(self, rank: int) -> tuple[buffer, int]:
        if rank == PROC_NULL:
            rank = next((member for member, size in enumerate(self.sizes) if size), 0)
        self.check(rank)
        memory = self.memory if rank == self.rank else buffer()
        return part(memory, 0, memory.nbytes), self.units[rank]

    def close(self) -> None:
        if self.native is not None:
            self.native.control.shut_door()
        super().close()
        self._own.close()
