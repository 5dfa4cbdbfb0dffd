"""A method that returns a generator gives a stream: its items travel while the reader has room for them.

The reader gives credit: WINDOW items and WINDOW_BYTES bytes to begin with, then as many as it has taken, told when half
of the window is used. Without credit the generator stands still. It runs in one thread at a time, not always the same.
"""

from __future__ import annotations

import asyncio
from _thread import allocate_lock
from collections import deque
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any

from ._connection import FOR_EVER
from ._records import Call
from .errors import NotPackable, RmiError
from .frames import CLOSE, CREDIT, END, ITEM

WINDOW = 256  # items
WINDOW_BYTES = 4 << 20
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


class Producer:
    """The end that feeds a stream.

    It has credit for `items` and `size` bytes. `go_on` sends until one of them is used up, or the generator is done.
    """

    def __init__(self, session: Any, number: int, source: Any) -> None:
        self._session = session
        self._number = number
        self._source = source
        self._next = source.__next__ if not isinstance(source, AsyncGeneratorType) else None
        self._lock = allocate_lock()
        self._running = False
        self._again = False
        self._closed = False
        self._items = WINDOW
        self._size = WINDOW_BYTES

    def credited(self, items: int, size: int) -> None:
        """The reader has room for more."""
        with self._lock:
            self._items += items
            self._size += size

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
                    if not self._closed or finished:
                        return
                    break
                self._again = False
        self._finish()

    def _send_some(self) -> bool:
        """Whether the stream is over."""
        session, number = self._session, self._number
        connection = session.connection
        while self._items > 0 and self._size > 0:
            if self._closed or connection.lost is not None:
                self._finish()
                return True
            try:
                item = self._take()
            except BaseException as error:
                session.producers.pop(number, None)
                session.send_error(END, number, error) if not isinstance(error, StopIteration) else None
                return True
            if item is _DONE:
                session.producers.pop(number, None)
                session.send(END, number, ())
                return True
            try:
                size = session.send(ITEM, number, (item,))
            except (NotPackable, RmiError, RecursionError) as error:
                session.producers.pop(number, None)
                self._finish()
                session.send_error(END, number, error)
                return True
            with self._lock:
                self._items -= 1
                self._size -= size
        return False

    def _take(self) -> Any:
        if self._next is not None:
            return next(self._source, _DONE)
        return self._session.pool.loop().run(_next_of(self._source))

    def _finish(self) -> None:
        self._session.producers.pop(self._number, None)
        if self._next is not None:
            self._source.close()
        else:
            self._session.pool.loop().run(self._source.aclose())

    def close(self) -> None:
        """The reader has left: the generator is closed where it stands."""
        with self._lock:
            self._closed = True
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


class Stream:
    """The end that reads a stream: an iterator. Leaving it early (close(), `with`, dropping it) closes the other."""

    def __init__(self, session: Any, number: int, method: Any) -> None:
        self._session = session
        self._method = method
        self._number = number
        self._items: deque[tuple[Any, int]] = deque()
        self._over = False
        self._error: BaseException | None = None
        self._pulses: list[Call] = []
        self._told: Any = None  # of an event loop that reads it
        self._taken = 0
        self._taken_size = 0

    def __repr__(self) -> str:
        return f"<stream of {self._session.told(self._method)}>"

    # ---- the receiver calls these ----

    def arrived(self, item: Any, size: int) -> None:
        """An item came."""
        self._items.append((item, size))
        self._beat()

    def ended(self, error: BaseException | None) -> None:
        """No more will come."""
        self._error = error
        self._over = True
        self._beat()

    def _beat(self) -> None:
        for pulse in list(self._pulses):
            self._session.connection.settle(pulse, None, False)
        if self._told is not None:
            self._told()

    # ---- the reader ----

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Any:
        while True:
            try:
                return self._pop()
            except IndexError:  # another thread may have taken it
                pass
            if self._over and not self._items:
                self._finish()
            pulse = Call(self._number, self._method)
            self._pulses.append(pulse)
            try:
                if not self._items and not self._over:
                    self._session.connection.wait_on(pulse, FOR_EVER)
            finally:
                self._pulses.remove(pulse)

    def _pop(self) -> Any:
        item, size = self._items.popleft()
        self._taken += 1
        self._taken_size += size
        if self._taken * 2 >= WINDOW or self._taken_size * 2 >= WINDOW_BYTES:
            taken, self._taken = self._taken, 0
            taken_size, self._taken_size = self._taken_size, 0
            if not self._over:
                self._session.send(CREDIT, self._number, (taken, taken_size))
        return item

    def _finish(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error
        raise StopIteration

    def close(self) -> None:
        """Leaves the stream: the generator at the other end is closed, and what came is dropped. Idempotent."""
        if self._over:
            return
        self._over = True
        self._items.clear()
        if self._session.streams.pop(self._number, None) is not None:
            self._session.send(CLOSE, self._number, ())

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._over:
            self._over = True
            if self._session.connection.lost is None:
                # a collection may happen anywhere, also where a lock is held
                self._session.submit(self._session.send, CLOSE, self._number, ())

    # ---- the same in an event loop ----

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> Any:
        while not self._items:
            if self._over:
                error, self._error = self._error, None
                if error is not None:
                    raise error
                raise StopAsyncIteration
            loop = asyncio.get_running_loop()
            arrived = loop.create_future()

            def tell(waiting: asyncio.Future[None] = arrived, loop: Any = loop) -> None:
                loop.call_soon_threadsafe(_settle_future, waiting)

            self._told = tell
            try:
                if not self._items and not self._over:
                    await arrived
            finally:
                self._told = None
        return self._pop()

    async def aclose(self) -> None:
        """As close()."""
        self.close()


def _settle_future(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
