"""Messages of objects: the lower-case calls."""

from __future__ import annotations

import warnings

from fastsock.core.binding._requests import STANDARD, SYNCHRONOUS, MessageError

from ..constants import ANY_SOURCE, ANY_TAG, PROC_NULL
from ..handle import Handle
from .buffered import send_buffered
from .message import Message
from .operation_records import Nothing, Operation, Pair, Transfer
from .pickling import CODEC, Codec
from .request import Request
from .status import Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar


def _start_send(communicator: Any, codec: Codec, obj: Any, dest: int, tag: int, mode: int) -> Operation:
    return _start_prepared(communicator, _prepare(communicator, codec, obj, dest, tag), tag, mode)


def _prepare(communicator: Any, codec: Codec, obj: Any, dest: int, tag: int) -> tuple[int, Any] | None:
    """Returns the world's rank and the message; None where it goes to nobody. Refuses what a send would refuse."""
    if communicator.sends_to_nobody(dest, tag):
        return None
    return communicator.target(dest, tag), codec.message(obj)


def _start_prepared(communicator: Any, prepared: tuple[int, Any] | None, tag: int, mode: int) -> Operation:
    if prepared is None:
        return Nothing(receives=False)
    peer, data = prepared
    request = communicator.engine.isend(data, peer, tag, communicator.context, mode)
    return Transfer(communicator, request, receives=False, owner=data)


def _start_buffered(communicator: Any, codec: Codec, obj: Any, dest: int, tag: int) -> Operation:
    if not communicator.sends_to_nobody(dest, tag):
        send_buffered(communicator, codec.message(obj), dest, tag)
    return Nothing(receives=False)


def _warn_of(buf: Any) -> None:
    """As mpi4py does for a blocking receive into memory of the program. For `irecv` it does not: there memory helps."""
    if buf is not None:
        warnings.warn("the 'buf' argument is deprecated", UserWarning, stacklevel=3)


def _start_receive(communicator: Any, codec: Codec, source: int, tag: int, buf: Any = None) -> Operation:
    if communicator.receives_from_nobody(source, tag):
        return Nothing(receives=True)
    peer = communicator.origin(source, tag)
    if buf is None:
        request = communicator.engine.irecv_new(peer, tag, communicator.context)
        return Transfer(communicator, request, receives=True, load=codec.load)
    return _start_receive_into(communicator, codec, peer, tag, buf)


def _start_receive_into(communicator: Any, codec: Codec, peer: int, tag: int, buf: Any) -> Operation:
    """Starts to receive through memory of the program, or through as many bytes as it says."""
    memory = bytearray(buf) if hasattr(buf, "__index__") else buf
    view = memoryview(memory).cast("B")
    request = communicator.engine.irecv(view, peer, tag, communicator.context)
    return Transfer(
        communicator,
        request,
        receives=True,
        owner=memory,
        load=lambda _: codec.load(view[: request.envelope.length]),
    )


class Objects(Handle):
    """Messages of objects between two ranks, as mpi4py has them: `MPI.pickle` makes the messages.

    Raises MPI.Exception as the calls on memory do, and what pickling or unpickling the object raises.
    """

    __slots__ = ()

    _codec: ClassVar[Codec] = CODEC

    def _send_object(self, obj: Any, dest: int, tag: int, mode: int) -> None:
        communicator = self.ob
        if communicator.sends_to_nobody(dest, tag):
            return
        peer = communicator.target(dest, tag)
        try:
            communicator.engine.send(self._codec.pieces(obj), peer, tag, communicator.context, mode)
        except MessageError as error:
            raise communicator.failed(error) from error

    def send(self, obj: Any, dest: int, tag: int = 0) -> None:
        """Send an object; returns when it may be changed again."""
        self._send_object(obj, dest, tag, STANDARD)

    def bsend(self, obj: Any, dest: int, tag: int = 0) -> None:
        """Send a copy of an object. Raises MPI.Exception (ERR_BUFFER) where the attached buffer has no room for it."""
        _start_buffered(self.ob, self._codec, obj, dest, tag)

    def ssend(self, obj: Any, dest: int, tag: int = 0) -> None:
        """Send an object; returns when the receiver has begun to receive it."""
        self._send_object(obj, dest, tag, SYNCHRONOUS)

    def recv(self, buf: Any = None, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Any:
        """Wait for an object and return it. `buf` is deprecated: memory for the message, or its length in bytes."""
        communicator = self.ob
        if buf is not None or source == PROC_NULL:
            _warn_of(buf)
            operation = _start_receive(communicator, self._codec, source, tag, buf)
            operation.wait_and_finish(status)
            return operation.result()
        peer = communicator.origin(source, tag)
        try:
            payload, envelope = communicator.engine.recv_new(peer, tag, communicator.context)
        except MessageError as error:
            raise communicator.failed(error) from error
        if status is not None:
            communicator.fill(status, envelope)
        return self._codec.load(payload)

    def sendrecv(
        self,
        sendobj: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> Any:
        """Send an object and receive another at the same time; return the one that arrived."""
        communicator = self.ob
        _warn_of(recvbuf)
        prepared = _prepare(communicator, self._codec, sendobj, dest, sendtag)
        incoming = _start_receive(communicator, self._codec, source, recvtag, recvbuf)
        operation = Pair.beside(incoming, lambda: _start_prepared(communicator, prepared, sendtag, STANDARD))
        operation.wait_and_finish(status)
        return operation.result()

    def isend(self, obj: Any, dest: int, tag: int = 0) -> Request:
        """Start to send a copy of an object. The object may be changed at once."""
        return Request.of(_start_send(self.ob, self._codec, obj, dest, tag, STANDARD))

    def ibsend(self, obj: Any, dest: int, tag: int = 0) -> Request:
        """Send a copy of an object. Raises MPI.Exception (ERR_BUFFER) where the attached buffer has no room for it."""
        return Request.of(_start_buffered(self.ob, self._codec, obj, dest, tag))

    def issend(self, obj: Any, dest: int, tag: int = 0) -> Request:
        """Start to send a copy of an object; the request is complete when the receiver has begun to receive it."""
        return Request.of(_start_send(self.ob, self._codec, obj, dest, tag, SYNCHRONOUS))

    def irecv(self, buf: Any = None, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Request:
        """Start to receive an object; `Request.wait` returns it. `buf`: memory for it, or its length in bytes."""
        return Request.of(_start_receive(self.ob, self._codec, source, tag, buf))

    def mprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Any:
        """Wait for a matching message and return it; no other receive can get it."""
        return Message.probe(self, source, tag, status)

    def improbe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Any:
        """Return a matching message, or None where none is there. No other receive can get it."""
        return Message.iprobe(self, source, tag, status)
