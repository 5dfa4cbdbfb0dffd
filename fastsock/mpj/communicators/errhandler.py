"""Error handlers: what happens when a call on a communicator or a session fails."""

from __future__ import annotations

import os
import sys

from .. import ranks
from ..constants import ERR_ERRHANDLER
from ..exceptions import Exception
from ..handle import Handle, Record, public

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

_MOST = 32  # handlers that a rank may have created at a time for one kind of object, as with mpi4py


def _abort(code: int, text: str) -> None:
    """Ends the program. In a job it ends all ranks."""
    if ranks.find() is not None:
        ranks.current().job.abort(code, text)
        return
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
    os._exit(code)


class ErrhandlerRecord(Record):
    """`fatal`: an error ends the program. `function`: a program's own, for objects of the class `kind`.

    `created_by`: the rank that has created it and not freed it.
    """

    __slots__ = ("created_by", "fatal", "function", "kind")

    def __init__(
        self, fatal: bool, function: Callable[[Any, int], None] | None = None, kind: type[Handle] | None = None
    ) -> None:
        super().__init__()
        self.fatal = fatal
        self.function = function
        self.kind = kind
        self.created_by: Any = None

    def invoke(self, subject: Any, error: Exception) -> None:
        """Does what this handler does with an error on `subject` (a handle or a record) before the call raises it."""
        if self.fatal:
            _abort(int(error), f"fatal error on {_name(subject)}: {error}")
        elif self.function is not None and self.kind is not None:
            handle = subject if isinstance(subject, Handle) else self.kind.for_record(subject)
            self.function(handle, int(error))


def _name(subject: Any) -> str:
    record = subject.ob if isinstance(subject, Handle) else subject
    return getattr(record, "name", "") or getattr(record, "constant_name", "") or type(subject).__name__


_null = ErrhandlerRecord(False)


@public
class Errhandler(Handle):
    """What happens when a call fails, before it raises (MPI 4.1, chapter 9)."""

    __slots__ = ()

    ob: ErrhandlerRecord
    null = _null

    @classmethod
    def _create(cls, function: Callable[[Any, int], None], kind: type[Handle]) -> Self:
        """Returns a handler that calls a program's function with the object of class `kind` and the error code."""
        kind = kind._family
        if not callable(function):
            raise TypeError(f"{function!r} is not callable")
        record = ErrhandlerRecord(False, function, kind)
        record.created_by = ranks.count_created(kind, _MOST, "error handlers")
        return cls.of(record)

    def _defined(self) -> ErrhandlerRecord:
        """The record; raises where the handle is null."""
        if not isinstance(self, Errhandler):
            raise TypeError(f"expected an Errhandler, got a {type(self).__name__}")
        if self.ob is _null:
            raise Exception(ERR_ERRHANDLER, "the error handler is null: it was freed, or never made")
        return self.ob

    def Free(self) -> None:
        """Free the handler: this handle becomes null. Objects that have it keep it."""
        record = self._defined()
        ranks.count_freed(record.kind, record.created_by)
        record.created_by = None
        self._forget()

    def free(self) -> None:
        """Call `Free` if not null."""
        if not self._constant and self:
            self.Free()


class Watched(Handle):
    """A handle of something that has an error handler; its record has it as `errhandler`."""

    __slots__ = ()

    def _record(self) -> Any:
        """The record; raises where the handle is null."""
        return self.ob

    @classmethod
    def Create_errhandler(cls, errhandler_fn: Callable[[Any, int], None]) -> Errhandler:
        """Return an error handler that calls a function with the object and the error code, before the call raises.

        Raises TypeError for what cannot be called, and RuntimeError where 32 such handlers are not freed.
        """
        return Errhandler._create(errhandler_fn, cls)

    def Get_errhandler(self) -> Errhandler:
        """Return the object's error handler."""
        return Errhandler.of(self._record().errhandler)

    def Set_errhandler(self, errhandler: Errhandler) -> None:
        """Set the object's error handler. Raises MPI.Exception (ERR_ERRHANDLER) for a null one."""
        self._record().errhandler = errhandler._defined()

    def Call_errhandler(self, errorcode: int) -> None:
        """Do what the object's error handler does with an error code."""
        self._record().errhandler.invoke(self, Exception(errorcode))


ERRHANDLER_NULL = Errhandler.named(_null, "ERRHANDLER_NULL")
ERRORS_RETURN = Errhandler.named(ErrhandlerRecord(False), "ERRORS_RETURN")
ERRORS_ABORT = Errhandler.named(ErrhandlerRecord(True), "ERRORS_ABORT")
ERRORS_ARE_FATAL = Errhandler.named(ErrhandlerRecord(True), "ERRORS_ARE_FATAL")
