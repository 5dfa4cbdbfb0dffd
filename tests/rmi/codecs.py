"""The codec, the numbers of its bytes, and a frame's way from a packer to an unpacker."""

from __future__ import annotations

import pathlib
import re
from types import SimpleNamespace
from typing import Any

from fastsock import rmi
from fastsock.rmi import codec

HEADER = 16


def numbers_of(header: str) -> dict[str, int]:
    """The numbers that a file of C declarations in fastsock/rmi names."""
    text = (pathlib.Path(rmi.__file__).parent / header).read_text()
    return {name: eval(value) for name, value in re.findall(r"^    ([A-Z_0-9]+) = ([^#\n]+)", text, re.MULTILINE)}


tags = SimpleNamespace(**numbers_of("codec/_format.pxd"))


class Way:
    """One direction of a connection: a packer, an unpacker. receiving: the classes that the other end knows."""

    def __init__(self, classes: Any, receiving: Any = None, **options: Any) -> None:
        references = options.pop("references", None)
        self.packer = codec.Packer(classes, references, **options)
        options.pop("without", None)
        self.unpacker = codec.Unpacker(classes if receiving is None else receiving, references, **options)

    def pack(self, *values: Any) -> tuple[bytes, list[Any]]:
        """The body without its header room, and the segments as they arrive."""
        self.packer.start(HEADER)
        for value in values:
            self.packer.pack(value)
        frame, buffers = self.packer.finish()
        body = bytes(frame[HEADER:])
        return body, self.received(body, buffers)

    def received(self, body: bytes, buffers: list[Any]) -> list[Any]:
        segments = []
        for (kind, size), buffer in zip(codec.segment_words(body, len(buffers)), buffers, strict=True):
            segment, memory = codec.new_segment(kind, size)
            memoryview(memory).cast("B")[:] = memoryview(buffer).cast("B")
            segments.append(segment)
        return segments

    def unpack(self, body: Any, segments: Any = ()) -> list[Any]:
        """All the values of a body."""
        values = []
        try:
            self.unpacker.begin(body, segments)
            while self.unpacker.has_more():
                values.append(self.unpacker.unpack())
        finally:
            self.unpacker.end()
        return values

    def carry(self, value: Any) -> Any:
        """One value, there."""
        (got,) = self.unpack(*self.pack(value))
        return got
