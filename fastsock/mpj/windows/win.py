"""Windows, as programs see them."""

from __future__ import annotations

from .. import ranks
from ..attributes import Attributed
from ..communicators.named import Grouped, Hinted, Named
from ..constants import (
    ERR_WIN,
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
from ..datatypes._memory import BOTTOM, acquire, buffer, part
from ..exceptions import Exception as MPIException
from ..handle import public
from ..info import INFO_NULL, Info
from ._direct import NativeWindowCalls
from ._exported import Exported
from .calls import WindowCalls
from .window_record import NoWindow, Window

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, Self


@public
class Win(NativeWindowCalls, WindowCalls, Attributed, Named, Hinted, Grouped, Exported, wraps=Window):
    """Memory of each member that the others read and write (MPI 4.1, chapter 12). It exports its memory as a buffer.

    A call on a null window raises MPI.Exception (ERR_WIN), one in the wrong epoch ERR_RMA_SYNC, an access outside the
    target's memory ERR_RMA_RANGE.
    """

    __slots__ = ()

    null: ClassVar[NoWindow] = NoWindow()
    _null_name = "MPI_WIN_NULL"
    ob: Any

    # Making windows

    @classmethod
    def _form(cls, comm: Any, flavor: int, memory: buffer | None, size: int, unit: int, info: Info) -> Self:
        from .formation import form  # a rank that has no window starts without all this

        hints = dict(info.items()) if info else {}
        record = form(ranks.current().alone if comm is None else comm.ob, flavor, memory, size, unit, hints)
        self = cls.of(record)
        self.Set_info(info)
        record.barrier()  # programs fill their memory next, and believe that no other member is there before them
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

        Where all are on one host they map one memory, unless the hint `alloc_shm` is `false`: then, and between hosts,
        operations are messages. Raises MPI.Exception as `Create`, and ERR_SIZE for a negative size.
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
        that overlaps what is attached, or where there are too many pieces.
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
