"""What can go wrong with buffers."""

from __future__ import annotations


class ReferencedError(BufferError):
    """Something still looks at the buffer's memory: a view here, or another process that has it."""


class TypedError(BufferError, TypeError):
    """Views of another type live. Drop them first: a buffer has items of one type at a time."""


class RegistrationError(RuntimeError):
    """The path does not register memory, or the buffer is registered already, or not. The text says why."""


class PoolEmptyError(RuntimeError):
    """All buffers of the pool are in use, and none of them is on its way back."""


class BufferFormatError(ValueError):
    """What arrived is no buffer, or one that may not be. Later bytes of the stream mean nothing: close the socket."""


class LostBufferError(ConnectionError):
    """The buffer that was announced is not there any more: its owner took it back. The connection stays usable."""


class MidBufferError(ConnectionError):
    """The stream ended or stopped within a buffer. Later bytes of it have no meaning: close the socket."""


class MidBufferTimeout(MidBufferError, TimeoutError):
    """The socket's timeout passed within a buffer. The buffer is incomplete now: close the socket."""
