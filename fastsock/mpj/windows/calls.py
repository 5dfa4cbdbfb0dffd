"""One-sided calls, and the calls that begin and end epochs: the general way of all arguments."""

from __future__ import annotations

from ..communicators.group import Group
from ..constants import LOCK_EXCLUSIVE, PROC_NULL
from ..datatypes import buffers
from ..datatypes.op import SUM, Op, check_op
from ..handle import Handle
from ..messages.operation_records import Nothing, Operation
from ..messages.request import Request
from .target import Place, place_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal


class WindowCalls(Handle):
    """The calls of a window that reach its members."""

    __slots__ = ()

    # Operations

    def _put(self, origin: Any, target_rank: int, target: Any) -> Operation | None:
        record = self.ob
        if target_rank == PROC_NULL:
            return None
        simple = buffers.simple(origin, True)
        return record.put(simple, target_rank, place_of(target, simple))  # type: ignore[no-any-return]

    def _get(self, origin: Any, target_rank: int, target: Any) -> Operation | None:
        record = self.ob
        if target_rank == PROC_NULL:
            return None
        simple = buffers.simple(origin, False)
        return record.get(simple, target_rank, place_of(target, simple))  # type: ignore[no-any-return]

    def _accumulate(self, origin: Any, target_rank: int, target: Any, op: Op) -> Operation | None:
        record = self.ob
        check_op(op)
        if target_rank == PROC_NULL:
            return None
        simple = buffers.simple(origin, True)
        return record.accumulate(simple, target_rank, place_of(target, simple), op)  # type: ignore[no-any-return]

    def _get_accumulate(self, origin: Any, result: Any, target_rank: int, target: Any, op: Op) -> Operation | None:
        record = self.ob
        check_op(op)
        if target_rank == PROC_NULL:
            return None
        simple, room = buffers.simple(origin, True), buffers.simple(result, False)
        place = place_of(target, simple)
        return record.get_accumulate(simple, room, target_rank, place, op)  # type: ignore[no-any-return]

    def Put(self, origin: Any, target_rank: int, target: Any = None) -> None:
        """Write memory to a member's. It is there when the epoch ends, or after `Flush`.

        `target`: a displacement, or [displacement, count, datatype]; what is left out is as at the origin. Raises
        MPI.Exception (ERR_TRUNCATE) for more data than the target's items have.
        """
        self._put(origin, target_rank, target)

    def Get(self, origin: Any, target_rank: int, target: Any = None) -> None:
        """Read a member's memory into `origin`. It is there when the epoch ends, or after `Flush`. Raises as `Put`."""
        self._get(origin, target_rank, target)

    def Accumulate(self, origin: Any, target_rank: int, target: Any = None, op: Op = SUM) -> None:
        """Combine memory into a member's, element by element, each atomically.

        Raises as `Put`, and MPI.Exception (ERR_OP) for an operation that is the program's own, or not defined on the
        elements.
        """
        self._accumulate(origin, target_rank, target, op)

    def Get_accumulate(self, origin: Any, result: Any, target_rank: int, target: Any = None, op: Op = SUM) -> None:
        """Do what `Accumulate` does, and bring to `result` what was there before."""
        self._get_accumulate(origin, result, target_rank, target, op)

    def Fetch_and_op(self, origin: Any, result: Any, target_rank: int, target_disp: int = 0, op: Op = SUM) -> None:
        """Do what `Get_accumulate` does, for one item. Raises ValueError for more, or for items of two types."""
        record = self.ob
        check_op(op)
        if target_rank == PROC_NULL:
            return
        simple, room = buffers.simple(origin, True), buffers.simple(result, False)
        _check_single(origin=simple, result=room)
        record.get_accumulate(simple, room, target_rank, Place(target_disp, 1, simple.datatype), op)

    def Compare_and_swap(self, origin: Any, compare: Any, result: Any, target_rank: int, target_disp: int = 0) -> None:
        """Write one item to a member's memory where that is equal to `compare`; bring to `result` what was there.

        Raises ValueError for several items, or for items of two types, and MPI.Exception (ERR_TYPE) for what is neither
        integer nor logical.
        """
        record = self.ob
        if target_rank == PROC_NULL:
            return
        simple, compared = buffers.simple(origin, True), buffers.simple(compare, True)
        room = buffers.simple(result, False)
        _check_single(origin=simple, compare=compared, result=room)
        record.compare_and_swap(simple, compared, room, target_rank, Place(target_disp, 1, simple.datatype))

    def Rput(self, origin: Any, target_rank: int, target: Any = None) -> Request:
        """Do what `Put` does. The request is complete when `origin` may change."""
        return _request(self._put(origin, target_rank, target))

    def Rget(self, origin: Any, target_rank: int, target: Any = None) -> Request:
        """Do what `Get` does. The request is complete when the data are there."""
        return _request(self._get(origin, target_rank, target))

    def Raccumulate(self, origin: Any, target_rank: int, target: Any = None, op: Op = SUM) -> Request:
        """Do what `Accumulate` does. The request is complete when `origin` may change."""
        return _request(self._accumulate(origin, target_rank, target, op))

    def Rget_accumulate(self, origin: Any, result: Any, target_rank: int, target: Any = None, op: Op = SUM) -> Request:
        """Do what `Get_accumulate` does. The request is complete when the data are there."""
        return _request(self._get_accumulate(origin, result, target_rank, target, op))

    # Epochs of all members

    def Fence(self, assertion: int = 0) -> None:
        """End the operations of all members, and begin the next. All call it, and it returns when all have."""
        self.ob.fence(assertion)

    # Epochs of groups

    def _places(self, group: Group) -> list[int]:
        found: list[int] = self.ob.places(group._ranks)
        return found

    def Start(self, group: Group, assertion: int = 0) -> None:
        """Begin operations on the memory of a group's members; wait until each has called `Post`."""
        self.ob.start(self._places(group), assertion)

    def Complete(self) -> None:
        """End what `Start` began: the operations are complete, at the targets too."""
        self.ob.complete()

    def Post(self, group: Group, assertion: int = 0) -> None:
        """Open this member's memory to a group."""
        self.ob.post(self._places(group), assertion)

    def Wait(self) -> Literal[True]:
        """Wait until the members to whom `Post` opened the memory have called `Complete`. Returns True."""
        self.ob.wait()
        return True

    def Test(self) -> bool:
        """Return whether these have called it; then the memory is no longer open to them."""
        done: bool = self.ob.test()
        return done

    # Epochs of one member

    def Lock(self, rank: int, lock_type: int = LOCK_EXCLUSIVE, assertion: int = 0) -> None:
        """Begin operations on a member's memory: alone, or with LOCK_SHARED together with others that say so.

        Raises MPI.Exception: ERR_LOCKTYPE for another type, ERR_PROC_FAILED where a rank died that had the lock alone.
        """
        self.ob.lock(rank, lock_type, assertion)

    def Unlock(self, rank: int) -> None:
        """End the operations on a member's memory: they are complete."""
        self.ob.unlock(rank)

    def Lock_all(self, assertion: int = 0) -> None:
        """Begin operations on the memory of all members, together with others."""
        self.ob.lock_all(assertion)

    def Unlock_all(self) -> None:
        """End what `Lock_all` began: all operations are complete."""
        self.ob.unlock_all()

    # Completion

    def Flush(self, rank: int) -> None:
        """Wait until the operations to a member are complete, there too. Raises the first error of theirs."""
        self.ob.flush(rank)

    def Flush_all(self) -> None:
        """Wait until all operations are complete, at their targets too."""
        self.ob.flush_all()

    def Flush_local(self, rank: int) -> None:
        """Wait until the operations to a member need this one's memory no more."""
        self.ob.flush_local(rank)

    def Flush_local_all(self) -> None:
        """Wait until no operation needs this member's memory any more."""
        self.ob.flush_local_all()

    def Sync(self) -> None:
        """Order this member's own reads and writes of its memory against those of the others."""
        self.ob.sync()


def _request(operation: Operation | None) -> Request:
    return Request.of(Nothing(receives=False) if operation is None else operation)


def _check_single(origin: buffers.Simple, **others: buffers.Simple) -> None:
    """Raises ValueError unless each is one item, all of the same datatype."""
    for name, each in {"origin": origin, **others}.items():
        if each.count != 1:
            raise ValueError(f"{name}: expecting a single element, got {each.count}")
    for name, each in others.items():
        if each.datatype.ob is not origin.datatype.ob:
            raise ValueError(f"mismatch in origin and {name} MPI datatypes")
