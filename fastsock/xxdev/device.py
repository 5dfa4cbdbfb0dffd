"""The interface of all devices: the 13 methods of listing 4.1 in the F-MPJ thesis, in Python's case.

A device moves messages between the ranks of one job. What it adds to the native engine is how two ranks come to a
connection; matching, protocols, progress and waiting are the engine's and the same on every device.
"""

from __future__ import annotations

import abc
import importlib

from ..core.binding._requests import STANDARD, SYNCHRONOUS
from . import framing, settings
from .errors import Code, failed
from .request import Request
from .status import Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ANY_SOURCE = -1
"""As a source: from any rank."""

ANY_TAG = -1
"""As a tag: with any tag."""

DEVICES = ("iodev", "ibvdev", "smpdev", "sysvdev")


class Device(abc.ABC):
    """A communication device. One object per rank: `Device.new_instance("iodev")`, then `init()`.

    `buf` is whatever is sent or received into: any object that exports a buffer, any numpy array, slices with strides
    too, and for sends any picklable object. A receive with buf=None makes a new object, `status.value`.
    `dst` and `src` are ids as `init` lists them; `tag` and `context` are numbers from 0, the tag up to 2**31 - 1.
    Every method raises XxdevError. All methods but init and finish may be called by several threads at once.
    """

    name = ""
    engine: Any = None
    """The native engine of this rank: layers that have their own format of messages use it directly."""
    job: Any = None
    """The job that this rank belongs to."""
    outside: Any = None
    """The ranks of other jobs that this one knows, once it knows some: outside.of(device)."""
    finishes_at_exit = True
    """Whether a program that ends without finish() still delivers what it has sent. Read by init()."""

    @staticmethod
    def new_instance(name: str | None = None) -> Device:
        """A device by its name, or the one that FASTSOCK_MPJ_DEVICE names; a class elsewhere as "module:Class"."""
        name = name or settings.current().device
        module, _, kind = name.partition(":")
        if not kind:
            if name not in DEVICES:
                known = ", ".join(DEVICES)
                raise failed(Code.ARGUMENT, f"there is no device {name!r}: choose {known}, or module:Class")
            module, kind = f"{__package__}.{name}", name.capitalize()
        made = getattr(importlib.import_module(module), kind)()
        assert isinstance(made, Device)
        return made

    # ---- what each device has of its own ----

    @abc.abstractmethod
    def init(self, args: Any = None) -> list[int]:
        """Joins the job. Returns the ids of all its ranks, in order. `args`: a Job other than the environment's."""

    @abc.abstractmethod
    def finish(self) -> None:
        """Ends this rank's part. Its messages are delivered first. May be called twice."""

    def explain(self, peer: int) -> Any:
        """How messages to that rank travel, as `fastsock.explain()`; None before the first one."""
        return None

    # ---- what all have in common ----

    def _close_outside(self) -> None:
        if self.outside is not None:
            self.outside.close()

    def _finish_at_exit(self) -> None:
        """For init(): the end of the rank is that of this run of the device, unless an error is the end."""
        engine, job = self.engine, self.job

        def finish() -> None:
            if self.engine is engine and job.crashed() is None:
                self.finish()

        if self.finishes_at_exit:
            job.at_exit(finish)

    def id(self) -> int:
        """This rank's id; also after finish()."""
        return int((self.job or self._running()).rank)

    def isend(self, buf: object, dst: int, tag: int, context: int = 0) -> Request:
        """Starts to send; `buf` must not change before the request is complete."""
        return self._start(buf, dst, tag, context, STANDARD)

    def issend(self, buf: object, dst: int, tag: int, context: int = 0) -> Request:
        """As isend; complete only once the receive has begun."""
        return self._start(buf, dst, tag, context, SYNCHRONOUS)

    def send(self, buf: object, dst: int, tag: int, context: int = 0) -> None:
        """Sends; on return `buf` may change."""
        self._towards(dst, tag).send(framing.pack(buf), dst, tag, context, STANDARD)

    def ssend(self, buf: object, dst: int, tag: int, context: int = 0) -> None:
        """As send; returns only once the receive has begun."""
        self._towards(dst, tag).send(framing.pack(buf), dst, tag, context, SYNCHRONOUS)

    def irecv(self, buf: object, src: int, tag: int, context: int = 0, status: Status | None = None) -> Request:
        """Starts to receive into `buf`, or with None a new object. `status`, if given, is the one that is filled."""
        engine = self._from(src, tag)
        target = None if buf is None else framing.Target(buf)
        if target is None or target.parts is None:
            native = engine.irecv_new(src, tag, context)
        else:
            native = engine.irecv(target.parts, src, tag, context)
        return Request(self, native, context, target, status or Status())

    def recv(self, buf: object, src: int, tag: int, context: int = 0) -> Status:
        """Receives into `buf`, or with None a new object."""
        engine = self._from(src, tag)
        status = Status()
        status.context = context
        target = None if buf is None else framing.Target(buf)
        if target is not None and target.parts is not None:
            envelope = engine.recv(target.parts, src, tag, context)
            status.length = target.accept(envelope.length, None)
        else:
            payload, envelope = engine.recv_new(src, tag, context)
            if target is None:
                status.value = framing.unpack(payload)
                status.length = envelope.length - framing.HEADER_BYTES
            else:
                status.length = target.accept(envelope.length, payload)
        status.source, status.tag = envelope.source, envelope.tag
        return status

    def iprobe(self, src: int, tag: int, context: int = 0) -> Status | None:
        """The status of a message that could be received now, or None."""
        return _found(self._from(src, tag).iprobe(src, tag, context), context)

    def probe(self, src: int, tag: int, context: int = 0) -> Status:
        """Waits for a message that could be received, and leaves it where it is."""
        status = _found(self._from(src, tag).probe(src, tag, context), context)
        assert status is not None
        return status

    def peek(self) -> Request:
        """Waits until some request is complete, and gives the one that became so last.

        Each completed request is given once, by peek or by its own wait.
        """
        while True:
            owner = self._running().peek().owner
            request = None if owner is None else owner()
            if isinstance(request, Request):
                return request

    # ---- for the devices ----

    def _start(self, buf: object, dst: int, tag: int, context: int, mode: int) -> Request:
        engine = self._towards(dst, tag)
        message = framing.pack(buf)
        native = engine.isend(message, dst, tag, context, mode)
        status = Status()
        status.source, status.tag, status.length = dst, tag, framing.size_of(message)
        return Request(self, native, context, None, status, is_send=True)

    def _towards(self, dst: int, tag: int) -> Any:
        engine = self._running()
        if not 0 <= dst < engine.size:
            raise failed(
                Code.ARGUMENT, f"{self.name}: there is no rank {dst} to send to: ids are 0 to {engine.size - 1}"
            )
        if not 0 <= tag < 1 << 31:
            raise failed(Code.ARGUMENT, f"{self.name}: a message cannot have the tag {tag}: tags are 0 to 2**31 - 1")
        return engine

    def _from(self, src: int, tag: int) -> Any:
        engine = self._running()
        if not -1 <= src < engine.size:
            what = f"there is no rank {src} to receive from: ids are 0 to {engine.size - 1}, or ANY_SOURCE"
            raise failed(Code.ARGUMENT, f"{self.name}: {what}")
        if not -1 <= tag < 1 << 31:
            raise failed(
                Code.ARGUMENT, f"{self.name}: no message has the tag {tag}: tags are 0 to 2**31 - 1, or ANY_TAG"
            )
        return engine

    def _running(self) -> Any:
        if self.engine is None:
            raise failed(Code.CLOSED, f"{self.name}: the device is not running: call init() first")
        return self.engine

    def __enter__(self) -> Device:
        self.init()
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()


def _found(envelope: Any, context: int) -> Status | None:
    if envelope is None:
        return None
    status = Status()
    status.source, status.tag, status.context = envelope.source, envelope.tag, context
    status.length = envelope.length - framing.HEADER_BYTES
    return status
