"""Windows whose members map one memory."""

from __future__ import annotations

from ..constants import PROC_NULL
from ..datatypes._memory import buffer, part
from .direct import DirectWindow
from .exposed import Exposed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .sharing import Shared


class MappedWindow(DirectWindow):
    """The windows of Allocate and Allocate_shared."""

    def __init__(self, communicator: Any, flavor: int, shared: Shared) -> None:
        whole = buffer.frombuffer(shared.control)
        addresses = [whole.address + offset for offset in shared.offsets]
        super().__init__(communicator, flavor, shared.control, addresses, shared.sizes, shared.units)
        self._parts = [part(whole, *where) for where in zip(shared.offsets, shared.sizes, strict=True)]
        self.exposed = [Exposed(memory, False) for memory in self._parts]
        self.memory = self._parts[self.rank]

    def shared_query(self, rank: int) -> tuple[buffer, int]:
        if rank == PROC_NULL:
            rank = next((member for member, size in enumerate(self.sizes) if size), 0)
        self.check(rank)
        memory = self._parts[rank]
        return part(memory, 0, memory.nbytes), self.units[rank]

    def close(self) -> None:
        super().close()
        self._parts = []
