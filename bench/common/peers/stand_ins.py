"""What stands for two things that fastsock.rmi cannot be told to do: they are built on it, at both ends.

`BlockData` is the serialization stream of Java's RMI: each message is packed into a bytes object of its own, with its
lengths within, and that object is sent. `PackedClasses` with `annotated` tells with each object where its class is
found, and the receiver imports it from there. What they cost in Python counts, so they show at most what was gained.
"""

from __future__ import annotations

import dataclasses
import importlib
import struct
from collections.abc import Callable
from typing import Any

from .remote_calls import ADD, Own, Served, argument

LENGTHS = struct.Struct("<QQ")  # of the body, number of the segments behind it


class Blocks:
    """Values to one bytes object, and back."""

    def __init__(self) -> None:
        from fastsock.rmi import codec
        from fastsock.rmi.codec.values import classes

        self.codec = codec
        self.packer, self.unpacker = codec.Packer(classes), codec.Unpacker(classes)

    def pack(self, *values: Any) -> bytes:
        """One copy more, into memory that lives for this message only."""
        body, segments = self.packer.pack_frame(0, values)
        return b"".join((LENGTHS.pack(len(body), len(segments)), body, *segments))

    def unpack(self, data: bytes) -> list[Any]:
        """What `pack` was given, in fresh memory."""
        size, count = LENGTHS.unpack_from(data)
        at = LENGTHS.size + size
        view = memoryview(data)
        body = view[LENGTHS.size : at]
        if not count:
            return self.unpacker.unpack_frame(body)
        segments = []
        for kind, length in self.codec.segment_words(body, count):
            handed, room = self.codec.new_segment(kind, length)
            memoryview(room).cast("B")[:] = view[at : at + length]
            at += length
            segments.append(handed)
        return self.unpacker.unpack_frame(body, segments)


class BlockServed(Served):
    """The same methods, asked for by name within a block."""

    blocks: Any = None

    def blocked(self, data: bytes) -> bytes:
        """Makes the call that the block holds."""
        name, *arguments = self.blocks.unpack(data)
        answer: bytes = self.blocks.pack(getattr(self, name)(*arguments))
        return answer


class BlockData(Own):
    """fastsock.rmi whose calls go as blocks."""

    def listen(self) -> Any:
        rmi = self._rmi()
        rmi.expose(BlockServed)
        served = BlockServed()
        served.blocks = Blocks()
        self.daemon = rmi.Daemon()
        self.daemon.register(served, "bench", local=False)
        self.daemon.start()
        return self.daemon.address

    def connect(self, address: Any) -> None:
        super().connect(address)
        self.blocks = Blocks()  # both ends number the classes in the same order

    def prepare(self, what: str) -> Callable[[], Any]:
        blocks, blocked = self.blocks, self.made.blocked
        if what == ADD:
            return lambda: blocks.unpack(blocked(blocks.pack("add", 1, 2)))
        value = argument(what)
        return lambda: blocks.unpack(blocked(blocks.pack("same", value)))


class PackedClasses(Own):
    """fastsock.rmi with functions that pack and unpack the classes of this bench, with or without an annotation."""

    def __init__(self, name: str, annotated: bool) -> None:
        super().__init__(name)
        self.annotated = annotated

    def _register(self, rmi: Any) -> None:
        from ..call_values import Grid, Reading, Simulation

        for each in (Reading, Grid, Simulation):
            if self.annotated:
                rmi.register(each, pack=_pack_annotated, unpack=_unpack_annotated)
            else:
                rmi.register(each, pack=_pack, unpack=lambda values, each=each: each(*values))


def _pack(value: Any) -> tuple[Any, ...]:
    return tuple([getattr(value, each.name) for each in dataclasses.fields(value)])


def _pack_annotated(value: Any) -> tuple[Any, ...]:
    kind = type(value)
    return (kind.__module__, kind.__qualname__, *_pack(value))


def _unpack_annotated(values: tuple[Any, ...]) -> Any:
    return getattr(importlib.import_module(values[0]), values[1])(*values[2:])
