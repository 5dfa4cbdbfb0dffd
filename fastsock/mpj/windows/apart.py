"""Memory of a member's own process, and what is done to it: by the origin, with the kernel's help."""

from __future__ import annotations

from ..datatypes._memory import buffer
from .exposed import unit_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..datatypes.datatype import Datatype
    from ._direct import Direct


class Apart:
    """As `Exposed`. The caller has checked where it works, and holds what has to be one step."""

    def __init__(self, native: Direct, rank: int) -> None:
        self._native = native
        self._rank = rank

    def store(self, offset: int, count: int, datatype: Datatype, data: Any) -> None:
        """Writes data over the items."""
        self._native.write_items(self._rank, offset, datatype.ob, data)

    def load(self, offset: int, count: int, datatype: Datatype) -> buffer:
        """Returns the data of the items."""
        found = buffer.allocate(count * datatype.ob.size)
        self._native.read_items(self._rank, offset, datatype.ob, found)
        return found

    def accumulate(self, op: Any, offset: int, count: int, datatype: Datatype, data: Any) -> None:
        """Combines data into the items."""
        self.fetch(op, offset, count, datatype, data)

    def fetch(self, op: Any, offset: int, count: int, datatype: Datatype, data: Any) -> buffer:
        """Combines data into the items; returns what these were."""
        before = self.load(offset, count, datatype)
        name = op.ob.name
        if name == "NO_OP":
            return before
        after = bytearray(data)
        if name != "REPLACE":
            after[:] = memoryview(before)[: len(after)]
            op._combine(unit_of(datatype))(data, memoryview(after))
        self.store(offset, count, datatype, after)
        return before
