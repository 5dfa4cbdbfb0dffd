# cython: language_level=3, boundscheck=False, wraparound=True, freethreading_compatible=True
"""One connection, both roles at once: either end may call, and either may be called. This is the path of every call.

Whoever waits for an answer receives for itself, so a call switches no thread at either end. One thread receives at a
time: it holds `receiving`. It reads frames until its own answer is there, and gives the answers of others to them. When
it leaves, it wakes another one that waits. A thread of a pool receives the same way where nobody waits.

No lock is held while a thread waits or runs a method. `sending` is held for one frame.

The connection is a class in four files, from bytes up:

    _receiving      bytes to frames
    _sending        frames to bytes
    _serving        what is called here: requests, their order, their answers
    _connection     what is called there: calls, their answers, the threads that wait for them
    _records        what is noted of a call
    _locks          the locks of these; the numbers of frames.py in C: _frames.pxd
    _vectorcall.pxd how compiled methods take their arguments, for this file and _batching
"""
cimport cython
from cpython.object cimport PyObject
from fastsock.rmi.codec._packing cimport Packer
from fastsock.rmi.codec._unpacking cimport Unpacker
from fastsock.rmi.wire._flow cimport Inflow
from fastsock.rmi.wire._frames cimport (
    BATCH, BEHALF, CALL, CANCEL, CHAIN, DEADLINE, ERROR, FREE, GOODBYE, HEADER_BYTES, ITEM, KEYWORDS, LASTING, ONEWAY,
    RESULT,
)
from fastsock.rmi.wire._locks cimport order
from fastsock.rmi.wire._records cimport context_of, get_ident, new_call
from fastsock.rmi.wire._serving cimport THREAD_SHIFT, now
from fastsock.rmi.wire._vectorcall cimport accept_vectorcall, given_by_name, given_by_place

import select
from _thread import allocate_lock
from collections import deque
from contextlib import suppress
from weakref import ref

from fastsock.rmi.api.introspection import ANY
from fastsock.rmi.errors import BadFrame, CallTimeout, LimitExceeded, LostPeer, RmiError
from fastsock.rmi.interrupts import interrupted
from fastsock.rmi.wire._locks import Lock
from fastsock.rmi.wire._receiving import FOR_EVER, NOT_AT_ALL
from fastsock.rmi.wire._records import process
from fastsock.rmi.wire._serving import THREADS


cdef class Target:
    """The object that a proxy's methods are called on, and the connection to it.

    home: makes the connection again, and finds the object there (proxy.py).
    """

    def __init__(self, name, connection, object_number, timeout, home):
        self.name = name
        self._connection = connection
        self.object_number = object_number
        self.timeout = timeout
        self.home = home

    @property
    def connection(self):
        """The present one. Another thread may connect again at any time."""
        return self._current()

    @connection.setter
    def connection(self, connection):
        with cython.critical_section(self):
            self._connection = connection

    cdef Connection _current(self):
        with cython.critical_section(self):
            return self._connection


cdef class Method:
    """A method of an object elsewhere. A proxy makes one for each name, and says what its class says of it."""

    def __init__(self, target, name, number, flags):
        self.target = target
        self.name = name
        self.number = number
        self.flags = flags
        self.__name__ = name
        self.__doc__ = None
        self.__signature__ = ANY
        self._vectorcall = <void *>call_method

    def __get__(self, instance, owner):
        return self  # help() shows the signature of what looks like a method

    def __call__(self, *arguments, **keywords):
        return self._call(arguments, keywords)

    cdef object _call(self, object arguments, object keywords):
        cdef double deadline
        cdef Target target = self.target
        cdef Connection connection = target._current()
        if connection is None or connection.lost is not None or connection.forks != connection.process.forks:
            connection = target.home.connect_again(self)
        deadline = 0.0
        if target.timeout:
            deadline = now() + target.timeout
        if self.flags == IS_ONEWAY:
            connection.notify(self, arguments, keywords, deadline)
            return None
        if self.flags:
            return target.home.call(self, connection, arguments, keywords, deadline)
        return connection.call(self, arguments, keywords, deadline)

    def __repr__(self):
        return f"<method {self.name} of {self.target.name}>"


cdef object call_method(object method, PyObject **given, size_t flagged, PyObject *names):
    return (<Method>method)._call(given_by_place(given, flagged), given_by_name(given, flagged, names))


cdef int accept_calls() except -1:
    cdef Method made = Method.__new__(Method)
    accept_vectorcall(made, <char *>&made._vectorcall - <char *><void *>made)
    return 0


cdef class Connection(Servant):
    """One connection after its hello.

    sock: it is used by this object alone. session: what is not on the path of every call (session.py). packer,
    unpacker: of the codec. peer: for messages.
    """

    def __init__(self, sock, carrier, session, packer, unpacker, peer, limit):
        Servant.__init__(self, sock, carrier, session, packer, unpacker, peer, limit)
        self.closing = False
        self.hurried = False  # other connections want the thread that serves this one
        self.knows_chains = False  # the other end
        self.process = process
        self.forks = process.forks
        self.calls = {}
        self._parked = {}
        self._threads = {}
        self._end_begun = Lock()  # the first error that ends it takes it, for good
        self._last_thread = 0
        self._last_slot = 0
        self._count = 0
        self._counted_all = False
        self._heeded = 0  # of bytes_sent, when who waits for nothing looked last
        self._stream = None  # the stream that an item came for last, if it lives
        self._stream_number = 0
        self._is_serving = False  # a thread that serves handles a frame
        self._resumed = None  # the producer that it goes on with

    # ---- calling ----

    cpdef object call(self, Method method, object arguments, object keywords, double deadline, int flags=0):
        """Makes a call and waits for its answer: returns its value, or raises its error.

        deadline: by the monotonic clock, 0 for none. Within a method it is that of the method's call at the latest.
        flags: LASTING, where a stream must end at the deadline. Raises CallTimeout, LostPeer, and what the method
        raised.
        """
        cdef Call call = self.start(CALL, method, arguments, keywords, deadline, flags)
        if not call.done:
            self.wait(call, call.deadline)
        if call.failed:
            raise self.session.raised(call)
        return call.value

    cpdef Call start(self, int kind, Method method, object arguments, object keywords, double deadline, int flags):
        """Sends a call. Returns what to wait for (it is done at once where nothing comes back).

        arguments: a tuple, or of a batch what writes itself.
        """
        cdef Call call = new_call(0, method)
        if kind == ONEWAY:
            call.done = True
        else:
            call.awaited = not flags & FREE
        self._send_call(kind, method, arguments, keywords, deadline, flags, call)
        return call

    cpdef object notify(self, Method method, object arguments, object keywords, double deadline):
        """Sends a one-way call."""
        self._send_call(ONEWAY, method, arguments, keywords, deadline, 0, None)

    cdef int _send_call(
        self, int kind, Method method, object arguments, object keywords, double deadline, int flags, Call call,
    ) except -1:
        cdef Request request
        cdef unsigned int number
        cdef double left, lasting
        cdef Packer packer
        sending = self.sending
        cdef unsigned int behalf = 0
        chain = None
        running = context_of(self._current)
        if running is not None:
            request = running
            chain = request.chain
            lasting = deadline if flags & LASTING else 0.0
            if request.deadline:
                if not lasting or request.deadline < lasting:
                    lasting = request.deadline
                if not deadline or request.deadline < deadline:
                    deadline = request.deadline
                    flags |= LASTING
            if call is not None:
                call.lasting = lasting
                call.chain = chain
            if kind == ONEWAY or not self.knows_chains:
                chain = None
            while request is not None and request.connection is not self:
                request = request.outer
            if request is not None:
                behalf = request.number
                flags |= BEHALF
        elif flags & LASTING and call is not None:
            call.lasting = deadline
        if call is not None:
            call.deadline = deadline
        sending.acquire()
        try:
            if self.lost is not None:
                raise self.session.gone(method, False)
            number = self._next_number()
            packer = self._packer
            packer.start(HEADER_BYTES)
            try:
                if deadline:
                    flags |= DEADLINE
                    left = deadline - now()
                    if left <= 0:
                        raise CallTimeout(
                            f"{self.session.described(method)}: no time was left to make the call: it has not run"
                        )
                    packer.pack(left)
                if flags & BEHALF:
                    packer.pack(behalf)
                if chain is not None:
                    flags |= CHAIN
                    packer.pack(chain)
                if kind == BATCH:
                    packer.pack_written(arguments)
                else:
                    packer.pack(arguments)
                if keywords:
                    flags |= KEYWORDS
                    packer.pack(keywords)
                if kind != ONEWAY:
                    call.number = number
                    self.calls[number] = call
                    order()
                    if self.lost is not None:  # meanwhile: who ends it has perhaps not seen the call
                        raise self.session.gone(method, False)
                self._send_frame(kind, flags, number, method.target.object_number, method.number)
            except BaseException as error:
                if packer.is_open:
                    self._abandon()
                elif isinstance(error, LostPeer):
                    raise self.session.gone(method, True) from None
                self.calls.pop(number, None)
                raise
        finally:
            sending.release()
        if self.bytes_sent - self._heeded > MOST_UNHEEDED:
            self._heeded = self.bytes_sent
            if (call is None or not call.awaited) and self.on_blocked is None:
                self.receive_what_came()  # the other end may close: it reads, but waits until its answers are taken
                if kind == ONEWAY and self.lost is not None:
                    raise self.session.gone(method, True)

    cdef unsigned int _next_number(self) except? 0:
        """The number of this thread's next call. The caller holds `sending`."""
        cdef unsigned int slot
        cdef unsigned long thread = get_ident()
        if thread != self._last_thread:
            self._last_slot = self._slot(thread)
            self._last_thread = thread
        slot = self._last_slot
        self._count = (self._count + 1) & COUNT_MASK
        if self._count == 0 or self._counted_all:
            return self._unused(slot)
        return slot << THREAD_SHIFT | self._count

    cdef unsigned int _unused(self, unsigned int slot) except? 0:
        """A number that no call and no stream has. All were given once, and some may live long."""
        cdef unsigned int number
        self._counted_all = True
        while True:
            number = slot << THREAD_SHIFT | self._count
            if self._count and number not in self.calls and number not in self.session.streams:
                return number
            self._count = (self._count + 1) & COUNT_MASK

    cdef object _slot(self, unsigned long thread):
        """A small number for a thread. Two threads that share one wait for each other's one-way calls, no more."""
        slot = self._threads.get(thread)
        if slot is None:
            slot = self._threads[thread] = len(self._threads) % THREADS
        return slot

    cpdef object wait(self, Call call, double deadline):
        """Receives until the call is done. Raises CallTimeout; what it raises ends the call, not the connection."""
        try:
            self.wait_on(call, deadline)
        except TimeoutError as error:
            self.give_up(call)
            if interrupted(error):
                raise
            if call.done:
                return
            raise CallTimeout(self.session.late(call)) from None
        except BaseException:
            self.give_up(call)
            raise

    cpdef object wait_on(self, Call call, double deadline):
        """Receives until the call is done. Raises TimeoutError: then the call goes on."""
        cdef Request request
        call.awaited = True
        while not call.done:
            if call.inbox:
                self._execute_here(call.inbox.popleft())
            elif self.receiving.acquire(False):
                request = None
                try:
                    while not call.done and request is None:
                        if self._read_frame(deadline):
                            request = self._handle(call)
                    if self._end > self._start and request is None:
                        self._take_items(call.number)
                except (OSError, RmiError) as error:
                    if interrupted(error) or (deadline and isinstance(error, TimeoutError)):
                        raise
                    self.fail(error)
                finally:
                    self.receiving.release()
                    if self._parked:
                        self._wake_next()
                if request is not None:
                    self._execute_here(request)
            else:
                self._park(call, deadline)
        if (self._parked or self.has_bytes()) and not self.receiving.locked():
            self._hand_over()

    cdef object _execute_here(self, Request request):
        """In the thread that waits. It may run a request already, and both may call by any connection."""
        request.outer = context_of(self._current)
        self.execute(request)

    cdef int _hand_over(self) except -1:
        """This thread receives no more. Frames may have come of which the kernel tells nobody."""
        if self._parked:
            self._wake_next()
        elif self.session.served:
            self.session.submit(self.session.pool.serve, self.session)

    cdef object _park(self, Call call, double deadline):
        """Sleeps until the call is done, or has something to run, or nobody receives any more."""
        cdef double left
        wake = call.wake
        if wake is None:
            call.wake = wake = allocate_lock()
            wake.acquire()
        self._parked[call] = call
        if call.done or call.inbox or not self.receiving.locked():
            if self._parked.pop(call, None) is not None:
                return
            wake.acquire()  # whoever took it out releases it
            return
        try:
            if not deadline:
                wake.acquire()
                return
            left = deadline - now()
            if left > 0 and wake.acquire(True, left):
                return
        except BaseException:
            if self._parked.pop(call, None) is None:
                self._wake_next()  # this one was woken, and does not receive
            raise
        if self._parked.pop(call, None) is None:
            wake.acquire()
            return
        raise TimeoutError

    cdef int _wake(self, Call call) except -1:
        if self._parked.pop(call, None) is not None:
            call.wake.release()

    cdef object _wake_next(self):
        """Nobody receives any more: one of those that wait takes it over."""
        cdef Call call
        for call in list(self._parked):
            if self._parked.pop(call, None) is not None:
                call.wake.release()
                return

    cpdef bint give_up(self, Call call) except -1:
        """Nobody waits for the call any more: its answer will be dropped, and the other end is told. False: the answer
        has come meanwhile."""
        known = self.calls.pop(call.number, None)
        if call.inbox:
            self._run_inbox_later(call)
        if known is None:
            return False
        if self.lost is None:
            with suppress(LostPeer):  # then nothing will run there for long
                self.send_plain(CANCEL, 0, call.number, 0, 0, ())
        return True

    # ---- what came ----

    cdef Request _handle(self, Call mine):
        """Handles the frame that was read. Returns a request that the caller has to run, or None.

        mine: the call that this thread waits for, or None. The caller holds `receiving`.
        """
        cdef Request request
        cdef Call call
        cdef int kind = self._kind
        if kind in (RESULT, ERROR):
            self._answer(kind)
            return None
        if kind in (CALL, ONEWAY, BATCH):
            request = self._request()
            if request is None:
                return None
            if request.behalf:
                call = self.calls.get(request.behalf)
                if call is not None and request.chain is None:
                    request.chain = call.chain  # an end of version 1 has not told it
                if call is not None and call is mine:
                    return request
                if call is not None and not call.awaited:
                    self._run_apart(call, request)
                    return None
                if call is not None:
                    if call.inbox is None:
                        call.inbox = deque()
                    call.inbox.append(request)
                    self._wake(call)
                    if call.number not in self.calls:  # it was given up meanwhile
                        self._run_inbox_later(call)
                    return None
            if mine is None:
                return request
            self.run_later(request)
            return None
        if kind == ITEM:
            self._item()
            return None
        if kind == GOODBYE:
            self._taken()
            raise self.session.ended()
        unpacker = self._unpacker
        try:
            self._begin()
            self.session.handle(kind, self._flags, self._number, self._object, self._method, unpacker)
            unpacker.end()
        except BaseException as error:
            self._half_handled(error)
        self._taken()
        return None

    cdef bint _item(self) except -1:
        """An item of a stream. One that nobody reads is dropped: False."""
        cdef Py_ssize_t size
        cdef Inflow stream
        cdef unsigned int number = self._number
        cdef Unpacker unpacker = self._unpacker
        failure = None
        value = None
        try:
            self._begin()
            value = unpacker.unpack()
            unpacker.end()
        except (BadFrame, LimitExceeded):
            raise
        except BaseException as error:
            if self.is_half_read(error):
                self._half_handled(error)
            unpacker.end()
            failure = error
        size = self.frame_bytes()
        self._taken()
        if failure is not None:
            self.session.item_failed(number, failure)
            self._stream = None  # it has ended: its items are not taken ahead
            return False
        stream = self._stream() if self._stream is not None and number == self._stream_number else None
        if stream is None:
            stream = self.session.streams.get(number)
            if stream is None:
                return False
            self._stream = ref(stream)
            self._stream_number = number
        stream.arrived(value, size)
        return True

    cdef object _take_items(self, unsigned int number):
        """Takes the items of a stream that are in the scratch already: a reader that is behind waits once for many."""
        if self._stream is None:
            return
        for _ in range(MOST_ITEMS):
            if not self.is_whole(ITEM, number) or not self._read_frame(NOT_AT_ALL) or not self._item():
                return

    cdef object _answer(self, int kind):
        cdef int flags = self._flags
        cdef Call call = self.calls.pop(self._number, None)
        cdef Unpacker unpacker = self._unpacker
        try:
            self._begin()
            value = unpacker.unpack() if kind == RESULT else self.session.unpack_error(unpacker)
            unpacker.end()
        except (BadFrame, LimitExceeded) as error:
            if call is not None:
                self.settle(call, error, True)
            raise
        except BaseException as error:
            if self.is_half_read(error):
                self._unanswered(call, error)
            unpacker.end()
            value = error
            kind = ERROR
            flags = 0
        self._taken()
        if call is not None and flags == 0:
            self.settle(call, value, kind == ERROR)
            return
        self._special_answer(kind, flags, call, value)

    cdef int _special_answer(self, int kind, int flags, Call call, object value) except -1:
        """The answer is a stream, or nobody waits for it any more."""
        if call is not None:
            try:
                value = self.session.special_result(flags, call, value)
            except BaseException as error:
                self._unanswered(call, error)
            self.settle(call, value, False)
        elif flags:
            self.session.nobody_reads(flags, self._number)

    def _unanswered(self, call, error):
        if call is not None:
            self.calls[call.number] = call  # it ends with the others
        self._half_handled(error)

    cpdef object settle(self, Call call, object value, bint failed):
        call.value = value
        call.failed = failed
        call.done = True
        order()  # who waits notes that, then looks whether it is done
        if self._parked:
            self._wake(call)
        if call.on_done is not None:
            call.on_done(call)

    cpdef object receive_what_came(self, unsigned long long most=0):
        """Receives without waiting, and not much more than so many bytes (0: all). False: another thread receives."""
        cdef unsigned long long begin
        if not self.receiving.acquire(False):
            return False
        begin = self.bytes_received
        try:
            while self._read_frame(NOT_AT_ALL):
                self.run_later(self._handle(None))
                if most and self.bytes_received - begin >= most and self._shows_the_rest():
                    break
        except (OSError, RmiError) as error:
            if interrupted(error):
                raise
            self.fail(error)
        finally:
            self.receiving.release()
            if self._parked:
                self._wake_next()
        return True

    cpdef bint serve(self, bint lingers) except -1:
        """Receives and runs requests until none comes for a while. Returns whether this thread received last.

        lingers: whether to wait for the next one; else only what is there is run. The caller holds `receiving`.
        """
        cdef Request request
        deadline = FOR_EVER if lingers else NOT_AT_ALL
        self.hurried = False
        held = True
        try:
            while True:
                if self.hurried:
                    deadline = NOT_AT_ALL
                if not self._read_frame(deadline):
                    return True
                self._is_serving = True
                try:
                    request = self._handle(None)
                finally:
                    self._is_serving = False
                if self._resumed is not None:
                    producer = self._resumed
                    self._resumed = None
                    self.receiving.release()
                    held = False
                    self.session.go_on(producer)
                    producer = None
                    if not self.receiving.acquire(False):
                        return False
                    held = True
                    continue
                if request is None:
                    continue
                if not self.claim(request):
                    continue
                self.receiving.release()
                held = False
                self.run_claimed(request)
                request = None  # its arguments must not live until the next one comes
                if not self.receiving.acquire(False):
                    return False
                held = True
        except (OSError, RmiError) as error:
            self.fail(error)
            return True
        finally:
            if held:
                self.receiving.release()
                if self._parked:
                    self._wake_next()

    cpdef object resume(self, object producer):
        """A stream has credit again. The receiver calls it: who serves goes on with it as soon as it has let go."""
        if self._is_serving and self._resumed is None:
            self._resumed = producer
        else:
            self.session.submit(producer.go_on)

    # ---- the end ----

    cpdef object fail(self, object error):
        """The connection is of no use any more: all calls on their way end with the error. Idempotent."""
        cdef Call call
        if not self._end_begun.acquire(False):
            return
        error.__traceback__ = None  # its frames hold what was called last
        self.lost = error
        order()  # whoever notes a call looks after that whether the connection is lost
        for number in list(self.calls):
            call = self.calls.pop(number, None)
            if call is not None:
                self.settle(call, self.session.gone(call.method, True), True)
        for call in list(self._parked):
            self._wake(call)
        self.session.was_lost(error)


def poll_descriptor(descriptor, events, seconds):
    """What of POLLIN and POLLOUT is so, after `seconds` at most."""
    poller = select.poll()
    poller.register(descriptor, events)
    found = poller.poll(max(seconds, 0.0) * 1000)
    return found[0][1] if found else 0


accept_calls()
