"""Files, as programs see them."""

from __future__ import annotations

from os import PathLike

from ..communicators.errhandler import Watched
from ..communicators.named import Grouped, Hinted
from ..constants import MODE_RDONLY
from ..datatypes.datatype import BYTE, Datatype
from ..exceptions import Exception as MPIException
from ..handle import public
from ..info import INFO_NULL, Info
from ._direct import NativeFileCalls
from .calls import FileCalls
from .open_file import NoFile, OpenFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, Self

_null = NoFile()


@public
class File(NativeFileCalls, FileCalls, Watched, Grouped, Hinted, wraps=OpenFile):
    """A file that several ranks read and write (MPI 4.1, chapter 14).

    A call on a null file raises MPI.Exception (ERR_FILE). An error of the system has the class that says so:
    ERR_NO_SUCH_FILE, ERR_ACCESS, ERR_NO_SPACE and others.
    """

    __slots__ = ()

    null: ClassVar[NoFile] = _null
    ob: Any

    # Opening and closing

    @classmethod
    def Open(
        cls, comm: Any, filename: PathLike[Any] | str | bytes, amode: int = MODE_RDONLY, info: Info = INFO_NULL
    ) -> Self:
        """Return a file that the members of an intracommunicator open together, each with the same mode.

        Raises MPI.Exception: ERR_AMODE for modes that do not go together, ERR_NOT_SAME where the members gave different
        ones, ERR_COMM for an intercommunicator, and as the system refuses it. FILE_NULL's error handler hears of it.
        """
        from .opening import open_file  # a rank that opens no file starts without all this

        try:
            record = open_file(comm.ob, filename, amode, dict(info.items()) if info else {})
        except MPIException as error:
            _null.errhandler.invoke(cls.of(_null), error)
            raise
        record.errhandler = _errhandler(record)
        return cls.of(record)

    def Close(self) -> None:
        """Close the file: this handle becomes null. All members call it, and it returns when all have.

        Accesses that were started are made before. MODE_DELETE_ON_CLOSE deletes the file then.
        """
        record = self.ob
        record.guarded(record.check_no_split)
        try:
            record.guarded(record.close)
        finally:
            self._forget()

    def _release(self) -> None:
        self.Close()

    def free(self) -> None:
        """Call `Close` if not null."""
        super().free()

    @classmethod
    def Delete(cls, filename: PathLike[Any] | str | bytes, info: Info = INFO_NULL) -> None:
        """Delete a file. Raises MPI.Exception: ERR_NO_SUCH_FILE, ERR_ACCESS and others, as the system refuses it."""
        from .opening import delete

        try:
            delete(filename)
        except MPIException as error:
            _null.errhandler.invoke(cls.of(_null), error)
            raise

    # What it is

    def Set_size(self, size: int) -> None:
        """Cut or lengthen the file. All members call it, with the same size."""
        self.ob.guarded(self.ob.set_size, size)

    def Preallocate(self, size: int) -> None:
        """Make sure that the disk has room for so many bytes; the file becomes so long, if it is shorter."""
        self.ob.guarded(self.ob.preallocate, size)

    def Get_size(self) -> int:
        """Return the number of bytes."""
        size: int = self.ob.guarded(self.ob.size)
        return size

    @property
    def size(self) -> int:
        """The number of bytes."""
        return self.Get_size()

    def Get_amode(self) -> int:
        """Return the mode in which it was opened."""
        amode: int = self.ob.amode
        return amode

    @property
    def amode(self) -> int:
        """The mode in which it was opened."""
        return self.Get_amode()

    def Set_info(self, info: Info) -> None:
        """Add hints: `collective_buffering`, `cb_nodes` and `cb_buffer_size` mean something. All members call it."""
        self.ob.guarded(self.ob.set_info, dict(info.items()) if info else {})

    # Views

    def Set_view(
        self,
        disp: int = 0,
        etype: Datatype = BYTE,
        filetype: Datatype | None = None,
        datarep: str | None = "native",
        info: Info = INFO_NULL,
    ) -> None:
        """See items of `filetype` from byte `disp` on, one after another: only the data in them. Offsets count etypes.

        All members call it, and both pointers go to the beginning. Without a filetype it is the etype. `datarep` is
        `native`, `internal`, `external32` or one of `Register_datarep`. Raises MPI.Exception: ERR_ARG for a negative
        displacement and a filetype whose data do not follow each other, ERR_TYPE where it does not consist of etypes,
        ERR_UNSUPPORTED_DATAREP, ERR_NOT_SAME where members give etypes of different sizes.
        """
        record = self.ob
        record.guarded(record.see, disp, etype, filetype, datarep, dict(info.items()) if info else {})

    def Get_view(self) -> tuple[int, Datatype, Datatype, str]:
        """Return (displacement, etype, filetype, data representation)."""
        view = self.ob.direct.view
        types = [Datatype.for_record(each.ob) for each in (view.etype, view.filetype)]
        return view.displacement, types[0], types[1], view.datarep

    def Get_type_extent(self, datatype: Datatype) -> int:
        """Return the extent that a datatype has in the file."""
        record = self.ob
        extent: int = record.guarded(record.extent, datatype)
        return extent

    # Consistency

    def Set_atomicity(self, flag: bool) -> None:
        """Say whether an access is to be atomic where others are in the same place. All members call it."""
        self.ob.guarded(self.ob.set_atomicity, bool(flag))

    def Get_atomicity(self) -> bool:
        """Return whether it is."""
        atomic: bool = self.ob.direct.atomic
        return atomic

    @property
    def atomicity(self) -> bool:
        """Whether accesses are atomic."""
        return self.Get_atomicity()

    @atomicity.setter
    def atomicity(self, value: bool) -> None:
        self.Set_atomicity(value)

    def Sync(self) -> None:
        """Bring what the members wrote to the disk. All call it."""
        self.ob.guarded(self.ob.sync)


def _errhandler(record: OpenFile) -> Any:
    """Returns the error handler of a new file: that of FILE_NULL, unless the program wants errors to end it."""
    world = record.communicator.world
    return world.default_errhandler if world.files_chosen and world.default_errhandler.fatal else _null.errhandler
