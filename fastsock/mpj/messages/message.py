"""Matched messages: probed, and taken out of the queue so that no other receive can get them."""

from __future__ import annotations

from fastsock.core.binding._requests import MessageError

from ..constants import ANY_SOURCE, ANY_TAG, ERR_REQUEST
from ..datatypes import buffers
from ..exceptions import Exception as MPIException
from ..handle import Handle, Record, public
from ._point_to_point import Matched, NativeMessage
from .operation_records import Nothing, Operation, Transfer
from .pickling import CODEC, Codec
from .request import Request
from .status import Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar


class NoMessage(Record):
    """What a message handle refers to that stands for no message of anybody."""

    __slots__ = ()

    matched = None


NO_PROC = NoMessage()
"""A message from PROC_NULL."""


class GeneralMessage(Handle):
    """A message that was probed, to be received into memory of any kind."""

    __slots__ = ()

    ob: Matched | NoMessage
    _codec: ClassVar[Codec] = CODEC

    @classmethod
    def Probe(cls, comm: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Any:
        """Wait for a matching message and return it; no other receive can get it."""
        return cls._probed(comm.ob, source, tag, status, "mprobe")

    @classmethod
    def Iprobe(cls, comm: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Any:
        """Return a matching message, or None where none is there. No other receive can get it."""
        return cls._probed(comm.ob, source, tag, status, "improbe")

    @classmethod
    def _probed(cls, communicator: Any, source: int, tag: int, status: Status | None, how: str) -> Any:
        if communicator.receives_from_nobody(source, tag):
            Nothing(receives=True).look(status)
            return cls.of(NO_PROC)
        peer = communicator.origin(source, tag)
        try:
            matched = getattr(communicator.engine, how)(peer, tag, communicator.context)
        except MessageError as error:
            raise communicator.failed(error) from error
        if matched is None:
            communicator.engine.give_way()
            return None
        if status is not None:
            communicator.fill(status, matched.envelope)
        return cls.of(Matched(communicator, matched))

    def _take(self) -> Any:
        record = self.ob
        if record is self.null:
            raise MPIException(ERR_REQUEST, "the message is null: it was received already")
        self._forget()
        return record

    def _receive(self, buf: Any) -> Operation:
        record = self._take()
        if record.matched is None:
            return Nothing(receives=True)
        message = buffers.simple(buf, False)
        room, land = buffers.landing(message.address, message.count, message.datatype)
        request = record.matched.irecv(room)
        return Transfer(record.communicator, request, receives=True, owner=(message, room), land=land)

    def _receive_object(self) -> Operation:
        record = self._take()
        if record.matched is None:
            return Nothing(receives=True)
        request = record.matched.irecv_new()
        return Transfer(record.communicator, request, receives=True, load=self._codec.load)

    def Recv(self, buf: Any, status: Status | None = None) -> None:
        """Receive this message into memory. Raises MPI.Exception (ERR_REQUEST) where it was received already."""
        operation = self._receive(buf)
        operation.wait_and_finish(status)

    def Irecv(self, buf: Any) -> Request:
        """Start to receive this message. Raises MPI.Exception (ERR_REQUEST) where it was received already."""
        return Request.of(self._receive(buf))

    @classmethod
    def probe(cls, comm: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Any:
        """Wait for a matching message and return it; no other receive can get it."""
        return cls._probed(comm.ob, source, tag, status, "mprobe")

    @classmethod
    def iprobe(cls, comm: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Any:
        """Return a matching message, or None where none is there. No other receive can get it."""
        return cls._probed(comm.ob, source, tag, status, "improbe")

    def recv(self, status: Status | None = None) -> Any:
        """Return the object of this message. Raises MPI.Exception (ERR_REQUEST) where it was received already."""
        operation = self._receive_object()
        operation.wait_and_finish(status)
        return operation.result()

    def irecv(self) -> Request:
        """Start to receive the object of this message; `Request.wait` returns it. Raises as `recv` does."""
        return Request.of(self._receive_object())


@public
class Message(NativeMessage, GeneralMessage, wraps=Matched):
    """A message that a probe has found and taken out of the queue (MPI 4.1, chapter 3)."""

    __slots__ = ()

    null: ClassVar[NoMessage] = NoMessage()
