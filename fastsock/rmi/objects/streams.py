"""A method that returns a generator gives a stream: its items travel while the reader has room for them.

The reader gives credit: WINDOW items and WINDOW_BYTES bytes to begin with, then as many as it has taken, told when half
of the window is used. Without credit the generator stands still. It runs in one thread at a time, not always the same.
"""

from __future__ import annotations

import asyncio
from _thread import allocate_lock
from concurrent.futures import CancelledError
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any

from ...system.originals import originals
from ..interrupts import interrupted
from ..threads.loops import call_in
from ..wire._flow import ENDED, LEFT, WAITING, Outflow, Stream
from ..wire._records import current
from ..wire.frames import END

__all__ = ["Producer", "Stream", "close_source", "is_coroutine", "is_stream", "leave", "next_of"]

_DONE = object()


def is_stream(value: Any) -> bool:
    """Whether a method's value is sent item by item, or is awaited first."""
    return isinstance(value, (GeneratorType, AsyncGeneratorType, CoroutineType))


def is_coroutine(value: Any) -> bool:
    """Whether it is awaited in a loop."""
    return isinstance(value, CoroutineType)


def close_source(value: Any) -> None:
    """Closes a generator that nobody will read."""
    if isinstance(value, (GeneratorType, CoroutineType)):
        value.close()


class Producer(Outflow):
    """The end that feeds a stream. `go_on` sends until the credit is used up, or the generator is done.

    What the generator calls is called on behalf of the request that gave it.
    """

    def __init__(self, session: Any, request: Any, source: Any) -> None:
        Outflow.__init__(self, session.connection, request.number, source)
        self._request = request if request.deadline or request.chain else None
        request.arguments, request.keywords = (), None  # what lives of them is the generator's
        self._taking: Any = None  # the item that an async generator makes
        self._session = session
        self._is_async = isinstance(source, AsyncGeneratorType)
        self._lock = allocate_lock()
        self._running = False
        self._again = False

    def stands(self) -> bool:
        """Whether nobody sends items of it. Who does looks for credit once more."""
        with self._lock:
            self._again = self._running
            return not self._running

    def go_on(self) -> None:
        """Sends items while there is credit. Another thread that comes meanwhile leaves it to this one."""
        with self._lock:
            if self._running:
                self._again = True
                return
            self._running = True
        while True:
            finished = self._send_some()
            with self._lock:
                if finished or not self._again:
                    self._running = False
                    self._again = False
                    if not self.closed or finished:
                        return
                    break
                self._again = False
        self._finish()

    def _send_some(self) -> bool:
        """Whether the stream is over."""
        session, number = self._session, self.number
        token = current.set(self._request) if self._request is not None else None
        try:
            found = self._pour_async() if self._is_async else self.pour()
        except BaseException as error:
            if self.closed and isinstance(error, CancelledError):
                session.producers.pop(number, None)
                return True
            self._fail(error, close=not self.is_taking)
            if interrupted(error):
                raise
            return True
        finally:
            if token is not None:
                current.reset(token)
        if found == LEFT:
            self._finish()
        elif found == ENDED:
            session.producers.pop(number, None)
            session.send(END, number, ())
        return found != WAITING

    def _fail(self, error: BaseException, close: bool) -> None:
        """The generator has raised an error, or gave what cannot be sent: then it is closed."""
        self._session.producers.pop(self.number, None)
        if close:
            self._finish()
        self._session.send_error(END, self.number, error)

    def _pour_async(self) -> int:
        until = self._request.deadline if self._request is not None else 0.0
        while self.has_credit():
            with self._lock:
                if self.closed or self.connection.lost is not None:
                    return LEFT
                self.is_taking = True
                self._taking = self._session.pool.loop().begin(_next_of(self.source, until))
            item = self._taking.result()
            self.is_taking = False
            if item is _DONE:
                return ENDED
            self.send_item(item)
        return WAITING

    def _finish(self) -> None:
        self._session.producers.pop(self.number, None)
        if self._is_async:
            self._session.pool.loop().begin(self.source.aclose()).result()
        else:
            self.source.close()

    def close(self) -> None:
        """The reader has left: the generator is closed where it stands."""
        with self._lock:
            self.closed = True
            if self._running:
                self._again = True
                if self._taking is not None:  # an async generator may wait for ever
                    self._taking.cancel()
                return
            self._running = True
        self._finish()


async def _next_of(source: Any, until: float) -> Any:
    """The next item, by a deadline that is not 0."""
    if until:
        return await asyncio.wait_for(_next_of(source, 0.0), max(until - originals.monotonic(), 0.0))
    try:
        return await source.__anext__()
    except StopAsyncIteration:
        return _DONE


async def next_of(stream: Stream) -> Any:
    """The next item of a stream that an event loop reads."""
    while not stream.items:
        if stream.over:
            error, stream.error = stream.error, None
            if error is not None:
                raise error
            raise StopAsyncIteration
        loop = asyncio.get_running_loop()
        arrived = loop.create_future()

        def wake(waiting: asyncio.Future[None] = arrived, loop: Any = loop) -> None:
            call_in(loop, _settle_future, waiting)

        timer = None
        if stream.deadline:
            timer = loop.call_later(max(stream.deadline - originals.monotonic(), 0.0), wake)
        try:
            if not stream.wakes(wake):
                await arrived
                if not stream.items and not stream.over and 0.0 < stream.deadline <= originals.monotonic():
                    raise stream.late()
        finally:
            stream.wakes(None)
            if timer is not None:
                timer.cancel()
    return stream.take()


async def leave(stream: Stream) -> None:
    """As close() of a stream."""
    stream.close()


def _settle_future(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
