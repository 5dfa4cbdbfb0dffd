"""What a non-blocking call returns: `Request`, as in listing 4.2 of the F-MPJ thesis."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

from . import framing
from .errors import Code, XxdevError
from .status import Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    class Device(Protocol):
        """What a request needs of its device."""

        engine: Any


class Request:
    """One send or receive under way. Made by a device's isend, issend and irecv.

    Every thread may wait for it; the result is the same for all of them.
    """

    __slots__ = ("__weakref__", "_device", "_error", "_finished", "_is_send", "_native", "_status", "_target")

    def __init__(
        self, device: Device, native: Any, context: int, target: Any, status: Status, is_send: bool = False
    ) -> None:
        self._device = device
        self._native = native
        self._target = target
        self._is_send = is_send
        self._status = status
        self._error: XxdevError | None = None
        self._finished = False
        status.context = context
        native.owner = weakref.ref(self)

    def iwait(self, timeout: float | None = None) -> Status | None:
        """Waits until it is complete; None where `timeout` seconds were not enough. Raises XxdevError."""
        if not self._finished and not self._native.wait(timeout):
            return None
        return self._finish()

    @staticmethod
    def iwaitany(requests: Sequence[Request], timeout: float | None = None) -> Status | None:
        """Waits until one of them is complete. Gives its status; `index` there tells which one it was.

        None where `timeout` seconds were not enough. Raises XxdevError, and ValueError for no request at all.
        """
        if not requests:
            raise ValueError("there is no request to wait for")
        engine = requests[0]._device.engine
        if any(each._device is not requests[0]._device for each in requests):
            raise ValueError("the requests belong to several devices: wait for those of one device at a time")
        index: int | None = engine.wait_any([each._native for each in requests], timeout)
        if index is None:
            return None
        done = requests[index]
        done._status.index = index
        return done._finish()

    def itest(self) -> Status | None:
        """The status if it is complete, or None: makes progress and never waits. Raises XxdevError."""
        return self._finish() if self._finished or self._native.test() else None

    def cancel(self) -> bool:
        """Ends it, unless its message was matched already: whether it was cancelled. Its status tells the same."""
        return bool(self._native.cancel())

    @property
    def done(self) -> bool:
        """Whether it is complete, without making progress."""
        return self._finished or bool(self._native.done)

    def _finish(self) -> Status:
        if not self._finished:
            try:
                self._fill()
            except XxdevError as error:
                self._error = error
            self._finished = True
        if self._error is not None:
            raise self._error
        return self._status

    def _fill(self) -> None:
        native, status = self._native, self._status
        error = native.error
        if error is not None and error.code != Code.CANCELLED:
            raise error
        envelope = native.envelope
        status.cancelled = envelope.cancelled
        if status.cancelled or self._is_send:
            return
        status.source, status.tag = envelope.source, envelope.tag
        if self._target is None:
            status.value = framing.unpack(native.payload)
            status.length = envelope.length - framing.HEADER_BYTES
        else:
            status.length = self._target.accept(envelope.length, native.payload)
