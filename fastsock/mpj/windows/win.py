"""Windows, as programs see them."""

from __future__ import annotations

from .. import ranks
from ..attributes import Attributed
from ..communicators.errhandler import Watched
from ..communicators.group import Group, GroupRecord
from ..constants import (
    ERR_WIN,
    LOCK_EXCLUSIVE,
    MAX_OBJECT_NAME,
    PROC_NULL,
    WIN_BASE,
    WIN_CREATE_FLAVOR,
    WIN_DISP_UNIT,
    WIN_FLAVOR_ALLOCATE,
    WIN_FLAVOR_CREATE,
    WIN_FLAVOR_DYNAMIC,
    WIN_FLAVOR_SHARED,
    WIN_MODEL,
    WIN_SIZE,
)
from ..datatypes import buffers
from ..datatypes._memory import BOTTOM, acquire, buffer, part
from ..datatypes.op import SUM, Op, check_op
from ..exceptions import Exception as MPIException
from ..handle import public
from ..info import INFO_NULL, Info
from ..messages.operation_records import Nothing, Operation
from ..messages.request import Request
from ._exported import Exported
from .target import Place, place_of
from .window_record import NoWindow, Window

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, Literal, Self


@public
class Win(Attributed, Watched, Exported, wraps=Window):
    """Memory of each member that the others read and write (MPI 4.1, chapter 12). It exports its memory as a buffer.

    A call on a null window raises MPI.Exception (ERR_WIN), one in the wrong epoch ERR_RMA_SYNC, an access outside the
    target's memory ERR_RMA_RANGE.
    """

    __slots__ = ()

    null: ClassVar[NoWindow] = NoWindow()
    ob: Any

    # Making windows

    @classmethod
    def _form(cls, comm: Any, flavor: int, memory: buffer | None, size: int, unit: int, info: Info) -> Self:
        from .formation import form  # a rank that has no window starts without all this

        record = form(ranks.current().alone if comm is None else comm.ob, flavor, memory, size, unit)
        self = cls.of(record)
        self.Set_info(info)
        return self

    @classmethod
    def Create(cls, memory: Any, disp_unit: int = 1, info: Info = INFO_NULL, comm: Any = None) -> Self:
        """Return a window of the program's own memory, BOTTOM or None for none. All members of `comm` call it.

        `disp_unit`: how many bytes a displacement counts. Without a communicator it is COMM_SELF. Raises MPI.Exception:
        ERR_COMM for an intercommunicator, ERR_DISP for a unit less than 1.
        """
        exposed = buffer() if memory is None or memory is BOTTOM else acquire(memory, False, False)
        return cls._form(comm, WIN_FLAVOR_CREATE, exposed, exposed.nbytes, disp_unit, info)

    @classmethod
    def Allocate(cls, size: int, disp_unit: int = 1, info: Info = INFO_NULL, comm: Any = None) -> Self:
        """Return a window of `size` bytes of new memory, all zero. All members of `comm` call it.

        Raises MPI.Exception as `Create`, and ERR_SIZE for a negative size.
        """
        return cls._form(comm, WIN_FLAVOR_ALLOCATE, None, size, disp_unit, info)

    @classmethod
    def Allocate_shared(cls, size: int, disp_unit: int = 1, info: Info = INFO_NULL, comm: Any = None) -> Self:
        """Do what `Allocate` does; each member may also read and write the memory of the others itself.

        Raises MPI.Exception as `Allocate`, and ERR_RMA_SHARED where the members cannot share memory.
        """
        return cls._form(comm, WIN_FLAVOR_SHARED, None, size, disp_unit, info)

    @classmethod
    def Create_dynamic(cls, info: Info = INFO_NULL, comm: Any = None) -> Self:
        """Return a window without memory, to which each member attaches some. All members of `comm` call it.

        Displacements in it are addresses of the target, as `MPI.Get_address` returns them there.
        """
        return cls._form(comm, WIN_FLAVOR_DYNAMIC, None, 0, 1, info)

    def Attach(self, memory: Any) -> None:
        """Open memory to the other members.

        Raises MPI.Exception: ERR_RMA_FLAVOR where the window is not one of `Create_dynamic`, ERR_RMA_ATTACH for memory
        that overlaps what is attached.
        """
        self.ob.attach(acquire(memory, False, False))

    def Detach(self, memory: Any) -> None:
        """Close memory that was attached. Raises MPI.Exception (ERR_BASE) where it was not."""
        self.ob.detach(acquire(memory, False, False))

    def Shared_query(self, rank: int) -> tuple[buffer, int]:
        """Return the memory of a member and its displacement unit. PROC_NULL: of the first that has any.

        The memory is empty where this process cannot reach it.
        """
        found: tuple[buffer, int] = self.ob.shared_query(rank)
        return found

    def Free(self) -> None:
        """Free the window: this handle becomes null. All members call it, and it returns when all have.

        Raises MPI.Exception: ERR_WIN where it is null, ERR_RMA_SYNC where an epoch is open.
        """
        record = self.ob
        if record is self.null:
            raise MPIException(ERR_WIN, "the window is null: it was freed, or never made")
        record.epochs.free()
        self._delete_attributes()
        try:
            record.free()
        finally:
            self._forget()

    # What it is

    @property
    def attrs(self) -> tuple[int, int, int]:
        """Address and length of the memory, and the displacement unit."""
        record = self.ob
        memory = record.memory
        return memory.address, memory.nbytes, record.units[record.rank]

    @property
    def flavor(self) -> int:
        """How the window was made."""
        flavor: int = self.ob.flavor
        return flavor

    @property
    def model(self) -> int:
        """The memory model."""
        model: int = self.ob.model
        return model

    def tomemory(self) -> buffer:
        """Return the memory of this member."""
        memory: buffer = self.ob.memory
        return part(memory, 0, memory.nbytes)

    def Get_group(self) -> Group:
        """Return the group of the members."""
        communicator = self.ob.communicator
        return Group.of(GroupRecord(communicator.ranks, communicator.world.rank))

    @property
    def group(self) -> Group:
        """The group of the members."""
        return self.Get_group()

    @property
    def group_size(self) -> int:
        """Number of members."""
        size: int = self.ob.communicator.size
        return size

    @property
    def group_rank(self) -> int:
        """Rank of this process."""
        rank: int = self.ob.rank
        return rank

    def Set_info(self, info: Info) -> None:
        """Set the hints. No hint changes what calls do."""
        self.ob.info = dict(info.items()) if info else None

    def Get_info(self) -> Info:
        """Return a copy of the hints."""
        hints = self.ob.info
        return Info.Create(hints)

    @property
    def info(self) -> Info:
        """The hints."""
        return self.Get_info()

    @info.setter
    def info(self, value: Info) -> None:
        self.Set_info(value)

    def Get_name(self) -> str:
        """Return the name."""
        if self.ob is self.null:
            return "MPI_WIN_NULL"
        name: str = self.ob.name
        return name

    def Set_name(self, name: str) -> None:
        """Set the name; what is longer than MAX_OBJECT_NAME - 1 characters is cut."""
        self._record().name = name[: MAX_OBJECT_NAME - 1]

    @property
    def name(self) -> str:
        """The name."""
        return self.Get_name()

    @name.setter
    def name(self, value: str) -> None:
        self.Set_name(value)

    def _record(self) -> Any:
        if self.ob is self.null:
            raise MPIException(ERR_WIN, "the window is null: it was freed, or never made")
        return self.ob

    _predefined_keys = frozenset({WIN_BASE, WIN_SIZE, WIN_DISP_UNIT, WIN_CREATE_FLAVOR, WIN_MODEL})

    def _predefined_attribute(self, keyval: int) -> int:
        base, size, unit = self.attrs
        found = {WIN_BASE: base, WIN_SIZE: size, WIN_DISP_UNIT: unit}
        found |= {WIN_CREATE_FLAVOR: self.flavor, WIN_MODEL: self.model}
        return found[keyval]

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
