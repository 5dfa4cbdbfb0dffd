"""Sessions: independent uses of the ranks by parts of a program, with named sets of processes."""

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
    """Session context."""

    __slots__ = ()

    ob: SessionRecord
    null = _null

    def _record(self) -> SessionRecord:
        if self.ob is _null:
            raise Exception(ERR_SESSION, "the session is null")
        return self.ob

    @classmethod
    def Init(cls, info: Info = INFO_NULL, errhandler: Errhandler | None = None) -> Self:
        """Create a new session."""
        home = predefined()
        return cls.of(SessionRecord(home.default_errhandler if errhandler is None else errhandler._defined()))

    def Finalize(self) -> None:
        """Finalize a session."""
        self._record().buffered.flush(ranks.current().engine)
        self._forget()

    def _release(self) -> None:
        self.Finalize()

    def Get_num_psets(self, info: Info = INFO_NULL) -> int:
        """Number of available process sets."""
        self._record()
        return len(_SETS)

    def Get_nth_pset(self, n: int, info: Info = INFO_NULL) -> str:
        """Name of the *n*-th process set."""
        self._record()
        if not 0 <= n < len(_SETS):
            raise Exception(ERR_ARG, f"no process set {n} among {len(_SETS)}")
        return _SETS[n]

    def Get_info(self) -> Info:
        """Return the current hints for a session."""
        self._record()
        return Info.Create({"thread_level": "MPI_THREAD_MULTIPLE"})

    def Get_pset_info(self, pset_name: str) -> Info:
        """Return the current hints for a session and process set."""
        return Info.Create({"mpi_size": str(self.Create_group(pset_name).size)})

    def Create_group(self, pset_name: str) -> Group:
        """Create a new group from session and process set."""
        self._record()
        home = ranks.current()
        if pset_name == "mpi://WORLD":
            return Group._make(range(home.size), home.rank)
        if pset_name == "mpi://SELF":
            return Group._make((home.rank,), home.rank)
        raise Exception(ERR_ARG, f"no process set is named {pset_name!r}; there are {', '.join(_SETS)}")

    def Attach_buffer(self, buf: Any) -> None:
        """Attach a user-provided buffer for sending in buffered mode."""
        self._record().buffered.attach(buf)

    def Detach_buffer(self) -> Any:
        """Remove an existing attached buffer."""
        return self._record().buffered.detach(ranks.current().engine)

    def Flush_buffer(self) -> None:
        """Block until all buffered messages have been transmitted."""
        self._record().buffered.flush(ranks.current().engine)

    def Iflush_buffer(self) -> Request:
        """Nonblocking flush for buffered messages."""
        return Request.of(Flush(ranks.current().engine, self._record().buffered.pending()))


SESSION_NULL = Session.named(_null, "SESSION_NULL")
