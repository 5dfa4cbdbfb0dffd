"""A method that returns a generator gives a stream: its items travel while the reader has room for them.

The reader gives credit: WINDOW items and WINDOW_BYTES bytes to begin with, then as many as it has taken, told when half
of the window is used. Without credit the generator stands still. It runs in one thread at a time, not always the same.
"""

from __future__ import annotations

import asyncio
from _thread import allocate_lock
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any

from ._flow import ENDED, LEFT, WAITING, Inflow, Outflow
from .frames import CLOSE, END
from .interrupts import interrupted

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
    """The end that feeds a stream. `go_on` sends until the credit is used up, or the generator is done."""

    def __init__(self, session: Any, number: int, source: Any) -> None:
        Outflow.__init__(self, session.connection, number, source)
        self._session = session
        self._is_async = isinstance(source, AsyncGeneratorType)
        self._lock = allocate_lock()
        self._running = False
        self._again = False

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
        try:
            found = self._pour_async() if self._is_async else self.pour()
        except BaseException as error:
            self._fail(error, close=not self.is_taking)
            if interrupted(error):
                raise
            return True
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
        while self.has_credit():
            if self.closed or self.connection.lost is not None:
                return LEFT
            self.is_taking = True
            item = self._session.pool.loop().run(_next_of(self.source))
            self.is_taking = False
            if item is _DONE:
                return ENDED
            self.send_item(item)
        return WAITING

    def _finish(self) -> None:
        self._session.producers.pop(self.number, None)
        if self._is_async:
            self._session.pool.loop().run(self.source.aclose())
        else:
            self.source.close()

    def close(self) -> None:
        """The reader has left: the generator is closed where it stands."""
        with self._lock:
            self.closed = True
            if self._running:
                self._again = True
                return
            self._running = True
        self._finish()


async def _next_of(source: Any) -> Any:
    try:
        return await source.__anext__()
    except StopAsyncIteration:
        return _DONE


class Stream(Inflow):
    """The end that reads a stream: an iterator. Leaving it early (close(), `with`, dropping it) closes the other."""

    def __repr__(self) -> str:
        return f"<stream of {self.session.told(self.method)}>"

    def ended(self, error: BaseException | None) -> None:
        """No more will come. The receiver calls it."""
        self.error = error
        self.over = True
        self.beat()

    def close(self) -> None:
        """Leaves the stream: the generator at the other end is closed, and what came is dropped. Idempotent."""
        if self.over:
            return
        self.over = True
        self.items.clear()
        if self.session.streams.pop(self.number, None) is not None:
            self.session.send(CLOSE, self.number, ())

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self.over:
            self.over = True
            if self.session.connection.lost is None:
                # a collection may happen anywhere, also where a lock is held
                self.session.submit(self.session.send, CLOSE, self.number, ())

    # ---- the same in an event loop ----

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> Any:
        while not self.items:
            if self.over:
                error, self.error = self.error, None
                if error is not None:
                    raise error
                raise StopAsyncIteration
            loop = asyncio.get_running_loop()
            arrived = loop.create_future()

            def tell(waiting: asyncio.Future[None] = arrived, loop: Any = loop) -> None:
                loop.call_soon_threadsafe(_settle_future, waiting)

            self.told = tell
            try:
                if not self.items and not self.over:
                    await arrived
            finally:
                self.told = None
        return self.take()

    async def aclose(self) -> None:
        """As close()."""
        self.close()


def _settle_future(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
