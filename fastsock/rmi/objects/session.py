"""What a connection does beside the path of every call: errors, streams, references, waits, its end.

`Connection` calls these methods; each says from where. Whoever holds `receiving` must not wait for `sending`: so what
is to be sent from there is sent by another thread (`submit`).
"""

from __future__ import annotations

import logging
import select
import traceback
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ...connection import carriers
from ...system.delivering import deliver, deliver_at_exit
from ...system.originals import originals
from .. import codec
from ..codec.values import classes, register
from ..errors import (
    BadAddress,
    BadFrame,
    CallTimeout,
    Deadlock,
    LimitExceeded,
    LostPeer,
    NotPackable,
    RemoteError,
    UnknownMethod,
    UnknownObject,
    VersionMismatch,
    add_remote_traceback,
    is_own,
    text_of,
)
from ..interrupts import interrupted
from ..threads.timers import Timer
from ..wire._connection import Connection, poll_descriptor
from ..wire._records import WAITS, Call, Request, current, process
from ..wire._sending import PATIENCE, ROOM_EVERY
from ..wire.frames import (
    BATCH,
    CALL,
    CANCEL,
    CLOSE,
    CREDIT,
    DEFAULT_FRAME_LIMIT,
    END,
    ERROR,
    GOODBYE,
    LASTING,
    ONEWAY,
    RELEASE,
    RESULT,
    STREAM,
)
from . import streams
from .references import References

log = logging.getLogger("fastsock.rmi")

_SINCE_2 = (BadAddress, CallTimeout, Deadlock)  # an end of version 1 does not know them
for _own in (LimitExceeded, NotPackable, UnknownMethod, UnknownObject, VersionMismatch, *_SINCE_2):
    register(_own, name=f"fastsock.rmi.{_own.__name__}")

_READABLE, _WRITABLE = select.POLLIN, select.POLLOUT


class Limits:
    """What an end accepts from a peer that proved the key.

    frame: bytes of a message. depth: of values within values. references: objects that one connection may hold here.
    streams: that one connection may have open here.
    """

    __slots__ = ("depth", "frame", "references", "streams")

    def __init__(
        self, frame: int = DEFAULT_FRAME_LIMIT, depth: int = 100, references: int = 60_000, streams: int = 1024
    ) -> None:
        self.frame = frame
        self.depth = depth
        self.references = references
        self.streams = streams


class Session:
    """One end of a connection, made after its hello.

    sock: connected, it belongs to the session from now on. pool: the threads of this end. peer: for messages.
    named: makes a proxy of an address that comes as a reference: it connects by itself. version: of the protocol, that
    both ends speak. tracebacks: whether callers are told where a method raised.
    """

    def __init__(
        self,
        sock: Any,
        pool: Any,
        peer: str,
        limits: Limits,
        *,
        named: Callable[[str, Any], Any],
        version: int,
        accepted: bool = False,
        trust_pickle: bool = False,
        tracebacks: bool = True,
    ) -> None:
        self.sock = sock
        self.pool = pool
        self.named = named
        self.version = version
        self.accepted = accepted
        self.peer = peer
        self.limits = limits
        self.tracebacks = tracebacks
        self.trust_pickle = trust_pickle
        self.carrier = carriers.carrier_of(sock)
        self.beneath = getattr(sock, "beneath", sock)  # of TLS
        self.waits = carriers.carrier_of(self.beneath)  # whose waits are, also those of TLS
        self.buffered: Callable[[], bool] | None = getattr(sock, "buffered", None)  # of TLS
        self._path: str = sock.transport
        self.on_end: list[Callable[[Session], None]] = []
        self.closes: Callable[[Callable[[], None]], None] | None = None  # calls what hangs up
        self.references = References(self)
        self.packer = self._new_packer()
        self.unpacker = codec.Unpacker(classes, self.references, trust_pickle=trust_pickle, depth=limits.depth)
        self.connection = Connection(
            sock, self.carrier, self, self.packer, self.unpacker, f"{peer} ({self._path})", limits.frame
        )
        self.connection.knows_chains = version >= 2
        self.streams: weakref.WeakValueDictionary[int, streams.Stream] = weakref.WeakValueDictionary()  # it reads them
        self.producers: dict[int, streams.Producer] = {}  # that this end feeds
        self.running: dict[int, Request] = {}  # those that can be cancelled
        self.begun = originals.monotonic()
        self.served = False
        self.descriptor = -1  # that the pool watches
        self.reconnect: Any = None  # that makes a connection in its place (reconnect.py)
        deliver_at_exit(sock)

    next_of = staticmethod(streams.next_of)
    leave = staticmethod(streams.leave)

    @property
    def path(self) -> str:
        """What carries the bytes, or did at the end."""
        if self.connection.lost is None:
            self._path = self.sock.transport
        return self._path

    @property
    def where(self) -> str:
        """Peer and path, for messages."""
        return f"{self.peer} ({self.path})"

    # ---- messages of errors ----

    def described(self, method: Any) -> str:
        """What was called, and where."""
        return f"{method.target.name}.{method.name} at {self.where}" if method is not None else self.where

    def gone(self, method: Any, sent: bool) -> LostPeer:
        """The error of a call on a connection that was lost. sent: whether it was on its way."""
        lost = self.connection.lost
        cause = f": {lost}" if lost is not None and str(lost) else ""
        if method is None:
            return LostPeer(f"the connection to {self.where} is lost{cause}")
        ran = "the call can have run" if sent else "the call has not run"
        return LostPeer(f"{self.described(method)}: the connection is lost{cause}; {ran}")

    def late(self, call: Call) -> str:
        """The text of a timeout."""
        return f"{self.described(call.method)}: no answer in time; the call can have run, its answer will be dropped"

    def ended(self) -> LostPeer:
        """The error for the end of the stream."""
        return LostPeer("the other end closed the connection")

    # ---- answers ----

    def raised(self, call: Call) -> BaseException:
        """The exception of a failed call, to be raised where its caller waited."""
        error: BaseException = call.value
        return error

    def unpack_error(self, unpacker: Any) -> BaseException:
        """The exception of an ERROR frame, with its remote traceback."""
        error = unpacker.unpack()
        kind = unpacker.unpack()
        text = unpacker.unpack()
        remote = unpacker.unpack()
        if not (type(kind) is str and type(text) is str and type(remote) is str):
            raise BadFrame(f"{self.where}: an error without its text")
        return self.error_of(error, kind, text, remote)

    def error_of(self, error: Any, kind: str, text: str, remote: str) -> BaseException:
        """The exception that another process told of."""
        found = error if isinstance(error, Exception) else RemoteError(kind, text)
        if remote:
            add_remote_traceback(found, f"Traceback of {self.where}:\n{remote.rstrip()}")
        return found

    def special_result(self, flags: int, call: Call, value: Any) -> Any:
        """The value of a RESULT with flags. The receiver calls it."""
        if flags != STREAM:
            raise BadFrame(f"{self.where}: a result with unknown flags {flags}")
        found = streams.Stream(self, call.number, call.method, call.lasting)
        self.streams[call.number] = found
        if self.connection.lost is not None:  # by a sender: who ends it has perhaps not seen the stream
            found.ended(self.gone(call.method, True))
        return found

    def item_failed(self, number: int, error: BaseException) -> None:
        """An item of a stream cannot be made here: the stream ends with that error. The receiver calls it."""
        stream = self.streams.pop(number, None)
        if stream is not None:
            stream.ended(error)
            self.submit(self.send, CLOSE, number, ())

    def nobody_reads(self, flags: int, number: int) -> None:
        """A stream came for a call that was given up."""
        if flags == STREAM:
            self.submit(self.send, CLOSE, number, ())

    # ---- requests ----

    def refuse(self, request: Request, error: Exception) -> None:
        """Answers a request that cannot be run. The receiver calls it."""
        self.submit(self.failed, request, error)

    def execute(self, request: Request) -> bool:
        """As Connection.execute(), of an object with particulars: one call at a time, or an instance for each."""
        try:
            value = self.run(request)
        except BaseException as error:
            self.failed(request, error)
            if interrupted(error):
                raise
            return True
        if value is WAITS:
            return False
        if streams.is_stream(value):
            self.special(request, value)
        elif request.kind != ONEWAY and not request.cancelled:
            self.connection.answer(request, value)
        return True

    def run(self, request: Request) -> Any:
        """The value that it has there, or WAITS. What is called meanwhile is called on its behalf."""
        token = current.set(request)
        try:
            return request.exported.run(request)
        finally:
            current.reset(token)

    def refuse_source(self, value: Any) -> None:
        """A method gave a generator or a coroutine where none can be read."""
        streams.close_source(value)

    def answer_packable(self, request: Request, rows: list[Any]) -> None:
        """Answers a batch some of whose values cannot be sent: those calls have failed."""
        found: list[Any] = []
        for good, value in zip(rows[::2], rows[1::2], strict=True):
            if good and not self._is_packable(value):
                error = NotPackable(f"{request.exported.name}: a value of {type(value).__qualname__} cannot be sent")
                found += (False, self.described_error(error))
            else:
                found += (good, value)
        request.kind = CALL
        self.connection.answer(request, found)

    def _new_packer(self) -> Any:
        packer = codec.Packer(classes, self.references, trust_pickle=self.trust_pickle, depth=self.limits.depth)
        packer.finds_classes = self.version >= 2
        return packer

    def _is_packable(self, value: Any) -> bool:
        """Whether the codec takes a value. Plain ones are known to be."""
        if value is None or type(value) in (bool, int, float, str, bytes):
            return True
        trial = self._new_packer()
        trial.start(0)
        try:
            trial.pack(value)
        except (NotPackable, LimitExceeded):
            return False
        finally:
            self.references.abandoned()
        return True

    def special(self, request: Request, value: Any) -> None:
        """Answers a request whose method returned a generator or a coroutine."""
        if streams.is_coroutine(value):
            try:
                loop = self.pool.loop()
            except (RuntimeError, MemoryError, OSError) as error:  # there can be no thread for it, or no descriptor
                streams.close_source(value)
                self.failed(request, error)
                return
            self.running[request.number] = request
            loop.start(self, request, value)
        elif request.kind != CALL or request.cancelled:
            streams.close_source(value)
        elif len(self.producers) >= self.limits.streams:
            streams.close_source(value)
            self.failed(
                request, RuntimeError(f"this connection has {len(self.producers)} open streams: no more are allowed")
            )
        else:
            if not request.flags & LASTING:
                request.deadline = 0.0  # it was that of the answer
            producer = streams.Producer(self, request, value)
            self.producers[request.number] = producer
            self.send(RESULT, request.number, (None,), STREAM)
            self.connection.make_way(request)
            producer.go_on()

    def failed(self, request: Request, error: BaseException) -> None:
        """Tells the caller what its call raised."""
        if request.kind == ONEWAY:
            self._count_error()
            log.error("a one-way call of %s raised", self.where, exc_info=error)
            return
        if request.cancelled:
            return
        self.send_error(ERROR, request.number, error)

    def _count_error(self) -> None:
        if self.connection.shown is not None:
            self.connection.shown.failed()

    def send_error(self, kind: int, number: int, error: BaseException) -> None:
        """Sends an exception: as itself where the other end may know its class, else by name and text."""
        described = self.described_error(error)
        flags = 1 if kind == END else 0
        self.send(kind, number, described, flags)

    def described_error(self, error: BaseException) -> tuple[Any, str, str, str]:
        """What is sent of an exception: itself or None, its class's name, its text, its traceback."""
        self._count_error()
        name = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
        remote = "".join(traceback.format_exception(type(error), error, _own_part(error))) if self.tracebacks else ""
        known = isinstance(error, Exception) and self._is_packable(error)
        if self.version < 2 and isinstance(error, _SINCE_2):
            known = False
        return error if known else None, name, text_of(error), remote

    def go_on(self, producer: Any) -> None:
        """Goes on with a stream in the thread that serves. What its generator raises at its end is no connection's."""
        try:
            producer.go_on()
        except Exception as error:
            if interrupted(error):
                raise
            log.exception("a stream for %s met an error", self.where)

    # ---- sending ----

    def send(self, kind: int, number: int, values: Any, flags: int = 0) -> int:
        """Sends a frame that belongs to no method; returns its bytes. A lost connection is no error: nobody waits."""
        try:
            return self.connection.send_plain(kind, flags, number, 0, 0, values)
        except LostPeer:
            return 0

    def submit(self, function: Callable[..., object], *arguments: Any) -> None:
        """Has a thread of the pool call a function. A forked child has neither the threads nor the connection."""
        if self.connection.forks == process.forks:
            self.pool.submit(function, *arguments)

    def submit_from_anywhere(self, function: Callable[..., object], *arguments: Any) -> None:
        """The same where a collection calls it."""
        if self.connection.forks == process.forks:
            self.pool.submit_from_anywhere(function, *arguments)

    def call_at(self, when: float, function: Callable[..., object]) -> Timer | None:
        """The same at a time of the monotonic clock."""
        return self.pool.call_at(when, function) if self.connection.forks == process.forks else None

    # ---- other frames: the receiver calls this ----

    def handle(self, kind: int, flags: int, number: int, object_number: int, method: int, unpacker: Any) -> None:
        """Handles a frame that is no call and no answer. Raises BadFrame."""
        if kind == END:
            stream = self.streams.pop(number, None)
            try:
                error = self.unpack_error(unpacker) if flags else None
            except (BadFrame, LimitExceeded):
                raise
            except Exception as failure:  # it cannot be made here: then that is the stream's error
                if self.connection.is_half_read(failure):
                    raise
                error = failure
            if stream is not None:
                stream.ended(error)
        elif kind == CREDIT:
            items, size = unpacker.unpack(), unpacker.unpack()
            producer = self.producers.get(number)
            if type(items) is not int or type(size) is not int or items < 0 or size < 0:
                raise BadFrame(f"{self.where}: credit for stream {number} that is no number")
            if producer is not None:
                producer.credited(items, size)
                if producer.stands():
                    self.connection.resume(producer)
        elif kind == CLOSE:
            producer = self.producers.pop(number, None)
            if producer is not None:
                self.submit(producer.close)
        elif kind == CANCEL:
            self.connection.cancel(number)
            unfinished = self.running.get(number)
            if unfinished is not None:
                _stop(unfinished)
            producer = self.producers.pop(number, None)
            if producer is not None:
                self.submit(producer.close)
        elif kind == RELEASE:
            self.references.released(unpacker.unpack())
        else:
            raise BadFrame(f"{self.where}: there is no frame of kind {kind}")

    def serve(self) -> None:
        """Has the pool run what comes while nobody here waits for an answer."""
        if not self.served:
            self.served = True
            self.pool.adopt(self)

    def under_way(self) -> list[str]:
        """The calls that this end runs for the other one, for messages."""
        found = {id(each): each for each in (*self.connection.under_way(), *list(self.running.values()))}
        return [f"{_called(each)} from {self.where}" for each in found.values()]

    def as_values(self) -> dict[str, Any]:
        """What is shown of this connection."""
        connection = self.connection
        return {
            "peer": self.peer,
            "path": self.path,
            "objects": [known.name for number, known in list(connection.exports.items()) if number],
            "frames": connection.activity,
            "bytes_sent": connection.bytes_sent,
            "bytes_received": connection.bytes_received,
            "seconds": originals.monotonic() - self.begun,
        }

    # ---- memory and waits ----

    def fresh_segments(self, body: Any, count: int) -> tuple[list[Any], list[Any]]:
        """Memory for the segments behind a body: what the codec takes, the buffers to fill. Raises LimitExceeded."""
        words = codec.segment_words(body, count)
        total = sum(size for _, size in words)
        if total + len(body) > self.limits.frame:
            raise LimitExceeded(f"{self.where}: a frame of {total} bytes is beyond the limit of {self.limits.frame}")
        made = [codec.new_segment(kind, size) for kind, size in words]
        return [handed for handed, _ in made], [memoryview(buffer).cast("B") for _, buffer in made]

    def await_room(self, seconds: float) -> None:
        """Until there may be room for more bytes."""
        if self.waits is not None:
            self.waits.await_room(seconds)
        else:
            poll_descriptor(self.sock.fileno(), _WRITABLE, seconds)

    def await_readable(self, seconds: float) -> bool:
        """Until there is something to receive. Only where no compiled code does that."""
        if (self.buffered is not None and self.buffered()) or (self.waits is not None and self.waits.settle()):
            return True
        return poll_descriptor(carriers.own_number(self.beneath), _READABLE, seconds) != 0

    # ---- the end ----

    def was_lost(self, error: BaseException) -> None:
        """The connection has ended. `Connection.fail` calls it once."""
        try:
            self._end_what_runs()
        finally:
            if self.closes is not None:
                self.closes(self._hang_up)
            else:
                self._hang_up()
        if isinstance(error, BadFrame):
            log.warning("closed a connection: %s", error if self.where in str(error) else f"{self.where}: {error}")

    def _end_what_runs(self) -> None:
        failure = self.gone(None, True)
        for stream in list(self.streams.values()):
            stream.ended(failure)
        self.streams.clear()
        for producer in list(self.producers.values()):
            self.submit(producer.close)
        self.producers.clear()
        for request in list(self.running.values()):
            _stop(request)
        self.pool.forget(self)
        self.references.ended()
        for function in self.on_end:
            function(self)

    def _hang_up(self) -> None:
        deliver(self.sock)
        self.sock.close()

    def close(self) -> None:
        """Says goodbye behind all that was sent, and closes. Calls on their way fail with LostPeer. Idempotent."""
        try:
            if self.say_goodbye():
                self._flush()
        finally:
            self.connection.fail(LostPeer("it was closed here"))

    def say_goodbye(self) -> bool:
        """Once: nothing is called here any more. In a loop it never waits for room. False: it was said before."""
        connection = self.connection
        if connection.closing:
            return False
        connection.closing = True
        if self.reconnect is not None and self.reconnect.token:
            self.send(RELEASE, 0, (None,))  # no lease: this end does not come back
        self.send(GOODBYE, 0, ())
        return True

    def _flush(self) -> None:
        """A loop's connection leaves to be sent later what found no room. This waits until nothing is left."""
        with suppress(LostPeer):
            while self.connection.lost is None and not self.connection.send_unsent():
                self.connection.receive_what_came(ROOM_EVERY)  # the other end may wait for room, too
                self.await_room(PATIENCE)


def _called(request: Request) -> str:
    known: Any = request.exported
    if request.kind == BATCH or known is None:
        return "a batch"
    return f"{known.name}.{known.interface.entries[request.method].name}"


def _stop(request: Request) -> None:
    """Nobody waits for it any more."""
    request.cancelled = True
    stop = request.stop
    if stop is not None:
        stop()


def _own_part(error: BaseException) -> Any:
    """The traceback from the method on: what called it is this package's business."""
    trace = error.__traceback__
    while trace is not None and is_own(trace.tb_frame):
        trace = trace.tb_next
    return trace
