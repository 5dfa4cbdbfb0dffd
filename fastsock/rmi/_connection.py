# cython: language_level=3, annotation_typing=False, boundscheck=False, wraparound=True, freethreading_compatible=True
"""One connection, both roles at once: either end may call, and either may be called. This is the path of every call.

Whoever waits for an answer receives for itself, so a call switches no thread at either end. One thread receives at a
time: it holds `receiving`. It reads frames until its own answer is there, and gives the answers of others to them. When
it leaves, it wakes another one that waits. A thread of a pool receives the same way where nobody waits.

No lock is held while a thread waits or runs a method. `sending` is held for one frame. Where the other end takes
nothing, the sender receives meanwhile: two ends that both send much do not stop each other.

The augmenting file `_connection.pxd` gives the types: Cython compiles this text, and Python runs it where there is no
compiler.
"""

from __future__ import annotations

import select
from _socket import MSG_DONTWAIT
from _thread import allocate_lock, get_ident
from collections import deque
from contextlib import suppress
from contextvars import ContextVar
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any

from ..system.genuine import genuine
from .errors import BadFrame, CallTimeout, LimitExceeded, LostPeer, RmiError, UnknownMethod, UnknownObject

try:
    import cython
except ModuleNotFoundError:
    from . import _interpreted as cython

if not cython.compiled:
    from .frames import (
        BATCH,
        BEHALF,
        CALL,
        CANCEL,
        DEADLINE,
        ERROR,
        FREE,
        GOODBYE,
        HEADER_BYTES,
        KEYWORDS,
        LENGTH_BYTES,
        ONEWAY,
        RESULT,
        put_header,
        word_16,
        word_32,
    )

    RECEIVE_BYTES = 1 << 14  # what is read at once; a larger part would be copied twice
    COUNT_MASK = 0xFFFFFF
    THREAD_SHIFT = 24

_now = genuine.monotonic
THREADS = 255
ALIGNMENT = 64
PATIENCE = 0.002  # seconds that a sender waits for room before it looks for something to receive
FOR_EVER = 0.0
NOT_AT_ALL = -1.0

current: ContextVar[Any] = ContextVar("fastsock.rmi.request", default=None)
"""The request that this thread or task runs, or None."""


class Idle(Exception):
    """Nothing came for a while. No part of a frame is lost."""


class Call:
    """A call on its way, and its answer."""

    def __init__(self, number: int, method: Any) -> None:
        self.number = number
        self.method = method
        self.done = False
        self.failed = False
        self.value: Any = None
        self.awaited = False  # by a thread, that runs what is called back meanwhile
        self.wake: Any = None
        self.inbox: Any = None  # requests that the waiting thread is to run
        self.on_done: Any = None


class Target:
    """The object that a proxy's methods are called on, and the connection to it.

    home: makes the connection again, and finds the object there (proxy.py).
    """

    def __init__(self, name: str, connection: Any, object_number: int, timeout: float, home: Any) -> None:
        self.name = name
        self.connection = connection
        self.object_number = object_number
        self.timeout = timeout
        self.home = home


class Method:
    """A method of an object elsewhere. A proxy makes one for each name."""

    def __init__(self, target: Target, name: str, number: int, flags: int) -> None:
        self.target = target
        self.name = name
        self.number = number
        self.flags = flags

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        target = self.target
        connection = target.connection
        if connection is None or connection.lost is not None or connection.forks != process.forks:
            connection = target.home.connect_again(self)
        deadline = 0.0
        if target.timeout:
            deadline = _now() + target.timeout
        if self.flags:
            return target.home.call(self, connection, arguments, keywords, deadline)
        return connection.call(self, arguments, keywords, deadline)

    def __repr__(self) -> str:
        return f"<method {self.name} of {self.target.name}>"


class _Process:
    """How often this process was forked since the module was loaded. A connection belongs to one process."""

    def __init__(self) -> None:
        self.forks = 0


process = _Process()


class Request:
    """A call by the other end, to be run here."""

    def __init__(
        self, connection: Any, kind: int, flags: int, number: int, exported: Any, method: int, arguments: Any,
        keywords: Any, deadline: float, behalf: int,
    ) -> None:  # fmt: skip
        self.connection = connection
        self.kind = kind
        self.flags = flags
        self.number = number
        self.exported = exported
        self.method = method
        self.arguments = arguments
        self.keywords = keywords
        self.deadline = deadline
        self.behalf = behalf
        self.cancelled = False
        self.behind: Any = None  # later requests of the same thread
        self.task: Any = None


class Connection:
    """One connection after its hello.

    sock: it is used by this object alone. session: what is not on the path of every call (session.py). packer,
    unpacker: of the codec. peer: for messages.
    """

    def __init__(
        self, sock: Any, channel: Any, session: Any, packer: Any, unpacker: Any, peer: str, limit: int
    ) -> None:
        self.sock = sock
        self.session = session
        self.peer = peer
        self.limit = limit
        self.lost: Any = None  # the error that ended it
        self.closing = False
        self.hurried = False  # other connections want the thread that serves this one
        self.forks = process.forks
        self.activity = 0
        self.frames_sent = 0
        self.bytes_sent = 0
        self.bytes_received = 0
        self.receiving = allocate_lock()
        self.sending = allocate_lock()
        self.calls: dict[int, Call] = {}
        self.exports: dict[int, Any] = {}
        self._order = allocate_lock()
        self._running: dict[int, Request] = {}  # by the caller's thread
        self._parked: dict[Call, Call] = {}
        self._threads: dict[int, int] = {}
        self._count = 0
        self._counted_all = False
        self._packer = packer
        self._unpacker = unpacker
        self._channel = channel
        self._unsent: list[Any] = []
        self.on_blocked: Any = None  # of an event loop, that sends the rest when there is room
        self._receive = sock.recv_into
        self._send = sock.send
        self._memory = bytearray(RECEIVE_BYTES)
        self._view = memoryview(self._memory)
        self._start = 0
        self._end = 0
        # the frame that is being read
        self._stage = 0
        self._length = 0
        self._kind = 0
        self._flags = 0
        self._segment_count = 0
        self._number = 0
        self._object = 0
        self._method = 0
        self._large: Any = None
        self._filled = 0
        self._segments: Any = None
        self._buffers: Any = None  # their memory, while it is filled
        self._segment = 0

    # ---- calling ----

    def call(self, method: Any, arguments: Any, keywords: Any, deadline: float) -> Any:
        """Makes a call and waits for its answer: returns its value, or raises its error.

        deadline: by the monotonic clock, 0 for none. Raises CallTimeout, LostPeer, and what the method raised.
        """
        call = self.start(CALL, method, arguments, keywords, deadline, 0)
        if not call.done:
            self.wait(call, deadline)
        if call.failed:
            raise self.session.raised(call)
        return call.value

    def start(self, kind: int, method: Any, arguments: Any, keywords: Any, deadline: float, flags: int) -> Any:
        """Sends a call. Returns what to wait for (it is done at once where nothing comes back)."""
        sending = self.sending
        thread = get_ident()
        behalf = 0
        request = current.get()
        if request is not None:
            if request.connection is self:
                behalf = request.number
                flags |= BEHALF
            if request.deadline and (not deadline or request.deadline < deadline):
                deadline = request.deadline
        sending.acquire()
        try:
            if self.lost is not None:
                raise self.session.gone(method, False)
            slot = self._threads.get(thread)
            if slot is None:
                slot = self._slot(thread)
            self._count = count = (self._count + 1) & COUNT_MASK
            number = slot << THREAD_SHIFT | count
            if count == 0 or self._counted_all:
                number = self._unused(slot)
            packer = self._packer
            packer.start(HEADER_BYTES)
            try:
                if deadline:
                    flags |= DEADLINE
                    left = deadline - _now()
                    if left <= 0:
                        raise CallTimeout(
                            f"{self.session.told(method)}: no time was left to make the call: it has not run"
                        )
                    packer.pack(left)
                if flags & BEHALF:
                    packer.pack(behalf)
                packer.pack(arguments)
                if keywords:
                    flags |= KEYWORDS
                    packer.pack(keywords)
            except BaseException:
                self._abandon()
                raise
            call = Call(number, method)
            if kind != ONEWAY:
                call.awaited = not flags & FREE
                self.calls[number] = call
            else:
                call.done = True
            try:
                self._send_frame(kind, flags, number, method.target.object_number, method.number)
            except LostPeer:
                raise self.session.gone(method, True) from None
            except BaseException:
                self.calls.pop(number, None)
                raise
        finally:
            sending.release()
        return call

    def _unused(self, slot: int) -> int:
        """A number that no call and no stream has. All were given once, and some may live long."""
        self._counted_all = True
        while True:
            number = slot << THREAD_SHIFT | self._count
            if self._count and number not in self.calls and number not in self.session.streams:
                return number
            self._count = (self._count + 1) & COUNT_MASK

    def _slot(self, thread: int) -> int:
        """A small number for a thread. Two threads that share one wait for each other's one-way calls, no more."""
        slot = len(self._threads) % THREADS
        self._threads[thread] = slot
        return slot

    def wait(self, call: Call, deadline: float) -> None:
        """Receives until the call is done. Raises CallTimeout; what it raises ends the call, not the connection."""
        try:
            self.wait_on(call, deadline)
        except TimeoutError:
            self.give_up(call)
            if call.done:
                return
            raise CallTimeout(self.session.late(call)) from None
        except BaseException:
            self.give_up(call)
            raise

    def wait_on(self, call: Call, deadline: float) -> None:
        """Receives until the call is done. Raises TimeoutError: then the call goes on."""
        request: Any
        call.awaited = True
        while not call.done:
            if call.inbox:
                self.execute(call.inbox.popleft())
            elif self.receiving.acquire(False):
                request = None
                try:
                    while not call.done and request is None:
                        try:
                            self._read_frame(deadline)
                        except Idle:
                            continue
                        request = self._handle(call)
                except TimeoutError as error:
                    if deadline:
                        raise
                    self.fail(error)
                except OSError as error:
                    self.fail(error)
                except RmiError as error:
                    self.fail(error)
                finally:
                    self.receiving.release()
                    if self._parked:
                        self._wake_next()
                if request is not None:
                    self.execute(request)
            else:
                self._park(call, deadline)
        if (self._parked or self._end > self._start) and not self.receiving.locked():
            self._hand_over()

    def _hand_over(self) -> None:
        """This thread receives no more. Frames may be in the scratch, of which the kernel tells nobody."""
        if self._parked:
            self._wake_next()
        elif self.session.served:
            self.session.submit(self.session.pool.serve, self.session)

    def _park(self, call: Call, deadline: float) -> None:
        """Sleeps until the call is done, or has something to run, or nobody receives any more."""
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
            left = deadline - _now()
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

    def _wake(self, call: Call) -> None:
        if self._parked.pop(call, None) is not None:
            call.wake.release()

    def _wake_next(self) -> None:
        """Nobody receives any more: one of those that wait takes it over."""
        for call in list(self._parked):
            if self._parked.pop(call, None) is not None:
                call.wake.release()
                return

    def give_up(self, call: Call) -> None:
        """Nobody waits for the call any more: its answer will be dropped, and the other end is told."""
        known = self.calls.pop(call.number, None)
        if call.inbox:
            self._run_inbox_later(call)
        if known is None or self.lost is not None:
            return
        with suppress(LostPeer):  # then nothing will run there for long
            self.send_plain(CANCEL, 0, call.number, 0, 0, ())

    # ---- sending ----

    def send_plain(self, kind: int, flags: int, number: int, object_number: int, method: int, values: Any) -> int:
        """Sends one frame of these values, packed one by one. Returns its bytes, as frame_bytes() of the other end."""
        self.sending.acquire()
        try:
            if self.lost is not None:
                raise self.session.gone(None, False)
            packer = self._packer
            packer.start(HEADER_BYTES)
            try:
                for value in values:
                    packer.pack(value)
            except BaseException:
                self._abandon()
                raise
            return self._send_frame(kind, flags, number, object_number, method)
        finally:
            self.sending.release()

    def _abandon(self) -> None:
        """What was packed does not go."""
        self._packer.abandon()
        self.session.references.abandoned()

    def _send_frame(self, kind: int, flags: int, number: int, object_number: int, method: int) -> int:
        """Sends what the packer holds, and returns its bytes but those of the header."""
        body, segments = self._packer.finish()
        length = len(body)
        count = len(segments)
        if length - HEADER_BYTES > self.limit or count > 0xFFFF:
            self._abandon()
            raise LimitExceeded(
                f"{self.peer}: a message of {length - HEADER_BYTES} bytes beside {count} large parts is beyond"
                f" the limit of {self.limit} bytes"
            )
        if count:
            return self._send_with_segments(body, segments, kind, flags, number, object_number, method)
        put_header(self._packer, length - HEADER_BYTES, kind, flags, 0, number, object_number, method)
        self.frames_sent += 1
        self.bytes_sent += length
        if not self._unsent:
            try:
                sent = self._send(body, MSG_DONTWAIT)
            except BlockingIOError:
                sent = 0
            except OSError as error:
                self.fail(error)
                raise self.session.gone(None, True) from error
            if sent == length:
                return length - HEADER_BYTES
            body = body[sent:]
        self._push([body])
        return length - HEADER_BYTES

    def _send_with_segments(
        self, body: Any, segments: Any, kind: int, flags: int, number: int, object_number: int, method: int
    ) -> int:
        views = [memoryview(each).cast("B") for each in segments]
        total = len(body) + sum([len(each) for each in views])
        if total > self.limit:
            self._abandon()
            raise LimitExceeded(f"{self.peer}: a message of {total} bytes is beyond the limit of {self.limit}")
        put_header(self._packer, len(body) - HEADER_BYTES, kind, flags, len(views), number, object_number, method)
        self.frames_sent += 1
        self.bytes_sent += total
        self._push([body, *views])
        return total - HEADER_BYTES

    def _push(self, parts: Any) -> None:
        """Sends the parts, behind what is unsent. Receives meanwhile where there is no room."""
        pending = self._unsent
        pending.extend(parts)
        try:
            while pending:
                part = pending[0]
                try:
                    sent = self._send(part, MSG_DONTWAIT)
                except BlockingIOError:
                    sent = 0
                if sent == len(part):
                    del pending[0]
                elif sent:
                    pending[0] = part[sent:]
                elif self.on_blocked is None:
                    self._await_room()
                else:
                    at = len(pending) - len(parts)
                    if 0 <= at < len(pending):
                        pending[at] = memoryview(bytes(pending[at]))  # of the scratch, which is used again
                    self.on_blocked()
                    return
        except OSError as error:
            self.fail(error)
            raise self.session.gone(None, True) from error
        except (
            BaseException
        ):  # a signal handler's: the rest must go all the same, and the program may change its memory
            pending[:] = [memoryview(bytes(part)) for part in pending]
            raise

    def send_unsent(self) -> bool:
        """Sends what found no room, as far as there is room now. Whether nothing is left. Raises LostPeer."""
        with self.sending:
            if self._unsent:
                self._push([])
            return not self._unsent

    def _await_room(self) -> None:
        """The other end takes nothing. Perhaps it sends, and waits for this end to receive."""
        received = self.bytes_received
        self.receive_what_came()
        if self.lost is not None:
            raise self.session.gone(None, True)
        if self.bytes_received == received:
            self.session.await_room(PATIENCE)

    # ---- receiving ----

    def _read_frame(self, deadline: float) -> None:
        """Reads until a whole frame is there. Where it raises, the next call goes on from there.

        deadline: as that of a call; NOT_AT_ALL takes only what is there already. Raises Idle, TimeoutError, LostPeer,
        BadFrame and what the socket raises.
        """
        if self._stage == 0:
            while self._end - self._start < HEADER_BYTES:
                self._fill(deadline)
            at = self._start
            memory = self._memory
            self._length = word_32(memory, at)
            self._kind = memory[at + 4]
            self._flags = memory[at + 5]
            self._segment_count = word_16(memory, at + 6)
            self._number = word_32(memory, at + 8)
            self._object = word_16(memory, at + 12)
            self._method = word_16(memory, at + 14)
            if self._length > self.limit:
                raise LimitExceeded(f"{self.peer}: a frame of {self._length} bytes is beyond the limit of {self.limit}")
            if self._segment_count * LENGTH_BYTES > self._length:
                raise BadFrame(f"{self.peer}: a frame of {self._length} bytes names {self._segment_count} segments")
            self._start += HEADER_BYTES
            self._stage = 1
        if self._stage == 1:
            if self._length <= RECEIVE_BYTES:
                while self._end - self._start < self._length:
                    self._fill(deadline)
            else:
                self._read_large(deadline)
            self._stage = 2
        if self._segment_count:
            self._read_segments(deadline)
        self._stage = 3
        self.activity += 1

    def _fill(self, deadline: float) -> None:
        """Receives more into the scratch."""
        if self._start == self._end:
            self._start = self._end = 0
            view = self._view
        else:
            if self._start:
                rest = self._end - self._start
                self._memory[:rest] = self._memory[self._start : self._end]
                self._start = 0
                self._end = rest
            view = self._view[self._end :]
        self._end += self._receive_into(view, deadline)

    def _receive_into(self, view: Any, deadline: float) -> int:
        try:
            if deadline == FOR_EVER:
                got = self._receive(view)
            elif deadline < 0:
                got = self._receive(view, 0, MSG_DONTWAIT)
            else:
                got = self._receive_until(view, deadline)
        except BlockingIOError:
            raise Idle from None
        if got == 0:
            raise self.session.ended()
        self.bytes_received += got
        return got  # type: ignore[no-any-return]

    def _receive_until(self, view: Any, deadline: float) -> int:
        left = deadline - _now()
        if left <= 0:
            raise TimeoutError
        channel = self._channel
        if channel is None:
            if not self.session.await_readable(left):
                raise TimeoutError
            return self._receive(view, 0, MSG_DONTWAIT)  # type: ignore[no-any-return]
        channel.settimeout(left)
        try:
            return self._receive(view)  # type: ignore[no-any-return]
        finally:
            channel.settimeout(None)

    def _read_large(self, deadline: float) -> None:
        """The body of a frame that the scratch cannot hold."""
        if self._large is None:
            memory = memoryview(bytearray(self._length))
            have = self._end - self._start
            memory[:have] = self._view[self._start : self._end]
            self._start = self._end = 0
            self._filled = have
            self._large = memory
        while self._filled < self._length:
            self._filled += self._receive_into(self._large[self._filled :], deadline)

    def _read_segments(self, deadline: float) -> None:
        """The segments, each into fresh memory of its own."""
        if self._segments is None:
            self._segments, self._buffers = self.session.fresh_segments(self._body(), self._segment_count)
            self._segment = 0
            self._filled = 0
        at = self._start + self._length if self._large is None else self._start
        while self._segment < self._segment_count:
            memory = self._buffers[self._segment]
            size = len(memory)
            while self._filled < size:
                have = min(self._end - at, size - self._filled)
                if have > 0:  # it came with the body
                    memory[self._filled : self._filled + have] = self._view[at : at + have]
                    self._take(at, have)
                    self._filled += have
                else:
                    self._filled += self._receive_into(memory[self._filled :], deadline)
            self._filled = 0
            self._segment += 1

    def _take(self, at: int, have: int) -> None:
        """Takes bytes of a segment out of the scratch: what is behind them moves up to the body."""
        rest = self._end - at - have
        if rest:
            self._memory[at : at + rest] = self._memory[at + have : self._end]
        self._end = at + rest

    def _body(self) -> Any:
        if self._large is not None:
            return self._large
        return self._view[self._start : self._start + self._length]

    def _begin(self) -> Any:
        """The unpacker, at the first value of the frame."""
        segments = self._segments
        self._unpacker.begin(self._body(), () if segments is None else segments)
        return self._unpacker

    def _taken(self) -> None:
        """The frame is done with."""
        if self._large is None:
            self._start += self._length
        self._large = None
        self._segments = None
        self._buffers = None
        self._stage = 0

    # ---- what came ----

    def _handle(self, mine: Any) -> Any:
        """Handles the frame that was read. Returns a request that the caller has to run, or None.

        mine: the call that this thread waits for, or None. The caller holds `receiving`.
        """
        kind = self._kind
        if kind in (RESULT, ERROR):
            self._answer(kind)
            return None
        if kind in (CALL, ONEWAY, BATCH):
            request = self._request()
            if request is None:
                return None
            if request.behalf:
                call = self.calls.get(request.behalf)
                if call is not None and call is mine:
                    return request
                if call is not None and call.awaited:
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
        if kind == GOODBYE:
            self._taken()
            raise self.session.ended()
        unpacker = self._begin()
        self.session.handle(kind, self._flags, self._number, self._object, self._method, unpacker)
        unpacker.end()
        self._taken()
        return None

    def _answer(self, kind: int) -> None:
        flags = self._flags
        call = self.calls.pop(self._number, None)
        unpacker = self._begin()
        try:
            value = unpacker.unpack() if kind == RESULT else self.session.unpack_error(unpacker)
            unpacker.end()
        except (BadFrame, LimitExceeded, MemoryError) as error:
            if call is not None:
                self.settle(call, error, True)
            raise
        except Exception as error:
            unpacker.end()
            value = error
            kind = ERROR
            flags = 0
        self._taken()
        if call is not None and flags == 0:
            self.settle(call, value, kind == ERROR)
            return
        self._special_answer(kind, flags, call, value)

    def _special_answer(self, kind: int, flags: int, call: Any, value: Any) -> None:
        """The answer is a stream, or nobody waits for it any more."""
        if call is not None:
            self.settle(call, self.session.special_result(flags, call, value), False)
        elif flags:
            self.session.nobody_reads(flags, self._number)

    def settle(self, call: Call, value: Any, failed: bool) -> None:
        call.value = value
        call.failed = failed
        call.done = True
        if self._parked:
            self._wake(call)
        if call.on_done is not None:
            call.on_done(call)

    def _request(self) -> Any:
        """The request of the frame. None: it cannot be run, and its caller was told."""
        flags = self._flags
        unpacker = self._begin()
        deadline = 0.0
        behalf = 0
        keywords = None
        try:
            if flags & DEADLINE:
                deadline = unpacker.unpack()
            if flags & BEHALF:
                behalf = unpacker.unpack()
            arguments = unpacker.unpack()
            if flags & KEYWORDS:
                keywords = unpacker.unpack()
            unpacker.end()
        except (BadFrame, LimitExceeded, MemoryError):
            raise
        except Exception as error:
            unpacker.end()
            request = Request(self, self._kind, flags, self._number, None, self._method, (), None, 0.0, 0)
            self._taken()
            self.session.refuse(request, error)
            return None
        if type(arguments) is not tuple or type(deadline) is not float or type(behalf) is not int:
            raise BadFrame(f"{self.peer}: the arguments of a call are no tuple")
        if keywords is not None and type(keywords) is not dict:
            raise BadFrame(f"{self.peer}: the keyword arguments of a call are no dict")
        if deadline:
            deadline += _now()
        exported = self.exports.get(self._object)
        request = Request(
            self, self._kind, flags, self._number, exported, self._method, arguments, keywords, deadline, behalf
        )
        number = self._object
        self._taken()
        if exported is None:
            missing = UnknownObject(f"{self.peer}: there is no object of number {number} on this connection")
            self.session.refuse(request, missing)
            return None
        if request.method >= exported.count:
            unknown = UnknownMethod(f"{self.peer}: {exported.name} has no method of number {request.method}")
            self.session.refuse(request, unknown)
            return None
        return request

    def receive_what_came(self) -> None:
        """Receives without waiting, unless another thread receives."""
        if not self.receiving.acquire(False):
            return
        try:
            while True:
                self._read_frame(NOT_AT_ALL)
                self.run_later(self._handle(None))
        except Idle:
            return
        except (OSError, RmiError) as error:
            self.fail(error)
        finally:
            self.receiving.release()
            if self._parked:
                self._wake_next()

    def frame_bytes(self) -> int:
        """Bytes of the frame that was read last, its segments included."""
        size = self._length
        for each in self._buffers or ():
            size += len(each)
        return size

    def has_more(self) -> bool:
        """Whether bytes that were received are not read yet."""
        return self._end > self._start or self._stage != 0

    # ---- running requests ----

    def serve(self, lingers: bool) -> bool:
        """Receives and runs requests until none comes for a while. Returns whether this thread received last.

        lingers: whether to wait for the next one; else only what is there is run. The caller holds `receiving`.
        """
        request: Any
        deadline = FOR_EVER if lingers else NOT_AT_ALL
        self.hurried = False
        held = True
        try:
            while True:
                if self.hurried:
                    deadline = NOT_AT_ALL
                try:
                    self._read_frame(deadline)
                except Idle:
                    return True
                request = self._handle(None)
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

    def claim(self, request: Request) -> bool:
        """Whether it may run now. Else it is put behind the call of the same thread that runs."""
        key = request.number >> THREAD_SHIFT
        self._order.acquire()
        try:
            first = self._running.get(key)
            if first is not None:
                if first.behind is None:
                    first.behind = deque()
                first.behind.append(request)
                return False
            if not request.flags & FREE:
                self._running[key] = request
            return True
        finally:
            self._order.release()

    def run_claimed(self, request: Request) -> None:
        """Runs a request that was claimed, then those that were put behind it."""
        following: Any = request
        while following is not None:
            request = following
            if not request.cancelled:
                self.execute(request)
            if request.flags & FREE:
                return
            following = self._following(request)

    def _following(self, request: Request) -> Any:
        """The next one of the thread whose request is done. None: there is none, or another thread runs it."""
        key = request.number >> THREAD_SHIFT
        self._order.acquire()
        try:
            if self._running.get(key) is not request:
                return None  # it was cancelled, and those behind it have gone on
            behind = request.behind
            request.behind = None
            while behind:
                following = behind.popleft()
                if following.flags & FREE:
                    self.session.submit(self.run_claimed, following)
                    continue
                self._running[key] = following
                following.behind = behind
                return following
            del self._running[key]
            return None
        finally:
            self._order.release()

    def cancel(self, number: int) -> None:
        """The caller has given a call up: those behind it need not wait for it, and it does not begin any more."""
        key = number >> THREAD_SHIFT
        self._order.acquire()
        try:
            first = self._running.get(key)
            if first is None:
                return
            behind = first.behind
            if first.number != number:
                for each in behind or ():
                    if each.number == number:
                        each.cancelled = True
                return
            first.cancelled = True
            first.behind = None
            del self._running[key]
        finally:
            self._order.release()
        for each in behind or ():
            self.run_later(each)

    def run_later(self, request: Any) -> None:
        """Has another thread run a request, in its order. None is no request."""
        if request is not None and self.claim(request):
            self.session.submit(self.run_claimed, request)

    def _run_inbox_later(self, call: Call) -> None:
        while call.inbox:
            try:
                request = call.inbox.popleft()
            except IndexError:
                return
            self.session.submit(self.execute, request)

    def execute(self, request: Request) -> None:
        """Runs a request here and now, and answers it."""
        exported = request.exported
        if request.kind == BATCH or exported.flags:
            self.session.execute(request)
            return
        token = current.set(request)
        try:
            function = exported.functions[request.method]
            if request.keywords is None:
                value = function(*request.arguments)
            else:
                value = function(*request.arguments, **request.keywords)
        except BaseException as error:
            current.reset(token)
            self.session.failed(request, error)
            return
        current.reset(token)
        kind = type(value)
        if kind is GeneratorType or kind is CoroutineType or kind is AsyncGeneratorType:
            self.session.special(request, value)
        elif request.kind == CALL and not request.cancelled:
            self.answer(request, value)

    def answer(self, request: Request, value: Any) -> None:
        """Sends the value that a request returned. Where it cannot be sent, the caller gets that error."""
        self.sending.acquire()
        try:
            if self.lost is not None:
                return
            packer = self._packer
            packer.start(HEADER_BYTES)
            try:
                packer.pack(value)
                self._send_frame(RESULT, 0, request.number, 0, 0)
                return
            except LostPeer:
                return
            except Exception as error:
                self._abandon()
                failure = error
        finally:
            self.sending.release()
        self.session.failed(request, failure)

    # ---- the end ----

    def fail(self, error: Any) -> None:
        """The connection is of no use any more: all calls on their way end with the error. Idempotent."""
        if self.lost is not None:
            return
        error.__traceback__ = None  # its frames hold what was called last
        self.lost = error
        calls = list(self.calls.values())
        self.calls.clear()
        for call in calls:
            self.settle(call, self.session.gone(call.method, True), True)
        for call in list(self._parked):
            self._wake(call)
        self.session.was_lost(error)


def poll_descriptor(descriptor: int, events: int, seconds: float) -> int:
    """What of POLLIN and POLLOUT is so, after `seconds` at most."""
    poller = select.poll()
    poller.register(descriptor, events)
    found = poller.poll(max(seconds, 0.0) * 1000)
    return found[0][1] if found else 0
