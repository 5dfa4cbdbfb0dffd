"""What is done at the target: what the other members ask for, one after another."""

from __future__ import annotations

from collections.abc import Callable

from fastsock.core.binding._requests import ANY, CLOSED, MessageError

from ..datatypes.datatype import BYTE
from ..exceptions import Exception as MPIException
from ._serving import Serving
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

_ANSWERED = (FLUSH, UNLOCK, LOCK)
"""What is answered with an error, or nothing. Other answers are shorter than expected where there was an error."""


class Server:
    """Serves one window of one rank. Ranks are those of the world."""

    def __init__(self, communicator: Any, exposed: Exposed, locks: LockTable) -> None:
        self.engine = communicator.engine
        self.context: int = communicator.context
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
        self.serving = Serving(self.engine, f"window of rank {communicator.world.rank}")
        self._posted: Any = None

    def start(self) -> None:
        """Begins to serve."""
        self.serving.start()
        self._expect()

    def stop(self) -> None:
        """Ends. All members have got what they asked for."""
        self.serving.stop()
        self._posted.cancel()

    # ---- requests ----

    def _expect(self) -> None:
        """Receives the next request. There is one at a time: the order of an origin's is kept."""
        self._posted = self.engine.irecv_new(ANY, REQUEST, self.context)
        self.serving.when_done(self._posted, self._heard)

    def _heard(self, request: Any) -> None:
        self.serving.begin()
        expects = True
        try:
            expects = self._began(request)
        finally:  # also where the program was interrupted
            if expects:
                self._expect()

    def _began(self, request: Any) -> bool:
        """Does what a request asks for. Returns whether the next one may be received."""
        error = request.error
        if error is not None:
            return self._goes_on_without(error)
        frame, origin = Frame.unpacked(request.payload), request.envelope.source
        if frame.length and frame.data is None:
            self._receive(frame, origin)
            return False
        self._do(frame, origin)
        return True

    def _goes_on_without(self, error: MessageError) -> bool:
        """Whether there is anything to serve after an error of the engine: a member may have died."""
        if error.code == CLOSED or error.peer not in self.members:
            return False
        self.members.remove(error.peer)
        # who waits for the others hears of this one no more
        self.engine.set_members(self.context, self.members)
        self.locks.lose(error.peer, self.failure_text(error.peer) or str(error))
        return True

    def _receive(self, frame: Frame, origin: int) -> None:
        """Receives the data of a request: where they belong, if they may be put there."""
        room = land = None
        if frame.kind == PUT:
            try:
                room, land = self.exposed.room(*self._items(frame))
            except Exception as error:
                self._errors.setdefault(origin, failure(error))
        if room is None:
            request = self.engine.irecv_new(origin, DATA, self.context)
        else:
            request = self.engine.irecv(memoryview(room)[: frame.length], origin, DATA, self.context)

        def received(request: Any) -> None:
            self.serving.begin()
            try:
                if request.error is not None:
                    return  # the origin died, which the next receive tells
                if room is None and frame.kind != PUT:
                    frame.data = memoryview(request.payload)
                    self._do(frame, origin)
                elif land is not None:
                    land(frame.length)
            finally:
                self._expect()

        self.serving.when_done(request, received)

    def _do(self, frame: Frame, origin: int) -> None:
        try:
            self._calls[frame.kind](frame, origin)
        except MessageError:
            pass  # the origin died, which the next receive tells
        except Exception as error:
            self._errors.setdefault(origin, failure(error))
            if frame.answer and frame.kind not in _ANSWERED:
                self._answer(frame, origin, b"")

    def _answer(self, frame: Frame, origin: int, data: Any) -> None:
        if origin in self.members:
            self.engine.isend(data, origin, frame.answer, self.context)

    def _items(self, frame: Frame) -> tuple[int, int, Any]:
        if frame.description == BYTES:
            return frame.offset, frame.count, BYTE
        return frame.offset, frame.count, self._descriptions.datatype(frame.description)

    # ---- operations ----

    def _put(self, frame: Frame, origin: int) -> None:
        self.exposed.store(*self._items(frame), frame.data)

    def _get(self, frame: Frame, origin: int) -> None:
        self._answer(frame, origin, self.exposed.load(*self._items(frame)))

    def _accumulate(self, frame: Frame, origin: int) -> None:
        self.exposed.accumulate(operation_of(frame.argument), *self._items(frame), frame.data)

    def _fetch(self, frame: Frame, origin: int) -> None:
        before = self.exposed.fetch(operation_of(frame.argument), *self._items(frame), frame.data)
        self._answer(frame, origin, before)

    def _swap(self, frame: Frame, origin: int) -> None:
        offset, _, datatype = self._items(frame)
        both, half = frame.data, frame.length // 2
        self._answer(frame, origin, self.exposed.swap(offset, datatype, both[:half], both[half:]))

    # ---- synchronization ----

    def _flush(self, frame: Frame, origin: int) -> None:
        self._answer(frame, origin, self._errors.pop(origin, b""))

    def _lock(self, frame: Frame, origin: int) -> None:
        def grant(error: MPIException | None) -> None:
            self._answer(frame, origin, b"" if error is None else failure(error))

        self.locks.take(origin, bool(frame.argument), grant)

    def _unlock(self, frame: Frame, origin: int) -> None:
        self.locks.give_back(origin)
        self._flush(frame, origin)
