"""The records that Win handles refer to: what every kind of window has."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Sequence

from ..constants import ERR_GROUP, ERR_OTHER, ERR_RANK, ERR_RMA_RANGE, ERR_TRUNCATE, ERR_WIN
from ..datatypes._memory import buffer, landing, outgoing
from ..exceptions import Exception as MPIException
from ..failures import translated
from ..handle import Record
from ._epochs import Epochs
from .target import check_within

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..datatypes.buffers import Simple
    from ..messages.operation_records import Operation
    from .target import Place


class NoWindow(Record):
    """The record of the null handle: it answers every question with ERR_WIN."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        raise MPIException(ERR_WIN, "the window is null: it was freed, or never made")


class Window(Record, abc.ABC):
    """A window. `communicator`: a duplicate that nobody else uses. `sizes` and `units`: of the members' memory.

    Operations return what is to be waited for; None where they are complete. Ranks are those of the communicator.
    """

    flavor: int
    model: int
    memory: buffer
    """This member's; empty of a dynamic window."""
    native: Any = None
    """What calls go straight to, where the members share memory."""

    def __init__(self, communicator: Any, flavor: int, sizes: Sequence[int], units: Sequence[int]) -> None:
        super().__init__()
        self.communicator = communicator
        self.engine = communicator.engine
        self.rank: int = communicator.rank
        self.flavor = flavor
        self.sizes = sizes
        self.units = units
        self.name = ""
        self.errhandler = communicator.world.default_errhandler
        self.info: dict[str, str] | None = None
        self.attributes: dict[int, Any] = {}
        self.epochs = Epochs(self.fail)
        self._index = {rank: place for place, rank in enumerate(communicator.ranks)}

    # Errors

    @property
    def title(self) -> str:
        """The name of the window in error messages."""
        return self.name or f"the window of {self.communicator.title}"

    def fail(self, code: int, detail: str) -> BaseException:
        """Tells the error handler. Returns the exception that the caller is to raise."""
        return self.failed(MPIException(code, detail))

    def failed(self, error: BaseException) -> BaseException:
        """Makes an MPI exception of an error of the engine and tells the error handler; returns what to raise."""
        exception = translated(error, self.communicator)
        if isinstance(exception, MPIException):
            self.errhandler.invoke(self, exception)
        return exception

    def gone(self) -> BaseException:
        """The exception for memory of a target that is not there."""
        return self.fail(ERR_RMA_RANGE, "that memory of the target is not there, or not writable: it was unmapped")

    def guarded(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function that knows nothing of the window. The error handler hears of its errors."""
        try:
            return call(*arguments)
        except MPIException as error:
            raise self.failed(error) from error.__cause__

    # Ranks

    def check(self, rank: int) -> None:
        """Refuses a rank that is no member, and every rank where this process is none."""
        if self.engine.closed:
            raise self.fail(ERR_OTHER, f"{self.title} is not there: MPI is finalized, or this is a forked child")
        if not 0 <= rank < len(self.sizes):
            raise self.fail(ERR_RANK, f"no rank {rank} among the {len(self.sizes)} of {self.title}")

    def places(self, ranks: Iterable[int]) -> list[int]:
        """Returns the ranks here of a group, which are ranks in the world."""
        found = []
        for rank in ranks:
            if rank not in self._index:
                raise self.fail(ERR_GROUP, f"rank {rank} of the job is no member of {self.title}")
            found.append(self._index[rank])
        return found

    # Data

    def reached(self, rank: int, place: Place) -> int:
        """Returns the offset of a place in a rank's memory, to which an epoch is open."""
        self.check(rank)
        self.epochs.access(rank)
        offset: int = self.guarded(
            check_within, place, self.units[rank], self.sizes[rank], f"rank {rank} of {self.title}"
        )
        return offset

    def fitting(self, origin: Simple, room: int) -> Any:
        """Returns the origin's data, which go into so many bytes."""
        data = outgoing(origin.address, origin.count, origin.datatype)
        if len(data) > room:
            raise self.fail(ERR_TRUNCATE, f"{len(data)} bytes do not go into the {room} of the target's items")
        return data

    def room(self, origin: Simple, length: int) -> tuple[Any, Any]:
        """Returns memory for so many bytes of data, and what to call with their number then, or None."""
        room = origin.count * origin.datatype._type().size
        if length > room:
            raise self.fail(ERR_TRUNCATE, f"the {length} bytes of the target's items do not go into {room}")
        return landing(origin.address, origin.count, origin.datatype) if length else (None, None)

    # What each kind does in its own way

    @abc.abstractmethod
    def put(self, origin: Simple, rank: int, place: Place) -> Operation | None:
        """Starts to write the origin's data to the target."""

    @abc.abstractmethod
    def get(self, origin: Simple, rank: int, place: Place) -> Operation | None:
        """Starts to read the target's data into the origin's memory."""

    @abc.abstractmethod
    def accumulate(self, origin: Simple, rank: int, place: Place, op: Any) -> Operation | None:
        """Starts to combine the origin's data into the target's."""

    @abc.abstractmethod
    def get_accumulate(self, origin: Simple, result: Simple, rank: int, place: Place, op: Any) -> Operation | None:
        """Starts to do that, and to bring what the target had before."""

    @abc.abstractmethod
    def compare_and_swap(self, origin: Simple, compare: Simple, result: Simple, rank: int, place: Place) -> None:
        """Starts to write one item where the target has another, and to bring what it had."""

    @abc.abstractmethod
    def flush(self, rank: int) -> None:
        """Waits until the operations to a rank are complete, there too."""

    @abc.abstractmethod
    def flush_all(self) -> None:
        """Waits until all operations are complete, at their targets too."""

    @abc.abstractmethod
    def flush_local(self, rank: int) -> None:
        """Waits until the operations to a rank need this rank's memory no more."""

    @abc.abstractmethod
    def flush_local_all(self) -> None:
        """Waits until all operations need this rank's memory no more."""

    @abc.abstractmethod
    def sync(self) -> None:
        """Orders this rank's reads and writes of its own memory against those of others."""

    @abc.abstractmethod
    def fence(self, assertion: int) -> None:
        """Ends the operations of all members, and begins the next."""

    @abc.abstractmethod
    def barrier(self) -> None:
        """Returns when all members have called it."""

    @abc.abstractmethod
    def start(self, ranks: Sequence[int], assertion: int) -> None:
        """Opens access to the memory of these ranks."""

    @abc.abstractmethod
    def complete(self) -> None:
        """Ends what `start` began."""

    @abc.abstractmethod
    def post(self, ranks: Sequence[int], assertion: int) -> None:
        """Opens this rank's memory to these ranks."""

    @abc.abstractmethod
    def wait(self) -> None:
        """Waits until those to whom `post` opened the memory have completed."""

    @abc.abstractmethod
    def test(self) -> bool:
        """Does what `wait` does, where it need not wait; returns whether it did."""

    @abc.abstractmethod
    def lock(self, rank: int, lock_type: int, assertion: int) -> None:
        """Takes the lock of a rank."""

    @abc.abstractmethod
    def unlock(self, rank: int) -> None:
        """Completes the operations to a rank, and gives its lock back."""

    @abc.abstractmethod
    def lock_all(self, assertion: int) -> None:
        """Takes the locks of all ranks, together with others."""

    @abc.abstractmethod
    def unlock_all(self) -> None:
        """Completes all operations, and gives the locks back."""

    @abc.abstractmethod
    def attach(self, memory: buffer) -> None:
        """Opens memory to the other ranks."""

    @abc.abstractmethod
    def detach(self, memory: buffer) -> None:
        """Closes memory that was attached."""

    @abc.abstractmethod
    def shared_query(self, rank: int) -> tuple[buffer, int]:
        """Returns the memory of a rank as far as this process can reach it, and its unit. PROC_NULL: the first's."""

    @abc.abstractmethod
    def free(self) -> None:
        """Ends the window, once all members ask for it."""


def store(room: Any, land: Any, data: Any) -> None:
    """Puts data into memory of `Window.room`."""
    length = len(data)
    memoryview(room)[:length] = data
    if land is not None:
        land(length)
