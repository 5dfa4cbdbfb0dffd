"""The operations that requests stand for: a message, a collective operation, a program's own one, a repeated one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from fastsock.core.binding._requests import MessageError

from ..constants import (
    ANY_SOURCE,
    ANY_TAG,
    ERR_PROC_FAILED,
    ERR_PROC_FAILED_PENDING,
    ERR_REQUEST,
    PROC_NULL,
    SUCCESS,
)
from ..exceptions import Exception as MPIException
from ..failures import error_class
from ..handle import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def fill_empty(status: Any) -> None:
    """Says in a status that there was nothing to wait for."""
    if status is not None:
        status._set(ANY_SOURCE, ANY_TAG, 0, SUCCESS)


class Operation(Record):
    """An operation that is complete. What a null request refers to; the others derive from it."""

    __slots__ = ()

    persistent = False
    """Whether the request stays after completion, to be started again."""

    @property
    def engine(self) -> Any:
        """The engine whose progress brings it further; None: it needs none."""
        return None

    @property
    def active(self) -> bool:
        """Whether there is anything to wait for."""
        return False

    def ready(self) -> bool:
        """Returns whether it is complete. Makes no progress by itself."""
        return True

    @property
    def failed(self) -> bool:
        """Whether it is complete, and ended with an error."""
        return False

    @property
    def stranded(self) -> bool:
        """Whether it is a receive whose sender has finished. By the standard it stays pending, and can be cancelled."""
        return False

    def waits_for(self) -> list[Any]:
        """Returns the engine's requests of which one must complete before this can."""
        return []

    def wait(self) -> None:
        """Waits until it is complete."""
        while not self.ready():
            wait_any(self.engine, self.waits_for())

    def look(self, status: Any) -> None:
        """Fills the status of a complete operation, and leaves all else as it is."""
        fill_empty(status)

    def finish(self, status: Any) -> None:
        """Takes the result of a complete operation: fills the status, and raises its error."""
        fill_empty(status)

    def result(self) -> Any:
        """Returns the object that arrived, for the lower-case calls."""
        return None

    def wait_and_finish(self, status: Any) -> None:
        """Waits and takes the result, for a call that blocks: one that is interrupted leaves nothing behind."""
        try:
            self.wait()
        except BaseException:
            self.cancel()
            raise
        try:
            self.finish(status)
        except MPIException as error:
            if error.Get_error_class() != ERR_PROC_FAILED_PENDING:
                raise
            self.cancel()  # nobody could wait for it once more
            raise MPIException(ERR_PROC_FAILED, error.detail) from error.__cause__

    def cancel(self) -> None:
        """Asks that it does not happen."""

    def free(self) -> None:
        """Lets it complete while nobody waits for it."""


COMPLETE = Operation()
"""What null requests refer to."""


def wait_any(engine: Any, requests: Sequence[Any]) -> None:
    """Waits until one of the engine's requests is complete, well or not."""
    with suppress(MessageError):  # the request that failed tells its owner
        engine.wait_any(requests)


class Nothing(Operation):
    """A message to or from PROC_NULL."""

    __slots__ = ("receives",)

    def __init__(self, receives: bool) -> None:
        super().__init__()
        self.receives = receives

    @property
    def active(self) -> bool:
        return True

    def look(self, status: Any) -> None:
        if self.receives and status is not None:
            status._set(PROC_NULL, ANY_TAG, 0, SUCCESS)
        else:
            fill_empty(status)

    def finish(self, status: Any) -> None:
        self.look(status)


class Kept:
    """Memory that a request of the engine needs. It is called as the owner of one, and names no other owner."""

    __slots__ = ("memory",)

    def __init__(self, memory: Any) -> None:
        self.memory = memory

    def __call__(self) -> None:
        return None


class Transfer(Operation):
    """
    One message. `land` unpacks what arrived (its length in bytes); `load` makes an object of the payload.

    `owner` keeps memory alive that the engine reads or writes.
    """

    __slots__ = ("communicator", "land", "load", "owner", "receives", "request", "value")

    def __init__(
        self,
        communicator: Any,
        request: Any,
        *,
        receives: bool,
        owner: Any = None,
        land: Callable[[int], None] | None = None,
        load: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__()
        self.communicator = communicator
        self.request = request
        self.receives = receives
        self.owner = owner
        self.land = land
        self.load = load
        self.value: Any = None
        if owner is not None and not request.done:
            request.owner = Kept(owner)  # also where the program forgets the operation

    @property
    def engine(self) -> Any:
        return self.communicator.engine

    @property
    def active(self) -> bool:
        return True

    def ready(self) -> bool:
        self.request.again()
        return bool(self.request.done)

    @property
    def failed(self) -> bool:
        return self.request.error is not None

    @property
    def stranded(self) -> bool:
        return bool(self.request.stranded)

    def waits_for(self) -> list[Any]:
        return [self.request]

    def wait(self) -> None:
        try:
            self.request.again()
            self.request.wait()
        except MessageError:
            if not self.request.done:
                raise

    def look(self, status: Any) -> None:
        if status is None:
            return
        request = self.request
        error = request.error
        if _cancelled(request):
            status._set(ANY_SOURCE, ANY_TAG, 0, SUCCESS, True)
        elif not self.receives:
            fill_empty(status)
            if error is not None:
                status.error = error_class(error)
        elif error is not None and request.envelope is None:
            status._set(ANY_SOURCE, ANY_TAG, 0, error_class(error))
        else:
            self.communicator.fill(status, request.envelope, SUCCESS if error is None else error_class(error))

    def finish(self, status: Any) -> None:
        self.look(status)
        request = self.request
        request.test()  # nobody may have waited for it: the engine lets go of what is complete
        error = request.error
        if not _cancelled(request):
            if error is not None:
                raise self.communicator.failed(error)
            self._arrived()
        self.owner = None

    def _arrived(self) -> None:
        request = self.request
        if not self.receives:
            return
        if self.land is not None:
            land, self.land = self.land, None
            land(request.envelope.length)
        if self.load is not None:
            load, self.load = self.load, None
            self.value = load(request.payload)

    def result(self) -> Any:
        value, self.value = self.value, None
        return value

    def cancel(self) -> None:
        self.request.cancel()

    def free(self) -> None:
        if self.land is not None:
            self.request.callback = self._landed

    def _landed(self, request: Any) -> None:
        if request.error is None and self.land is not None:
            self._arrived()


def _cancelled(request: Any) -> bool:
    envelope = request.envelope
    return envelope is not None and bool(envelope.cancelled)


class Collective(Transfer):
    """A collective operation that goes on while the engine makes progress."""

    __slots__ = ()

    def _arrived(self) -> None:
        if self.land is not None:
            land, self.land = self.land, None
            land(0)

    def cancel(self) -> None:
        raise self.communicator.fail(ERR_REQUEST, "collective operations cannot be cancelled")


class Pair(Operation):
    """A send and a receive that complete together."""

    __slots__ = ("incoming", "outgoing")

    def __init__(self, outgoing: Operation, incoming: Operation) -> None:
        super().__init__()
        self.outgoing = outgoing
        self.incoming = incoming

    @classmethod
    def beside(cls, incoming: Operation, start_send: Callable[[], Operation]) -> Pair:
        """Starts the send beside a receive that is started already; a send that fails ends the receive too."""
        try:
            return cls(start_send(), incoming)
        except BaseException:
            incoming.cancel()
            raise

    @property
    def engine(self) -> Any:
        return self.incoming.engine or self.outgoing.engine

    @property
    def active(self) -> bool:
        return True

    def ready(self) -> bool:
        if self.outgoing.failed:
            self.incoming.cancel()  # the rank that cannot be sent to may be the one that would have answered
        return self.outgoing.ready() and self.incoming.ready()

    @property
    def stranded(self) -> bool:
        return self.incoming.stranded

    def waits_for(self) -> list[Any]:
        return [request for half in (self.outgoing, self.incoming) if not half.ready() for request in half.waits_for()]

    def look(self, status: Any) -> None:
        self.incoming.look(status)

    def finish(self, status: Any) -> None:
        try:
            self.outgoing.finish(None)
        finally:
            self.incoming.finish(status)

    def result(self) -> Any:
        return self.incoming.result()

    def cancel(self) -> None:
        self.outgoing.cancel()
        self.incoming.cancel()

    def free(self) -> None:
        self.outgoing.free()
        self.incoming.free()


class Persistent(Operation):
    """An operation that can be started again and again; `begin` starts it once more."""

    __slots__ = ("begin", "current")

    persistent = True

    def __init__(self, begin: Callable[[], Operation]) -> None:
        super().__init__()
        self.begin = begin
        self.current: Operation | None = None

    def start(self) -> None:
        """Starts it."""
        if self.current is not None:
            raise MPIException(ERR_REQUEST, "the request is active already: wait for it before starting it again")
        self.current = self.begin()

    @property
    def engine(self) -> Any:
        return None if self.current is None else self.current.engine

    @property
    def active(self) -> bool:
        return self.current is not None

    def ready(self) -> bool:
        return self.current is None or self.current.ready()

    @property
    def stranded(self) -> bool:
        return self.current is not None and self.current.stranded

    def waits_for(self) -> list[Any]:
        return [] if self.current is None else self.current.waits_for()

    def look(self, status: Any) -> None:
        if self.current is None:
            fill_empty(status)
        else:
            self.current.look(status)

    def finish(self, status: Any) -> None:
        current, self.current = self.current, None
        if current is None:
            fill_empty(status)
            return
        try:
            current.finish(status)
        except MPIException as error:
            if error.Get_error_class() == ERR_PROC_FAILED_PENDING:
                self.current = current
            raise

    def cancel(self) -> None:
        if self.current is not None:
            self.current.cancel()

    def free(self) -> None:
        if self.current is not None:
            self.current.free()
