"""What answers at the target: a thread of each member, which does what the other members ask for, one after another."""

from __future__ import annotations

import threading
from collections.abc import Callable

from fastsock.core.binding._requests import ANY, CLOSED, MessageError

from ..datatypes.datatype import BYTE
from ..exceptions import Exception as MPIException
from .exposed import Exposed
from .frames import (
    ACCUMULATE,
    BYTES,
    DATA,
    FETCH,
    FLUSH,
    GET,
    LOCK,
    PUT,
    REQUEST,
    STOP,
    SWAP,
    UNLOCK,
    Descriptions,
    Frame,
    failure,
    operation_of,
)
from .lock_table import LockTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Server:
    """Serves one window of one rank. Ranks are those of the world."""

    def __init__(self, communicator: Any, exposed: Exposed, locks: LockTable) -> None:
        self.engine = communicator.engine
        self.context: int = communicator.context
        self.rank: int = communicator.world.rank
        self.failure_text = communicator.world.job.failure_text
        self.exposed = exposed
        self.locks = locks
        self.members = list(communicator.ranks)
        self._descriptions = Descriptions()
        self._errors: dict[int, bytes] = {}
        """The first error in the operations of each rank, until it asks."""
        self._calls: dict[int, Callable[[Frame, int], None]] = {
            PUT: self._put,
            GET: self._get,
            ACCUMULATE: self._accumulate,
            FETCH: self._fetch,
            SWAP: self._swap,
            FLUSH: self._flush,
            LOCK: self._lock,
            UNLOCK: self._unlock,
        }
        # one that waits must not keep a program from its end: then its engine closes, and ends the wait
        self._thread = threading.Thread(target=self._serve, name=f"window of rank {self.rank}", daemon=True)

    def start(self) -> None:
        """Begins to serve."""
        self._thread.start()

    def stop(self) -> None:
        """Ends, after all that was asked for before."""
        if self._thread.is_alive():
            try:
                self.engine.isend(Frame(STOP).packed(), self.rank, REQUEST, self.context)
            except MessageError:
                return  # the engine is closed, and so the thread ends
            self._thread.join()

    # ---- the thread ----

    def _serve(self) -> None:
        while True:
            try:
                message, envelope = self.engine.recv_new(ANY, REQUEST, self.context)
            except MessageError as error:
                if not self._goes_on_without(error):
                    return
                continue
            frame = Frame.unpacked(message)
            if frame.kind == STOP:
                return
            self._do(frame, envelope.source)

    def _goes_on_without(self, error: MessageError) -> bool:
        """Whether there is anything to serve after an error of the engine: a member may have died."""
        if error.code == CLOSED or error.peer not in self.members:
            return False
        self.members.remove(error.peer)
        # who waits for the others hears of this one no more
        self.engine.set_members(self.context, self.members)
        self.locks.lose(error.peer, self.failure_text(error.peer) or str(error))
        return True

    def _do(self, frame: Frame, origin: int) -> None:
        try:
            self._calls[frame.kind](frame, origin)
        except MessageError:
            pass  # the origin died, which the next receive tells
        except Exception as error:
            self._errors.setdefault(origin, failure(error))
            if frame.answer and frame.kind not in (FLUSH, UNLOCK, LOCK):
                self._answer(frame, origin, b"")  # shorter than what is expected

    def _answer(self, frame: Frame, origin: int, data: Any) -> None:
        if origin in self.members:
            self.engine.isend(data, origin, frame.answer, self.context)

    def _items(self, frame: Frame) -> tuple[int, int, Any]:
        if frame.description == BYTES:
            return frame.offset, frame.count, BYTE
        return frame.offset, frame.count, self._descriptions.datatype(frame.description)

    def _data(self, frame: Frame, origin: int) -> Any:
        if frame.data is not None:
            return frame.data
        return memoryview(self.engine.recv_new(origin, DATA, self.context)[0])

    # ---- operations ----

    def _put(self, frame: Frame, origin: int) -> None:
        if frame.data is not None:
            self.exposed.store(*self._items(frame), frame.data)
            return
        try:
            room, land = self.exposed.room(*self._items(frame))
        except MPIException:
            self._data(frame, origin)  # which nobody else would receive
            raise
        self.engine.recv(memoryview(room)[: frame.length], origin, DATA, self.context)
        if land is not None:
            land(frame.length)

    def _get(self, frame: Frame, origin: int) -> None:
        self._answer(frame, origin, self.exposed.load(*self._items(frame)))

    def _accumulate(self, frame: Frame, origin: int) -> None:
        data = self._data(frame, origin)
        self.exposed.accumulate(operation_of(frame.argument), *self._items(frame), data)

    def _fetch(self, frame: Frame, origin: int) -> None:
        data = self._data(frame, origin)
        self._answer(frame, origin, self.exposed.fetch(operation_of(frame.argument), *self._items(frame), data))

    def _swap(self, frame: Frame, origin: int) -> None:
        offset, _, datatype = self._items(frame)
        both = frame.data
        half = frame.length // 2
        self._answer(frame, origin, self.exposed.swap(offset, datatype, both[:half], both[half:]))

    # ---- synchronization ----

    def _flush(self, frame: Frame, origin: int) -> None:
        self._answer(frame, origin, self._errors.pop(origin, b""))

    def _lock(self, frame: Frame, origin: int) -> None:
        def told(error: MPIException | None) -> None:
            self._answer(frame, origin, b"" if error is None else failure(error))

        self.locks.take(origin, bool(frame.argument), told)

    def _unlock(self, frame: Frame, origin: int) -> None:
        self.locks.give_back(origin)
        self._flush(frame, origin)
