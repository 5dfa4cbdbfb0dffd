"""Registered buffers as arguments and results: their bytes go from their own memory into a buffer of the receiver.

A frame of a call is no place for a hand-over: it may be refused, cancelled or answered late, and then nobody would have
the buffer. A program that wants that sends it beside the call (fastsock.buffers.send_buffer).
"""

from __future__ import annotations

from typing import Any

from ... import core
from ...buffers import RegisteredBuffer
from ...registered.buffer import BorrowedBuffer
from .values import register


def _pack(buffer: RegisteredBuffer) -> memoryview:
    """A view of whatever type the program's own have. It keeps the buffer here until the call has gone."""
    return memoryview(core.TypedExport(buffer, buffer.kind if buffer.exports else None, True))


def _unpack(data: Any) -> RegisteredBuffer:
    buffer = RegisteredBuffer(len(data))
    with memoryview(buffer) as view:
        view[:] = data
    return buffer


for _kind in (RegisteredBuffer, BorrowedBuffer):
    register(_kind, pack=_pack, unpack=_unpack)
