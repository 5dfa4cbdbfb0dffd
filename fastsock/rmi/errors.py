"""What a remote call can fail with. Each text names what failed, and what to do."""

from __future__ import annotations

import _socket
import sys
from types import FrameType


class RmiError(Exception):
    """The base of all errors of fastsock.rmi."""


class BadAddress(RmiError, ValueError):
    """A text, or a setting, is no address. Nothing was sent."""


class ConnectError(RmiError, OSError):
    """connect() did not reach the daemon. Nothing ran. `errno` is that of the system, where it told one."""


class ConnectTimeout(ConnectError, TimeoutError):
    """connect(), or wait_for(), took longer than it may. Nothing ran."""


class ConnectRefused(ConnectError, ConnectionRefusedError):
    """Nobody listens at the address. Nothing ran."""


class UnknownHost(ConnectError, _socket.gaierror):
    """The host of an address has no address here. Nothing ran."""


class ListenError(RmiError, OSError):
    """A daemon cannot listen at the address that it was given."""


class NotPackable(RmiError, TypeError):
    """A value cannot travel: its class is not registered, or its state means nothing elsewhere. Nothing was sent."""


class BadFrame(RmiError, ConnectionError):
    """What arrived is no frame that this version of fastsock can have sent. The connection ends."""


class LimitExceeded(RmiError):
    """A frame or a value is larger, deeper or holds more than the limits of this connection allow."""


class VersionMismatch(RmiError):
    """Both ends know a class by this name, but its fields differ, and no ``migrate`` was given. Nothing was built."""


class Refused(RmiError):
    """The other end, or this one, does not take part: the key, the limits or the address forbid it. Nothing ran."""


class LostPeer(RmiError, ConnectionError):
    """The other process, or the way to it, is gone. The text says whether the call can have run."""


class CallTimeout(RmiError, TimeoutError):
    """No answer came in time. The connection stays good, and a late answer is dropped. The call can have run."""


class Deadlock(RmiError, RuntimeError):
    """A serial object is held by a call that waits for this one. The text tells the chain of calls. Nothing ran."""


class RemoteError(RmiError):
    """A method raised an exception of a class that is not registered here.

    `kind` is the class's qualified name there. The text is that of the exception.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}" if text else kind)
        self.kind = kind
        self.text = text

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.kind, self.text)


class UnknownObject(RmiError, LookupError):
    """Nothing is registered there under this name or number. Nothing ran."""


class UnknownMethod(RmiError, AttributeError):
    """The object has no exposed method of this name or number. Nothing ran."""


class RemoteTraceback(Exception):
    """The traceback of the other process, where exceptions have no notes."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def text_of(error: BaseException) -> str:
    """What an exception says. Its class may be at fault there too."""
    try:
        return str(error)
    except Exception:
        return "(its text cannot be made)"


def is_own(frame: FrameType) -> bool:
    """Whether it runs code of fastsock.rmi: a program is told of its own."""
    package = str(frame.f_globals.get("__package__"))
    return package == __package__ or package.startswith(f"{__package__}.")


def add_remote_traceback(error: BaseException, text: str) -> None:
    """Shows the traceback of the other process with that of the exception."""
    if sys.version_info >= (3, 11):
        error.add_note(text)
    else:
        error.__cause__ = RemoteTraceback(text)
