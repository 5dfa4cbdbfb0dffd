"""Messages between two ranks, of memory: the upper-case calls."""

from __future__ import annotations

from fastsock.core.binding._requests import STANDARD, SYNCHRONOUS, MessageError

from ..constants import ANY_SOURCE, ANY_TAG
from ..datatypes import buffers
from ..handle import Handle
from ..info import INFO_NULL, Info
from .buffered import send_buffered
from .message import Message
from .operation_records import Nothing, Operation, Pair, Persistent, Transfer
from .partitioned import PartitionedReceive, PartitionedSend
from .request import Prequest, Request
from .status import Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal


def start_send(communicator: Any, buf: Any, dest: int, tag: int, mode: int) -> Operation:
    """Starts to send the memory that a specification names."""
    if communicator.sends_to_nobody(dest, tag):
        return Nothing(receives=False)
    message = buffers.simple(buf, True)
    data = buffers.outgoing(message.address, message.count, message.datatype)
    request = _isend(communicator, data, dest, tag, mode)
    return Transfer(communicator, request, receives=False, owner=(message, data))


def _isend(communicator: Any, data: Any, dest: int, tag: int, mode: int) -> Any:
    peer = communicator.target(dest, tag)
    try:
        return communicator.engine.isend(data, peer, tag, communicator.context, mode)
    except MessageError as error:
        raise communicator.failed(error) from error


def start_buffered(communicator: Any, buf: Any, dest: int, tag: int) -> Operation:
    """Copies the memory that a specification names and starts to send the copy."""
    if not communicator.sends_to_nobody(dest, tag):
        message = buffers.simple(buf, True)
        data = bytes(buffers.outgoing(message.address, message.count, message.datatype))
        send_buffered(communicator, data, dest, tag)
    return Nothing(receives=False)


def start_receive(communicator: Any, buf: Any, source: int, tag: int) -> Operation:
    """Starts to receive into the memory that a specification names."""
    if communicator.receives_from_nobody(source, tag):
        return Nothing(receives=True)
    message = buffers.simple(buf, False)
    room, land = buffers.landing(message.address, message.count, message.datatype)
    peer = communicator.origin(source, tag)
    try:
        request = communicator.engine.irecv(room, peer, tag, communicator.context)
    except MessageError as error:
        raise communicator.failed(error) from error
    return Transfer(communicator, request, receives=True, owner=(message, room), land=land)


def _check_send(communicator: Any, buf: Any, dest: int, tag: int) -> None:
    """Refuses the arguments that a send would refuse, before anything is started."""
    if not communicator.sends_to_nobody(dest, tag):
        buffers.simple(buf, True)
        communicator.target(dest, tag)


def start_exchange(
    communicator: Any, sendbuf: Any, dest: int, sendtag: int, recvbuf: Any, source: int, recvtag: int
) -> Pair:
    """Starts a send and a receive; neither of them where the other cannot be."""
    _check_send(communicator, sendbuf, dest, sendtag)
    incoming = start_receive(communicator, recvbuf, source, recvtag)
    return Pair.beside(incoming, lambda: start_send(communicator, sendbuf, dest, sendtag, STANDARD))


def start_replacement(communicator: Any, buf: Any, dest: int, sendtag: int, source: int, recvtag: int) -> Pair:
    """Starts to send a copy of some memory and to receive into that memory."""
    data = b""
    to_nobody = communicator.sends_to_nobody(dest, sendtag)
    if not to_nobody:
        message = buffers.simple(buf, False)
        data = bytes(buffers.outgoing(message.address, message.count, message.datatype))
        communicator.target(dest, sendtag)  # refuses before anything is started

    def outgoing() -> Operation:
        if to_nobody:
            return Nothing(receives=False)
        request = _isend(communicator, data, dest, sendtag, STANDARD)
        return Transfer(communicator, request, receives=False, owner=data)

    return Pair.beside(start_receive(communicator, buf, source, recvtag), outgoing)


class PointToPoint(Handle):
    """Messages of memory between two ranks (MPI 4.1, chapter 3; in parts: chapter 4).

    `buf` is an object with a buffer, or a list or tuple: [buf, type], [buf, count], [buf, count, type], [buf, (count,
    displacement)], [buf, (count, displacement), type] or [buf, count, displacement, type]. Counts are in items of the
    type, displacements in extents of it. Raises TypeError, ValueError, KeyError or BufferError where the argument is
    wrong.

    A rank is one of the communicator, of its remote group on an intercommunicator. A message to or from PROC_NULL
    completes at once. Raises MPI.Exception with ERR_COMM on a null communicator, ERR_RANK for a rank that is not there,
    ERR_TAG for a negative tag, ERR_TRUNCATE where the message is longer than the memory for it, and ERR_PROC_FAILED
    where the other rank has failed.
    """

    __slots__ = ()

    # Blocking

    def _send(self, buf: Any, dest: int, tag: int, mode: int) -> None:
        communicator = self.ob
        if communicator.sends_to_nobody(dest, tag):
            return
        message = buffers.simple(buf, True)
        data = buffers.outgoing(message.address, message.count, message.datatype)
        peer = communicator.target(dest, tag)
        try:
            communicator.engine.send(data, peer, tag, communicator.context, mode)
        except MessageError as error:
            raise communicator.failed(error) from error

    def Send(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Send a message; returns when its memory may be used again."""
        self._send(buf, dest, tag, STANDARD)

    def Ssend(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Send in synchronous mode: returns when the receiver has begun to receive the message."""
        self._send(buf, dest, tag, SYNCHRONOUS)

    def Rsend(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Send in ready mode: the receiver must be waiting already. Here it does what `Send` does."""
        self._send(buf, dest, tag, STANDARD)

    def Bsend(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Send in buffered mode: returns when the message is copied.

        Raises MPI.Exception (ERR_BUFFER) where the attached buffer has no room for it.
        """
        start_buffered(self.ob, buf, dest, tag)

    def Recv(self, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> None:
        """Receive a message; returns when it is in the memory."""
        operation = start_receive(self.ob, buf, source, tag)
        operation.wait_and_finish(status)

    def Sendrecv(
        self,
        sendbuf: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> None:
        """Send one message and receive another at the same time; returns when both are done."""
        operation = start_exchange(self.ob, sendbuf, dest, sendtag, recvbuf, source, recvtag)
        operation.wait_and_finish(status)

    def Sendrecv_replace(
        self,
        buf: Any,
        dest: int,
        sendtag: int = 0,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> None:
        """Send what is in the memory, and receive another message into it."""
        operation = start_replacement(self.ob, buf, dest, sendtag, source, recvtag)
        operation.wait_and_finish(status)

    # Non-blocking

    def Isend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """Start to send; the memory must stay as it is until the request is complete."""
        return Request.of(start_send(self.ob, buf, dest, tag, STANDARD))

    def Issend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """Start to send; the request is complete when the receiver has begun to receive the message."""
        return Request.of(start_send(self.ob, buf, dest, tag, SYNCHRONOUS))

    def Irsend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """Start to send in ready mode. Here it does what `Isend` does."""
        return Request.of(start_send(self.ob, buf, dest, tag, STANDARD))

    def Ibsend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """Send in buffered mode: the message is copied at once. Raises MPI.Exception (ERR_BUFFER) as `Bsend`."""
        return Request.of(start_buffered(self.ob, buf, dest, tag))

    def Irecv(self, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Request:
        """Start to receive; the memory holds the message when the request is complete."""
        return Request.of(start_receive(self.ob, buf, source, tag))

    def Isendrecv(
        self,
        sendbuf: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
    ) -> Request:
        """Start to send and to receive; the request is complete when both are."""
        return Request.of(start_exchange(self.ob, sendbuf, dest, sendtag, recvbuf, source, recvtag))

    def Isendrecv_replace(
        self, buf: Any, dest: int, sendtag: int = 0, source: int = ANY_SOURCE, recvtag: int = ANY_TAG
    ) -> Request:
        """Start to send a copy of what is in the memory, and to receive another message into it."""
        return Request.of(start_replacement(self.ob, buf, dest, sendtag, source, recvtag))

    # Persistent

    def _send_init(self, buf: Any, dest: int, tag: int, mode: int) -> Prequest:
        communicator = self.ob
        _check_send(communicator, buf, dest, tag)
        return Prequest.of(Persistent(lambda: start_send(communicator, buf, dest, tag, mode)))

    def Send_init(self, buf: Any, dest: int, tag: int = 0) -> Prequest:
        """Create a persistent request for a standard send."""
        return self._send_init(buf, dest, tag, STANDARD)

    def Ssend_init(self, buf: Any, dest: int, tag: int = 0) -> Prequest:
        """Create a persistent request for a send in synchronous mode."""
        return self._send_init(buf, dest, tag, SYNCHRONOUS)

    def Rsend_init(self, buf: Any, dest: int, tag: int = 0) -> Prequest:
        """Create a persistent request for a send in ready mode. Here it does what `Send_init` does."""
        return self._send_init(buf, dest, tag, STANDARD)

    def Bsend_init(self, buf: Any, dest: int, tag: int = 0) -> Prequest:
        """Create a persistent request for a send in buffered mode."""
        communicator = self.ob
        _check_send(communicator, buf, dest, tag)
        return Prequest.of(Persistent(lambda: start_buffered(communicator, buf, dest, tag)))

    def Recv_init(self, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Prequest:
        """Create a persistent request for a receive."""
        communicator = self.ob
        if not communicator.receives_from_nobody(source, tag):
            buffers.simple(buf, False)
            communicator.origin(source, tag)
        return Prequest.of(Persistent(lambda: start_receive(communicator, buf, source, tag)))

    # Partitioned

    def Psend_init(self, buf: Any, partitions: int, dest: int, tag: int = 0, info: Info = INFO_NULL) -> Prequest:
        """Create a persistent request that sends `partitions` equal parts of the memory (MPI 4.1, chapter 4).

        A count in `buf` is that of one part. A part goes when `Prequest.Pready` marks it. Raises MPI.Exception
        (ERR_ARG) where `partitions` is below 1.
        """
        return Prequest.of(PartitionedSend(self.ob, buf, partitions, dest, tag))

    def Precv_init(
        self, buf: Any, partitions: int, source: int = ANY_SOURCE, tag: int = ANY_TAG, info: Info = INFO_NULL
    ) -> Prequest:
        """Create a persistent request that receives into `partitions` equal parts of the memory (MPI 4.1, chapter 4).

        The sender may cut the message into another number of parts. Raises MPI.Exception: ERR_ARG where `partitions` is
        below 1, or where `source` or `tag` is a wildcard; ERR_TRUNCATE where the sender's parts do not fit.
        """
        return Prequest.of(PartitionedReceive(self.ob, buf, partitions, source, tag))

    # Probes

    def _probed(self, source: int, tag: int, status: Status | None, how: str) -> bool:
        communicator = self.ob
        if communicator.receives_from_nobody(source, tag):
            Nothing(receives=True).look(status)
            return True
        peer = communicator.origin(source, tag)
        try:
            envelope = getattr(communicator.engine, how)(peer, tag, communicator.context)
        except MessageError as error:
            raise communicator.failed(error) from error
        if envelope is None:
            return False
        if status is not None:
            communicator.fill(status, envelope)
        return True

    def Probe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Literal[True]:
        """Wait until a matching message is there, and leave it there. Returns True."""
        self._probed(source, tag, status, "probe")
        return True

    def Iprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> bool:
        """Return whether a matching message is there, and leave it there."""
        found = self._probed(source, tag, status, "iprobe")
        if not found:
            self.ob.engine.give_way()
        return found

    def probe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Literal[True]:
        """Wait until a matching message is there, and leave it there. Returns True."""
        return self.Probe(source, tag, status)

    def iprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> bool:
        """Return whether a matching message is there, and leave it there."""
        return self.Iprobe(source, tag, status)

    def Mprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Any:
        """Wait for a matching message and return it; no other receive can get it."""
        return Message.Probe(self, source, tag, status)

    def Improbe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Any:
        """Return a matching message, or None where none is there. No other receive can get it."""
        return Message.Iprobe(self, source, tag, status)
