"""The codec in both forms, the compiled one and the text that Python runs, and a frame's way from one to the other."""

from __future__ import annotations

import importlib.abc
import importlib.util
import pathlib
import sys
from typing import Any

import fastsock.rmi
from fastsock.rmi import _codec as installed
from fastsock.rmi import _packing

HEADER = 16
PARTS = (
    "codec",
    "kinds",
    "segments",
    *(f"{way}{part}" for way in ("packing", "unpacking") for part in ("", "_values", "_special", "_objects")),
)
MODULES = [f"fastsock.rmi._{part}" for part in PARTS]


class _Texts(importlib.abc.MetaPathFinder):
    """Finds the text of a module of `fastsock.rmi` where a compiled one lies beside it."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        text = pathlib.Path(installed.__file__).with_name(fullname.rpartition(".")[2] + ".py")
        return importlib.util.spec_from_file_location(fullname, text) if fullname in MODULES else None


def run_by_python() -> Any:
    """The codec that Python runs out of the same text. The modules that are installed stay where they are."""
    before = {name: sys.modules.pop(name) for name in MODULES if name in sys.modules}
    finder = _Texts()
    sys.meta_path.insert(0, finder)
    try:
        return importlib.import_module("fastsock.rmi._codec")
    finally:
        sys.meta_path.remove(finder)
        for name in MODULES:
            sys.modules.pop(name, None)
        sys.modules.update(before)
        for name, module in before.items():
            setattr(fastsock.rmi, name.rpartition(".")[2], module)


IS_COMPILED = not _packing.__file__.endswith(".py")
interpreted = run_by_python() if IS_COMPILED else installed
FORMS = {"interpreted": interpreted, **({"compiled": installed} if IS_COMPILED else {})}


class Way:
    """One direction of a connection: a packer of one form, an unpacker of one form."""

    def __init__(self, packs: Any, unpacks: Any, classes: Any, receiving: Any = None, **options: Any) -> None:
        references = options.pop("references", None)
        self.unpacks = unpacks
        self.packer = packs.Packer(classes, references, **options)
        options.pop("without", None)
        self.unpacker = unpacks.Unpacker(classes if receiving is None else receiving, references, **options)

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
        for (kind, size), buffer in zip(self.unpacks.segment_words(body, len(buffers)), buffers, strict=True):
            segment, memory = self.unpacks.new_segment(kind, size)
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
