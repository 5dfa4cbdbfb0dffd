# cython: language_level=3, freethreading_compatible=True
"""The two ends of a stream, as far as each item passes them: the credit of one, what has come to the other."""
cimport cython
from fastsock.rmi.wire._frames cimport ITEM, WINDOW, WINDOW_BYTES
from fastsock.rmi.wire._locks cimport order
from fastsock.rmi.wire._records cimport Call, new_call

from collections import deque

from fastsock.rmi.errors import CallTimeout, LostPeer
from fastsock.rmi.interrupts import interrupted
from fastsock.rmi.wire._locks import Lock
from fastsock.rmi.wire._records import current
from fastsock.rmi.wire.frames import CLOSE, CREDIT
from fastsock.system.originals import originals

_DONE = object()
WAITING, LEFT, ENDED = 0, 1, 2


cdef class Outflow:
    """The end that feeds a stream by a generator. It has credit for `items` and `size` bytes."""

    def __init__(self, connection, number, source):
        self.connection = connection
        self.number = number
        self.source = source
        self.closed = False  # the reader has left
        self.is_taking = False  # an error that comes now is the generator's
        self.items = WINDOW
        self.size = WINDOW_BYTES
        self._credit = Lock()

    cpdef object credited(self, long long items, long long size):
        """The reader has room for more."""
        self._use(-items, -size)

    @cython.final
    cdef int _use(self, long long items, long long size) except -1:
        self._credit.acquire()
        self.items -= items
        self.size -= size
        self._credit.release()

    cpdef bint has_credit(self) noexcept:
        """Whether an item may go."""
        return self.items > 0 and self.size > 0

    cpdef int pour(self) except -1:
        """Sends items while there is credit. WAITING for more of it, LEFT by the reader, or ENDED by the generator.

        Raises what the generator raises, and what cannot be sent.
        """
        cdef Sender connection = self.connection
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

    cpdef object send_item(self, object item):
        """Sends one item, and notes what credit it used."""
        self._send(item)

    @cython.final
    cdef object _send(self, object item):
        cdef long long size
        try:
            size = self.connection.send_value(ITEM, self.number, item)
        except LostPeer:  # the next look finds that
            return
        self._use(1, size)


cdef class Inflow:
    """The end that reads a stream. deadline: when it must be over, 0 for never."""

    def __init__(self, session, number, method, deadline=0.0):
        self.deadline = deadline
        self.session = session
        self.connection = session.connection
        self.method = method
        self.number = number
        self.items = deque()
        self.over = False
        self.error = None
        self.waker = None  # of an event loop that reads it
        self._pulses = []
        self._taken = 0
        self._taken_size = 0
        self._counting = Lock()

    cpdef object arrived(self, object item, Py_ssize_t size):
        """An item came. The receiver calls it."""
        if not self.over:
            self.items.append((item, size))
            self.beat()

    cpdef object beat(self):
        """Those who wait look again."""
        cdef Call pulse
        if self._pulses:
            for pulse in list(self._pulses):
                self.connection.settle(pulse, None, False)
        if self.waker is not None:
            self._counting.acquire()
            waker = self.waker
            self._counting.release()
            if waker is not None:
                waker()

    cpdef bint wakes(self, object function) except -1:
        """The receiver will call it, if it is not None, when something comes. Whether there is something already."""
        self._counting.acquire()
        before = self.waker  # lives until nobody reads it any more
        self.waker = function
        self._counting.release()
        del before
        return self.over or len(self.items) > 0

    def __iter__(self):
        return self

    def __next__(self):
        return self._next()

    cdef object _next(self):
        cdef Call pulse
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

    cdef double _until(self) except -1:
        """How long this thread waits: until the end of the stream's time, or of that of the call that runs here."""
        request = current.get()
        if request is None or not request.deadline or 0.0 < self.deadline < request.deadline:
            return self.deadline
        return request.deadline

    cpdef object late(self):
        """The error where nothing came in time. The stream ends where its own time is over."""
        text = f"{self.session.described(self.method)}: no item of the stream came in time"
        if not self.deadline or originals.monotonic() < self.deadline:
            return CallTimeout(text)
        self.close()
        return CallTimeout(f"{text}; it is closed")

    cpdef object close(self):
        """Leaves the stream."""
        raise NotImplementedError

    cpdef object take(self):
        """The next item. Half of the window is given back at once. Raises IndexError."""
        cdef long long taken, taken_size
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


cdef class Stream(Inflow):
    """The end that reads a stream: an iterator. Leaving it early (close(), `with`, dropping it) closes the other."""

    def __repr__(self):
        return f"<stream of {self.session.described(self.method)}>"

    cpdef object ended(self, object error):
        """No more will come. The receiver calls it."""
        self.error = error
        self.over = True
        order()  # who waits notes that, then looks whether it is over
        self.beat()

    cpdef object close(self):
        """Leaves the stream: the generator at the other end is closed, and what came is dropped. Idempotent."""
        if self.over:
            return
        self.over = True
        self.items.clear()
        if self.session.streams.pop(self.number, None) is not None:
            self.session.send(CLOSE, self.number, ())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if not self.over:
            self.over = True
            if self.connection.lost is None:
                self.session.submit_from_anywhere(self.session.send, CLOSE, self.number, ())

    # ---- the same in an event loop: coroutines are those of streams.py, which stays Python ----

    def __aiter__(self):
        return self

    def __anext__(self):
        return self.session.next_of(self)

    def aclose(self):
        """As close()."""
        return self.session.leave(self)
