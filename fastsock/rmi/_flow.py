# cython: language_level=3, annotation_typing=False, freethreading_compatible=True
"""The two ends of a stream, as far as each item passes them: the credit of one, what has come to the other."""

from __future__ import annotations

from collections import deque
from typing import Any

try:
    import cython
except ModuleNotFoundError:
    from fastsock.rmi import _interpreted as cython

from fastsock.rmi._locks import Lock
from fastsock.rmi._records import current
from fastsock.rmi.errors import CallTimeout, LostPeer
from fastsock.rmi.frames import CLOSE, CREDIT
from fastsock.rmi.interrupts import interrupted
from fastsock.system.genuine import genuine

if not cython.compiled:
    from fastsock.rmi._interpreted import order
    from fastsock.rmi._records import Call as new_call
    from fastsock.rmi.frames import ITEM, WINDOW, WINDOW_BYTES

_DONE = object()
WAITING, LEFT, ENDED = 0, 1, 2


class Outflow:
    """The end that feeds a stream by a generator. It has credit for `items` and `size` bytes."""

    def __init__(self, connection: Any, number: int, source: Any) -> None:
        self.connection = connection
        self.number = number
        self.source = source
        self.closed = False  # the reader has left
        self.is_taking = False  # an error that comes now is the generator's
        self.items = WINDOW
        self.size = WINDOW_BYTES
        self._credit = Lock()

    def credited(self, items: int, size: int) -> None:
        """The reader has room for more."""
        self._use(-items, -size)

    @cython.final
    def _use(self, items: int, size: int) -> None:
        self._credit.acquire()
        self.items -= items
        self.size -= size
        self._credit.release()

    def has_credit(self) -> bool:
        """Whether an item may go."""
        return self.items > 0 and self.size > 0

    def pour(self) -> int:
        """Sends items while there is credit. WAITING for more of it, LEFT by the reader, or ENDED by the generator.

        Raises what the generator raises, and what cannot be sent.
        """
        connection = self.connection
        source = self.source
        while self.items > 0 and self.size > 0:
            if self.closed or connection.lost is not None:
                return LEFT
            self.is_taking = True
            item = next(source, _DONE)
            self.is_taking = False
            if item is _DONE:
                return ENDED
            self._send(item)
        return WAITING

    def send_item(self, item: Any) -> None:
        """Sends one item, and notes what credit it used."""
        self._send(item)

    @cython.final
    def _send(self, item: Any) -> None:
        try:
            size = self.connection.send_value(ITEM, self.number, item)
        except LostPeer:  # the next look finds that
            return
        self._use(1, size)


class Inflow:
    """The end that reads a stream. deadline: when it must be over, 0 for never."""

    def __init__(self, session: Any, number: int, method: Any, deadline: float = 0.0) -> None:
        self.deadline = deadline
        self.session = session
        self.connection = session.connection
        self.method = method
        self.number = number
        self.items: deque[tuple[Any, int]] = deque()
        self.over = False
        self.error: BaseException | None = None
        self.told: Any = None  # of an event loop that reads it
        self._pulses: list[Any] = []
        self._taken = 0
        self._taken_size = 0
        self._counting = Lock()

    def arrived(self, item: Any, size: int) -> None:
        """An item came. The receiver calls it."""
        if not self.over:
            self.items.append((item, size))
            self.beat()

    def beat(self) -> None:
        """Those who wait look again."""
        if self._pulses:
            for pulse in list(self._pulses):
                self.connection.settle(pulse, None, False)
        if self.told is not None:
            self._counting.acquire()
            told = self.told
            self._counting.release()
            if told is not None:
                told()

    def tells(self, function: Any) -> bool:
        """The receiver will call it, if it is not None, when something comes. Whether there is something already."""
        self._counting.acquire()
        before = self.told  # lives until nobody reads it any more
        self.told = function
        self._counting.release()
        del before
        return self.over or len(self.items) > 0

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        return self._next()

    def _next(self) -> Any:
        while True:
            if self.items:
                try:
                    return self.take()
                except IndexError:  # another thread has taken it
                    continue
            if self.over and not self.items:
                error, self.error = self.error, None
                if error is not None:
                    raise error
                raise StopIteration
            pulse = new_call(self.number, self.method)
            self._pulses.append(pulse)
            try:
                if not self.items and not self.over:
                    self.connection.wait_on(pulse, self._until())
            except TimeoutError as error:
                if interrupted(error):
                    raise
                raise self.late() from None
            finally:
                self._pulses.remove(pulse)

    def _until(self) -> float:
        """How long this thread waits: until the end of the stream's time, or of that of the call that runs here."""
        request = current.get()
        if request is None or not request.deadline or 0.0 < self.deadline < request.deadline:
            return self.deadline
        return request.deadline  # type: ignore[no-any-return]

    def late(self) -> CallTimeout:
        """The error where nothing came in time. The stream ends where its own time is over."""
        told = f"{self.session.told(self.method)}: no item of the stream came in time"
        if not self.deadline or genuine.monotonic() < self.deadline:
            return CallTimeout(told)
        self.close()
        return CallTimeout(f"{told}; it is closed")

    def close(self) -> None:
        """Leaves the stream."""
        raise NotImplementedError

    def take(self) -> Any:
        """The next item. Half of the window is given back at once. Raises IndexError."""
        taken = taken_size = 0
        self._counting.acquire()
        try:
            item, size = self.items.popleft()
            self._taken += 1
            self._taken_size += size
            if self._taken * 2 >= WINDOW or self._taken_size * 2 >= WINDOW_BYTES:
                taken = self._taken
                taken_size = self._taken_size
                self._taken = 0
                self._taken_size = 0
        finally:
            self._counting.release()
        if taken and not self.over:
            self.session.send(CREDIT, self.number, (taken, taken_size))
        return item


class Stream(Inflow):
    """The end that reads a stream: an iterator. Leaving it early (close(), `with`, dropping it) closes the other."""

    def __repr__(self) -> str:
        return f"<stream of {self.session.told(self.method)}>"

    def ended(self, error: BaseException | None) -> None:
        """No more will come. The receiver calls it."""
        self.error = error
        self.over = True
        order()  # who waits notes that, then looks whether it is over
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
            if self.connection.lost is None:
                self.session.submit_from_anywhere(self.session.send, CLOSE, self.number, ())

    # ---- the same in an event loop: coroutines are those of streams.py, which stays Python ----

    def __aiter__(self) -> Stream:
        return self

    def __anext__(self) -> Any:
        return self.session.next_of(self)

    def aclose(self) -> Any:
        """As close()."""
        return self.session.leave(self)
