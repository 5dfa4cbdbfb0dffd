"""Buffers that go from one process to another without a copy (Javia-II's ViBuffers, section 4, on one host).

    from fastsock import buffers

    buffer = buffers.RegisteredBuffer(64 << 20)
    buffer.view("f8")[:] = 1.0                       # a numpy array over its memory
    buffers.send_buffer(sock, buffer)                # hands it over: nothing is copied on shared memory

    received = buffers.recv_buffer(sock)             # at the other end
    total = received.view("f8").sum()
    received.release()                               # gives it back

A buffer is seen as items of one type at a time (TypedError), and goes away only when no view of it lives
(ReferencedError). On other paths the same calls copy. The page docs/reference/buffers.md has the rest. Needs
the native core.
"""

from __future__ import annotations

from .registered.buffer import RegisteredBuffer
from .registered.errors import (
    BufferFormatError,
    LostBufferError,
    MidBufferError,
    MidBufferTimeout,
    PoolEmptyError,
    ReferencedError,
    RegistrationError,
    TypedError,
)
from .registered.pool import Pool
from .registered.transfer import expect, recv_buffer, send_buffer

__all__ = [
    "BufferFormatError",
    "LostBufferError",
    "MidBufferError",
    "MidBufferTimeout",
    "Pool",
    "PoolEmptyError",
    "ReferencedError",
    "RegisteredBuffer",
    "RegistrationError",
    "TypedError",
    "expect",
    "recv_buffer",
    "send_buffer",
]
