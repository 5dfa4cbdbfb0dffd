"""Requests: waiting for operations that were started, one or several of them."""

from __future__ import annotations

from collections.abc import Sequence

from ..constants import ERR_IN_STATUS, ERR_PROC_FAILED_PENDING, ERR_REQUEST, SUCCESS, UNDEFINED
from ..exceptions import Exception as MPIException
from ..handle import Handle, public
from ._point_to_point import NativeRequest, Repeated, Started, start_all
from .operation_records import COMPLETE, Operation, Persistent, fill_empty, wait_any
from .status import Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, Literal


class GeneralRequest(Handle):
    """Waiting for operations of any kind."""

    __slots__ = ()

    ob: Operation

    def _take(self, status: Status | None) -> Any:
        """Takes the result of the complete operation. A request that is not persistent becomes null."""
        operation = self.ob
        try:
            operation.finish(status)
        except MPIException as error:
            if error.Get_error_class() != ERR_PROC_FAILED_PENDING and not operation.persistent:
                self._forget()
            raise
        except BaseException:
            if not operation.persistent:
                self._forget()
            raise
        if not operation.persistent:
            self._forget()
        return operation.result()

    # One request

    def Wait(self, status: Status | None = None) -> Literal[True]:
        """Wait until the operation is complete, and take its result: its error is raised. Returns True.

        A request that is not persistent becomes null. A null request is complete.
        """
        self.ob.wait()
        self._take(status)
        return True

    def Test(self, status: Status | None = None) -> bool:
        """Return whether the operation is complete. If it is, its result is taken as `Wait` does."""
        if not _progressed((self,)):
            return False
        self._take(status)
        return True

    def Get_status(self, status: Status | None = None) -> bool:
        """Return whether the operation is complete, and leave the request as it is."""
        if not _progressed((self,)):
            return False
        self.ob.look(status)
        return True

    def Cancel(self) -> None:
        """Ask that the operation does not happen; `Status.Is_cancelled` tells afterwards whether it did not.

        Raises MPI.Exception (ERR_REQUEST) for a null request and for a collective operation.
        """
        if self.ob is self.null:
            raise MPIException(ERR_REQUEST, "the request is null: it is complete already, or was freed")
        self.ob.cancel()

    def Free(self) -> None:
        """Give the request up; the operation still completes.

        Raises MPI.Exception (ERR_REQUEST) for a null request.
        """
        if self.ob is self.null:
            raise MPIException(ERR_REQUEST, "the request is null: it is complete already, or was freed")
        operation = self.ob
        self._forget()
        operation.free()

    # Several requests

    @classmethod
    def Waitany(cls, requests: Sequence[Request], status: Status | None = None) -> int:
        """Wait until one operation is complete; return its index, or UNDEFINED where none is active."""
        index, _ = _wait_any(requests, status)
        return index

    @classmethod
    def Testany(cls, requests: Sequence[Request], status: Status | None = None) -> tuple[int, bool]:
        """Return the index of a complete operation, and True; (UNDEFINED, True) where none is active."""
        index, flag, _ = _test_any(requests, status)
        return index, flag

    @classmethod
    def Get_status_any(cls, requests: Sequence[Request], status: Status | None = None) -> tuple[int, bool]:
        """Return what `Testany` would, and leave the requests as they are."""
        _progressed(requests)
        active = False
        for index, request in enumerate(requests):
            if request.ob.active:
                active = True
                if _complete(request.ob):
                    request.ob.look(status)
                    return index, True
        if not active:
            fill_empty(status)
        return UNDEFINED, not active

    @classmethod
    def Waitall(cls, requests: Sequence[Request], statuses: list[Status] | None = None) -> Literal[True]:
        """Wait until all operations are complete. Returns True. A list of statuses that is too short grows.

        Where some fail, the results of all are taken first. Then MPI.Exception (ERR_IN_STATUS) is raised.
        """
        _wait_all(requests, statuses)
        return True

    @classmethod
    def Testall(cls, requests: Sequence[Request], statuses: list[Status] | None = None) -> bool:
        """Return whether all operations are complete. If they are, their results are taken as `Waitall` does."""
        if not _progressed(requests):
            return False
        _wait_all(requests, statuses)
        return True

    @classmethod
    def Get_status_all(cls, requests: Sequence[Request], statuses: list[Status] | None = None) -> bool:
        """Return whether all operations are complete, and leave the requests as they are."""
        if not _progressed(requests):
            return False
        for request, status in zip(requests, _statuses(statuses, len(requests)), strict=False):
            request.ob.look(status)
        return True

    @classmethod
    def Waitsome(cls, requests: Sequence[Request], statuses: list[Status] | None = None) -> list[int] | None:
        """Wait until an operation is complete; return the indices of all that are, None where none is active.

        `statuses` are those of the complete ones, in this order. Raises MPI.Exception as `Waitall` does.
        """
        indices, _ = _wait_some(requests, statuses)
        return indices

    @classmethod
    def Testsome(cls, requests: Sequence[Request], statuses: list[Status] | None = None) -> list[int] | None:
        """Return the indices of the complete operations, or None where none is active."""
        indices, _ = _test_some(requests, statuses)
        return indices

    @classmethod
    def Get_status_some(cls, requests: Sequence[Request], statuses: list[Status] | None = None) -> list[int] | None:
        """Return what `Testsome` would, and leave the requests as they are."""
        indices = _ready_indices(requests)
        if indices is not None:
            for index, status in zip(indices, _statuses(statuses, len(indices)), strict=False):
                requests[index].ob.look(status)
        return indices

    # The same with the object that arrived

    def wait(self, status: Status | None = None) -> Any:
        """Do what `Wait` does; return the object that arrived, None where the operation brings no object."""
        self.ob.wait()
        return self._take(status)

    def test(self, status: Status | None = None) -> tuple[bool, Any | None]:
        """Return whether the operation is complete, and the object that arrived (None: none)."""
        if not _progressed((self,)):
            return False, None
        return True, self._take(status)

    def get_status(self, status: Status | None = None) -> bool:
        """Return whether the operation is complete, and leave the request as it is."""
        return self.Get_status(status)

    def cancel(self) -> None:
        """Do what `Cancel` does."""
        self.Cancel()

    @classmethod
    def waitany(cls, requests: Sequence[Request], status: Status | None = None) -> tuple[int, Any]:
        """Wait until one operation is complete; return its index and the object that arrived."""
        return _wait_any(requests, status)

    @classmethod
    def testany(cls, requests: Sequence[Request], status: Status | None = None) -> tuple[int, bool, Any | None]:
        """Return what `Testany` does, and the object that arrived (None: none)."""
        return _test_any(requests, status)

    @classmethod
    def get_status_any(cls, requests: Sequence[Request], status: Status | None = None) -> tuple[int, bool]:
        """Return what `Testany` would, and leave the requests as they are."""
        return cls.Get_status_any(requests, status)

    @classmethod
    def waitall(cls, requests: Sequence[Request], statuses: list[Status] | None = None) -> list[Any]:
        """Wait until all operations are complete; return the objects that arrived. Raises as `Waitall` does."""
        return _wait_all(requests, statuses)

    @classmethod
    def testall(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> tuple[bool, list[Any] | None]:
        """Return whether all operations are complete, and if so the objects that arrived."""
        if not _progressed(requests):
            return False, None
        return True, _wait_all(requests, statuses)

    @classmethod
    def get_status_all(cls, requests: Sequence[Request], statuses: list[Status] | None = None) -> bool:
        """Return whether all operations are complete, and leave the requests as they are."""
        return cls.Get_status_all(requests, statuses)

    @classmethod
    def waitsome(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> tuple[list[int] | None, list[Any] | None]:
        """Do what `Waitsome` does; return the indices and the objects that arrived."""
        return _wait_some(requests, statuses)

    @classmethod
    def testsome(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> tuple[list[int] | None, list[Any] | None]:
        """Do what `Testsome` does; return the indices and the objects that arrived."""
        return _test_some(requests, statuses)

    @classmethod
    def get_status_some(cls, requests: Sequence[Request], statuses: list[Status] | None = None) -> list[int] | None:
        """Return what `Testsome` would, and leave the requests as they are."""
        return cls.Get_status_some(requests, statuses)


@public
class Request(NativeRequest, GeneralRequest, wraps=(Operation, Started)):
    """An operation under way (MPI 4.1, chapter 3); the null request stands for one that is complete."""

    __slots__ = ()

    null: ClassVar[Operation] = COMPLETE


@public
class Prequest(Request, wraps=(Persistent, Repeated)):
    """An operation that can be started again and again (MPI 4.1, chapter 3; in parts: chapter 4)."""

    __slots__ = ()

    def __new__(cls, request: Request | None = None) -> Any:
        """Returns another handle of a persistent request. Raises TypeError for any other request."""
        if request is not None and request and not isinstance(request, Prequest):
            raise TypeError(f"expected a Prequest, got {type(request).__name__}")
        return super().__new__(cls, request)

    def _persistent(self) -> Persistent | Repeated:
        operation = self.ob
        if not isinstance(operation, (Persistent, Repeated)):
            raise MPIException(ERR_REQUEST, "the request is not persistent, or was freed")
        return operation

    def Start(self) -> None:
        """Start the operation. Raises MPI.Exception (ERR_REQUEST) where it is active already, or was freed."""
        self._persistent().start()

    @classmethod
    def Startall(cls, requests: list[Prequest]) -> None:
        """Start several operations, in this order. Raises as `Start` does."""
        start_all(requests)

    def Pready(self, partition: int) -> None:
        """Mark a partition as ready to be sent.

        Raises MPI.Exception: ERR_ARG where there is no such partition, it is marked already, or the operation was not
        started or receives; ERR_REQUEST where the request is not a partitioned one.
        """
        self._partitioned().mark(partition)

    def Pready_range(self, partition_low: int, partition_high: int) -> None:
        """Mark the partitions from one to another as ready, both included. Raises as `Pready` does."""
        operation = self._partitioned()
        for partition in range(partition_low, partition_high + 1):
            operation.mark(partition)

    def Pready_list(self, partitions: Sequence[int]) -> None:
        """Mark several partitions as ready. Raises as `Pready` does."""
        operation = self._partitioned()
        for partition in partitions:
            operation.mark(partition)

    def Parrived(self, partition: int) -> bool:
        """Return whether a partition of a receive has arrived.

        Raises MPI.Exception: ERR_ARG where there is no such partition, or the operation sends; ERR_REQUEST where the
        request is not a partitioned one.
        """
        return bool(self._partitioned().arrived(partition))

    def _partitioned(self) -> Any:
        operation = self._persistent()
        if not hasattr(operation, "partitions"):
            raise MPIException(ERR_REQUEST, "the request is not a partitioned one")
        return operation


def _complete(operation: Operation) -> bool:
    """Returns whether it is complete by the standard: a receive whose sender has finished is told only to who waits."""
    return operation.ready() and not operation.stranded


def _progressed(requests: Sequence[GeneralRequest]) -> bool:
    """Lets the engines work once where something is not complete; returns whether everything is."""
    engines = {id(engine): engine for request in requests if not request.ob.ready() and (engine := request.ob.engine)}
    for engine in engines.values():
        engine.progress()
    if all(_complete(request.ob) for request in requests):
        return True
    for engine in engines.values():
        engine.give_way()
    return False


def _statuses(statuses: list[Status] | None, count: int) -> list[Status | None]:
    """Returns `count` statuses to fill; a list that is too short grows."""
    if statuses is None:
        return [None] * count
    if isinstance(statuses, list):
        statuses += [Status() for _ in range(count - len(statuses))]
    found: list[Status | None] = list(statuses[:count])
    return found + [None] * (count - len(found))


def _wait_any(requests: Sequence[Request], status: Status | None) -> tuple[int, Any]:
    while True:
        index, flag, value = _test_any(requests, status, progress=False)
        if flag:
            return index, value
        waiting = [request.ob for request in requests if request.ob.active and not request.ob.stranded]
        if not waiting:
            return _take_stranded(requests, status)
        wait_any(waiting[0].engine, [part for operation in waiting for part in operation.waits_for()])


def _take_stranded(requests: Sequence[Request], status: Status | None) -> tuple[int, Any]:
    """Raises that nothing is left that could complete: whoever waits must not do so for ever."""
    index = next(index for index, request in enumerate(requests) if request.ob.active)
    return index, requests[index]._take(status)


def _test_any(requests: Sequence[Request], status: Status | None, progress: bool = True) -> tuple[int, bool, Any]:
    if progress:
        _progressed(requests)
    active = False
    for index, request in enumerate(requests):
        if request.ob.active:
            if _complete(request.ob):
                return index, True, request._take(status)
            active = True
    if active:
        return UNDEFINED, False, None
    fill_empty(status)
    return UNDEFINED, True, None


def _wait_all(requests: Sequence[Request], statuses: list[Status] | None) -> list[Any]:
    for request in requests:
        request.ob.wait()
    return _take_all(requests, _statuses(statuses, len(requests)))


def _take_all(requests: Sequence[Request], statuses: Sequence[Status | None]) -> list[Any]:
    """Takes the results of all; if some failed, all the others are taken first."""
    values = []
    failure: MPIException | None = None
    for request, status in zip(requests, statuses, strict=True):
        try:
            values.append(request._take(status))
        except MPIException as error:
            failure = failure or error
            if status is not None and status.Get_error() == SUCCESS:
                status.Set_error(int(error))
    if failure is not None:
        raise MPIException(ERR_IN_STATUS, str(failure)) from failure
    return values


def _ready_indices(requests: Sequence[Request]) -> list[int] | None:
    """Returns which of the active requests are complete; None where none is active."""
    _progressed(requests)
    if not any(request.ob.active for request in requests):
        return None
    return [index for index, request in enumerate(requests) if request.ob.active and _complete(request.ob)]


def _test_some(requests: Sequence[Request], statuses: list[Status] | None) -> tuple[list[int] | None, list[Any] | None]:
    indices = _ready_indices(requests)
    if indices is None:
        return None, None
    chosen = [requests[index] for index in indices]
    return indices, _take_all(chosen, _statuses(statuses, len(chosen)))


def _wait_some(requests: Sequence[Request], statuses: list[Status] | None) -> tuple[list[int] | None, list[Any] | None]:
    while True:
        indices = _ready_indices(requests)
        if indices is None or indices:
            return _test_some(requests, statuses)
        waiting = [request.ob for request in requests if request.ob.active and not request.ob.stranded]
        if not waiting:
            _take_stranded(requests, None)
        wait_any(waiting[0].engine, [part for operation in waiting for part in operation.waits_for()])
