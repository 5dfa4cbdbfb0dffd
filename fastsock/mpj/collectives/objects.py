"""Collective operations on objects: the lower-case calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..datatypes.op import SUM, Op
from ..handle import Handle
from ..messages.pickling import Codec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar

    Function = Op | Callable[[Any, Any], Any]


class ObjectCollective(Handle):
    """Collective operations on objects."""

    __slots__ = ()

    _codec: ClassVar[Codec]

    def bcast(self, obj: Any, root: int = 0) -> Any:
        """Broadcast."""
        return self.ob.object_calls.bcast(self._codec, obj, root)

    def gather(self, sendobj: Any, root: int = 0) -> list[Any] | None:
        """Gather."""
        found: list[Any] | None = self.ob.object_calls.gather(self._codec, sendobj, root)
        return found

    def scatter(self, sendobj: Sequence[Any] | None, root: int = 0) -> Any:
        """Scatter."""
        return self.ob.object_calls.scatter(self._codec, sendobj, root)

    def allgather(self, sendobj: Any) -> list[Any]:
        """Gather to All."""
        found: list[Any] = self.ob.object_calls.allgather(self._codec, sendobj)
        return found

    def alltoall(self, sendobj: Sequence[Any]) -> list[Any]:
        """All to All Scatter/Gather."""
        found: list[Any] = self.ob.object_calls.alltoall(self._codec, sendobj)
        return found

    def reduce(self, sendobj: Any, op: Function = SUM, root: int = 0) -> Any | None:
        """Reduce to Root."""
        return self.ob.object_calls.reduce(self._codec, sendobj, op, root)

    def allreduce(self, sendobj: Any, op: Function = SUM) -> Any:
        """Reduce to All."""
        return self.ob.object_calls.allreduce(self._codec, sendobj, op)
