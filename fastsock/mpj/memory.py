"""Memory that messages name, as the contiguous bytes that collective operations work on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .buffers import Blocks, Message
from .collectives import blocks

Land = Callable[[], None]
"""Puts what was received where it belongs; called once everything is there."""


def landing(message: Message) -> tuple[Any, Callable[[int], None] | None]:
    """Returns where to receive a message that may be shorter, and what to call with its length; None: nothing."""
    room = message.room()
    if message.type.simple:
        return room, None
    return room, lambda nbytes: message.store(room, nbytes)


def outgoing(message: Message) -> memoryview:
    """Returns a message as bytes to send."""
    return _bytes(message.data())


def incoming(message: Message, *, kept: bool = False) -> tuple[memoryview, Land | None]:
    """Returns where to receive a message; with `kept` what is in its memory now is there too."""
    room = _bytes(message.room())
    if message.type.simple:
        return room, None
    if kept:
        room[:] = _bytes(message.data())
    return room, lambda: message.store(room)


def outgoing_blocks(given: Blocks) -> Any:
    """Returns a block for each rank as bytes to send."""
    data, lengths, offsets = given.data()
    return blocks.counted(_bytes(data), lengths, offsets)


def incoming_blocks(given: Blocks, *, kept: bool = False) -> tuple[Any, Land | None]:
    """Returns where to receive a block from each rank; with `kept` what is in their memory now is there too."""
    data, lengths, offsets = given.room()
    room = _bytes(data)
    found = blocks.counted(room, lengths, offsets)
    if given.simple:
        return found, None
    if kept:
        for block, length, offset in zip(given.blocks, lengths, offsets, strict=True):
            room[offset : offset + length] = _bytes(block.data())
    return found, lambda: given.store(room)


def _bytes(buffer: Any) -> memoryview:
    view = memoryview(buffer)
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")
