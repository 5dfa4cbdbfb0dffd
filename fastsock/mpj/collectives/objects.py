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
    """Collective operations on objects, as mpi4py has them. All members call them, in the same order.

    An operation is an `Op`, or a function of two objects. Objects are combined in the order of their ranks. Raises
    MPI.Exception as the calls on memory do, and what pickling or unpickling an object raises.
    """

    __slots__ = ()

    _codec: ClassVar[Codec]

    def bcast(self, obj: Any, root: int = 0) -> Any:
        """Return the root's object."""
        return self.ob.object_calls.bcast(self._codec, obj, root)

    def gather(self, sendobj: Any, root: int = 0) -> list[Any] | None:
        """Return the list of all ranks' objects at the root; None at the others."""
        found: list[Any] | None = self.ob.object_calls.gather(self._codec, sendobj, root)
        return found

    def scatter(self, sendobj: Sequence[Any] | None, root: int = 0) -> Any:
        """Return object i of the root's sequence at rank i. Raises ValueError where it is not one for each rank."""
        return self.ob.object_calls.scatter(self._codec, sendobj, root)

    def allgather(self, sendobj: Any) -> list[Any]:
        """Return the list of all ranks' objects."""
        found: list[Any] = self.ob.object_calls.allgather(self._codec, sendobj)
        return found

    def alltoall(self, sendobj: Sequence[Any]) -> list[Any]:
        """Return the objects that all ranks have for this one. Raises ValueError where it has not one for each."""
        found: list[Any] = self.ob.object_calls.alltoall(self._codec, sendobj)
        return found

    def reduce(self, sendobj: Any, op: Function = SUM, root: int = 0) -> Any | None:
        """Return the combination of all ranks' objects at the root; None at the others."""
        return self.ob.object_calls.reduce(self._codec, sendobj, op, root)

    def allreduce(self, sendobj: Any, op: Function = SUM) -> Any:
        """Return the combination of all ranks' objects."""
        return self.ob.object_calls.allreduce(self._codec, sendobj, op)
