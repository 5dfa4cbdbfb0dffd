"""Collective operations on objects: the lower-case calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..datatypes.op import SUM, Op
from ..messages.pickling import Codec
from . import object_collectives
from .collective import Collective

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar

    Function = Op | Callable[[Any, Any], Any]


class ObjectCollective(Collective):
    """Collective operations on objects."""

    __slots__ = ()

    _codec: ClassVar[Codec]

    def barrier(self) -> None:
        """Barrier synchronization."""
        self.Barrier()

    def bcast(self, obj: Any, root: int = 0) -> Any:
        """Broadcast."""
        shared = self.ob.object_calls
        if shared is not None:
            return shared.bcast(self._codec, obj, root)
        return object_collectives.bcast(self.ob, self._codec, obj, root)

    def gather(self, sendobj: Any, root: int = 0) -> list[Any] | None:
        """Gather."""
        shared = self.ob.object_calls
        if shared is not None:
            found: list[Any] | None = shared.gather(self._codec, sendobj, root)
            return found
        return object_collectives.gather(self.ob, self._codec, sendobj, root)

    def scatter(self, sendobj: Sequence[Any] | None, root: int = 0) -> Any:
        """Scatter."""
        shared = self.ob.object_calls
        if shared is not None:
            return shared.scatter(self._codec, sendobj, root)
        return object_collectives.scatter(self.ob, self._codec, sendobj, root)

    def allgather(self, sendobj: Any) -> list[Any]:
        """Gather to All."""
        shared = self.ob.object_calls
        if shared is not None:
            found: list[Any] = shared.allgather(self._codec, sendobj)
            return found
        return object_collectives.allgather(self.ob, self._codec, sendobj)

    def alltoall(self, sendobj: Sequence[Any]) -> list[Any]:
        """All to All Scatter/Gather."""
        shared = self.ob.object_calls
        if shared is not None:
            found: list[Any] = shared.alltoall(self._codec, sendobj)
            return found
        return object_collectives.alltoall(self.ob, self._codec, sendobj)

    def reduce(self, sendobj: Any, op: Function = SUM, root: int = 0) -> Any | None:
        """Reduce to Root."""
        shared = self.ob.object_calls
        if shared is not None:
            return shared.reduce(self._codec, sendobj, op, root)
        return object_collectives.reduce(self.ob, self._codec, sendobj, op, root)

    def allreduce(self, sendobj: Any, op: Function = SUM) -> Any:
        """Reduce to All."""
        shared = self.ob.object_calls
        if shared is not None:
            return shared.allreduce(self._codec, sendobj, op)
        return object_collectives.allreduce(self.ob, self._codec, sendobj, op)
