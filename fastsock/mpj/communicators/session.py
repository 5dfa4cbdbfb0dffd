"""Sessions: each part of a program may use the ranks by a session of its own, with named sets of processes."""

from __future__ import annotations

from .. import ranks
from ..constants import ERR_ARG, ERR_SESSION
from ..exceptions import Exception
from ..handle import Record, public
from ..info import INFO_NULL, Info
from ..messages.buffered import Buffered, Flush
from ..messages.request import Request
from .errhandler import ERRORS_RETURN, Errhandler, ErrhandlerRecord, Watched
from .group import Group
from .lifecycle import predefined

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

_SETS = ("mpi://WORLD", "mpi://SELF")


class SessionRecord(Record):
    """A session: its error handler, and its buffer for buffered messages."""

    __slots__ = ("buffered", "errhandler")

    def __init__(self, errhandler: ErrhandlerRecord) -> None:
        super().__init__()
        self.errhandler = errhandler
        self.buffered = Buffered()


_null = SessionRecord(ERRORS_RETURN.ob)


@public
class Session(Watched):
    """A part of a program that uses the ranks (MPI 4.1, chapter 11). A null one raises MPI.Exception (ERR_SESSION)."""

    __slots__ = ()

    ob: SessionRecord
    null = _null

    def _record(self) -> SessionRecord:
        if self.ob is _null:
            raise Exception(ERR_SESSION, "the session is null: it was finalized, or never made")
        return self.ob

    @classmethod
    def Init(cls, info: Info = INFO_NULL, errhandler: Errhandler | None = None) -> Self:
        """Return a new session. Its error handler is `errhandler`, by default that of `rc.errors`."""
        home = predefined()
        return cls.of(SessionRecord(home.default_errhandler if errhandler is None else errhandler._defined()))

    def Finalize(self) -> None:
        """Wait until the session's buffered messages are on their way, and end it."""
        self._record().buffered.flush(ranks.current().engine)
        self._forget()

    def _release(self) -> None:
        self.Finalize()

    def Get_num_psets(self, info: Info = INFO_NULL) -> int:
        """Return the number of process sets."""
        self._record()
        return len(_SETS)

    def Get_nth_pset(self, n: int, info: Info = INFO_NULL) -> str:
        """Return the name of a process set: mpi://WORLD or mpi://SELF. Raises MPI.Exception (ERR_ARG)."""
        self._record()
        if not 0 <= n < len(_SETS):
            raise Exception(ERR_ARG, f"no process set {n}: there are {len(_SETS)}, from 0 on")
        return _SETS[n]

    def Get_info(self) -> Info:
        """Return the session's hints."""
        self._record()
        return Info.Create({"thread_level": "MPI_THREAD_MULTIPLE"})

    def Get_pset_info(self, pset_name: str) -> Info:
        """Return the hints of a process set: `mpi_size`, the number of its processes. Raises as `Create_group`."""
        return Info.Create({"mpi_size": str(self.Create_group(pset_name).size)})

    def Create_group(self, pset_name: str) -> Group:
        """Return the group of a process set. Raises MPI.Exception (ERR_ARG) where none has this name."""
        self._record()
        home = ranks.current()
        if pset_name == "mpi://WORLD":
            return Group._make(range(home.size), home.rank)
        if pset_name == "mpi://SELF":
            return Group._make((home.rank,), home.rank)
        raise Exception(ERR_ARG, f"no process set is named {pset_name!r}; there are {', '.join(_SETS)}")

    def Attach_buffer(self, buf: Any) -> None:
        """Let this session's buffered sends take as many bytes as `buf` has; None or BUFFER_AUTOMATIC: any number.

        Raises MPI.Exception (ERR_BUFFER) where a buffer is attached already.
        """
        self._record().buffered.attach(buf)

    def Detach_buffer(self) -> Any:
        """Wait until the buffered messages are on their way; return what was attached, or None."""
        return self._record().buffered.detach(ranks.current().engine)

    def Flush_buffer(self) -> None:
        """Wait until the buffered messages are on their way."""
        self._record().buffered.flush(ranks.current().engine)

    def Iflush_buffer(self) -> Request:
        """Return a request that is complete when the present buffered messages are on their way."""
        return Request.of(Flush(ranks.current().engine, self._record().buffered.pending()))


SESSION_NULL = Session.named(_null, "SESSION_NULL")
