"""Messages between two ranks, of memory: the upper-case calls."""

from __future__ import annotations

from os import sched_yield

from fastsock.core.binding._core import STANDARD, SYNCHRONOUS, MessageError

from ..constants import ANY_SOURCE, ANY_TAG, PROC_NULL
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
    if dest == PROC_NULL:
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
    if dest != PROC_NULL:
        message = buffers.simple(buf, True)
        data = bytes(buffers.outgoing(message.address, message.count, message.datatype))
        send_buffered(communicator, data, dest, tag)
    return Nothing(receives=False)


def start_receive(communicator: Any, buf: Any, source: int, tag: int) -> Operation:
    """Starts to receive into the memory that a specification names."""
    if source == PROC_NULL:
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
    if dest != PROC_NULL:
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
    if dest != PROC_NULL:
        message = buffers.simple(buf, False)
        data = bytes(buffers.outgoing(message.address, message.count, message.datatype))
        communicator.target(dest, sendtag)  # refuses before anything is started

    def outgoing() -> Operation:
        if dest == PROC_NULL:
            return Nothing(receives=False)
        request = _isend(communicator, data, dest, sendtag, STANDARD)
        return Transfer(communicator, request, receives=False, owner=data)

    return Pair.beside(start_receive(communicator, buf, source, recvtag), outgoing)


class PointToPoint(Handle):
    """Point to point communication."""

    __slots__ = ()

    # Blocking

    def _send(self, buf: Any, dest: int, tag: int, mode: int) -> None:
        communicator = self.ob
        if dest == PROC_NULL:
            communicator.alive()
            return
        message = buffers.simple(buf, True)
        data = buffers.outgoing(message.address, message.count, message.datatype)
        peer = communicator.target(dest, tag)
        try:
            communicator.engine.send(data, peer, tag, communicator.context, mode)
        except MessageError as error:
            raise communicator.failed(error) from error

    def Send(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Blocking send."""
        self._send(buf, dest, tag, STANDARD)

    def Ssend(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Blocking send in synchronous mode: returns when the receiver has begun to receive it."""
        self._send(buf, dest, tag, SYNCHRONOUS)

    def Rsend(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Blocking send in ready mode."""
        self._send(buf, dest, tag, STANDARD)

    def Bsend(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Blocking send in buffered mode: returns when the message is copied."""
        start_buffered(self.ob, buf, dest, tag)

    def Recv(self, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> None:
        """Blocking receive."""
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
        """Send and receive a message."""
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
        """Send and receive a message through the same memory."""
        operation = start_replacement(self.ob, buf, dest, sendtag, source, recvtag)
        operation.wait_and_finish(status)

    # Non-blocking

    def Isend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """Non-blocking send."""
        return Request.of(start_send(self.ob, buf, dest, tag, STANDARD))

    def Issend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """Non-blocking send in synchronous mode."""
        return Request.of(start_send(self.ob, buf, dest, tag, SYNCHRONOUS))

    def Irsend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """Non-blocking send in ready mode."""
        return Request.of(start_send(self.ob, buf, dest, tag, STANDARD))

    def Ibsend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """Non-blocking send in buffered mode."""
        return Request.of(start_buffered(self.ob, buf, dest, tag))

    def Irecv(self, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Request:
        """Non-blocking receive."""
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
        """Non-blocking send and receive."""
        return Request.of(start_exchange(self.ob, sendbuf, dest, sendtag, recvbuf, source, recvtag))

    def Isendrecv_replace(
        self, buf: Any, dest: int, sendtag: int = 0, source: int = ANY_SOURCE, recvtag: int = ANY_TAG
    ) -> Request:
        """Non-blocking send and receive through the same memory."""
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
        """Create a persistent request for a send in ready mode."""
        return self._send_init(buf, dest, tag, STANDARD)

    def Bsend_init(self, buf: Any, dest: int, tag: int = 0) -> Prequest:
        """Create a persistent request for a send in buffered mode."""
        communicator = self.ob
        _check_send(communicator, buf, dest, tag)
        return Prequest.of(Persistent(lambda: start_buffered(communicator, buf, dest, tag)))

    def Recv_init(self, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Prequest:
        """Create a persistent request for a receive."""
        communicator = self.ob
        if source != PROC_NULL:
            buffers.simple(buf, False)
            communicator.origin(source, tag)
        return Prequest.of(Persistent(lambda: start_receive(communicator, buf, source, tag)))

    # Partitioned

    def Psend_init(self, buf: Any, partitions: int, dest: int, tag: int = 0, info: Info = INFO_NULL) -> Prequest:
        """Create request for a partitioned send operation."""
        return Prequest.of(PartitionedSend(self.ob, buf, partitions, dest, tag))

    def Precv_init(
        self, buf: Any, partitions: int, source: int = ANY_SOURCE, tag: int = ANY_TAG, info: Info = INFO_NULL
    ) -> Prequest:
        """Create request for a partitioned recv operation."""
        return Prequest.of(PartitionedReceive(self.ob, buf, partitions, source, tag))

    # Probes

    def _probed(self, source: int, tag: int, status: Status | None, how: str) -> bool:
        communicator = self.ob
        if source == PROC_NULL:
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
        """Blocking test for a message."""
        self._probed(source, tag, status, "probe")
        return True

    def Iprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> bool:
        """Non-blocking test for a message."""
        found = self._probed(source, tag, status, "iprobe")
        if not found:
            sched_yield()  # who probes again and again may keep the sender from the core
        return found

    def probe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Literal[True]:
        """Blocking test for a message."""
        return self.Probe(source, tag, status)

    def iprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> bool:
        """Non-blocking test for a message."""
        return self.Iprobe(source, tag, status)

    def Mprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Any:
        """Blocking test for a matched message."""
        return Message.Probe(self, source, tag, status)

    def Improbe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Any:
        """Non-blocking test for a matched message."""
        return Message.Iprobe(self, source, tag, status)
