"""Buffered sends: calls return once the message is copied. The program limits the memory that the copies take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fastsock.core.binding._requests import STANDARD
from fastsock.system.forkable import new_lock

from ..constants import BSEND_OVERHEAD, ERR_BUFFER
from ..datatypes._memory import BUFFER_AUTOMATIC, acquire
from ..exceptions import Exception as MPIException
from .operation_records import Operation, wait_any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Buffered:
    """The buffered messages under way, and the room that the program attached for them."""

    def __init__(self) -> None:
        self.lock = new_lock()
        self.attached: Any = None
        self.capacity: int | None = 0
        self.messages: list[tuple[Any, int]] = []

    def attach(self, memory: Any) -> None:
        """Takes memory from the program as a limit: the copies lie elsewhere. None, BUFFER_AUTOMATIC: no limit."""
        automatic = memory is None or memory is BUFFER_AUTOMATIC
        room: Any = BUFFER_AUTOMATIC if automatic else acquire(memory, False, False)
        if self.attached is not None:
            raise MPIException(ERR_BUFFER, "a buffer is attached already: detach it first")
        self.attached = room
        self.capacity = None if automatic else room.nbytes

    def detach(self, engine: Any) -> Any:
        """Waits for the messages and returns the memory that was attached."""
        self.flush(engine)
        memory, self.attached, self.capacity = self.attached, None, 0
        return memory

    @contextmanager
    def room_for(self, communicator: Any, nbytes: int) -> Iterator[Callable[[Any], None]]:
        """Takes room for one message. The body hands its request over. Raises MPI.Exception (ERR_BUFFER)."""
        cost = nbytes + BSEND_OVERHEAD
        with self.lock:
            self._sweep()
            used = sum(each for _, each in self.messages)
            if self.capacity is not None and used + cost > self.capacity:
                communicator.engine.progress()
                self._sweep()
                used = sum(each for _, each in self.messages)
            if self.capacity is not None and used + cost > self.capacity:
                raise communicator.fail(
                    ERR_BUFFER,
                    f"a buffered message of {nbytes} bytes needs {cost} of the attached buffer's {self.capacity}, "
                    f"of which {used} are taken: attach a larger buffer",
                )
            yield lambda request: self.messages.append((request, cost))

    def keep(self, request: Any, nbytes: int) -> None:
        """Counts a message that is under way already."""
        with self.lock:
            self._sweep()
            self.messages.append((request, nbytes + BSEND_OVERHEAD))

    def flush(self, engine: Any) -> None:
        """Waits until every message is on its way."""
        while waiting := self.pending():
            wait_any(engine, waiting)

    def pending(self) -> list[Any]:
        """Returns the engine's requests of the messages under way."""
        with self.lock:
            self._sweep()
            return [request for request, _ in self.messages]

    def _sweep(self) -> None:
        self.messages = [(request, cost) for request, cost in self.messages if not request.done]


class Flush(Operation):
    """Complete when the messages that were buffered at its start are on their way."""

    __slots__ = ("_engine", "requests")

    def __init__(self, engine: Any, requests: list[Any]) -> None:
        super().__init__()
        self._engine = engine
        self.requests = requests

    @property
    def engine(self) -> Any:
        return self._engine

    @property
    def active(self) -> bool:
        return True

    def ready(self) -> bool:
        return all(request.done for request in self.requests)

    def waits_for(self) -> list[Any]:
        return [request for request in self.requests if not request.done]


def send_buffered(communicator: Any, data: bytes, dest: int, tag: int) -> None:
    """Sends bytes that belong to the buffer of the communicator, or of the process."""
    communicator.unrevoked()
    peer = communicator.target(dest, tag)
    buffered = communicator.buffered or communicator.world.buffered
    with buffered.room_for(communicator, len(data)) as keep:
        keep(communicator.engine.isend(data, peer, tag, communicator.context, STANDARD))
