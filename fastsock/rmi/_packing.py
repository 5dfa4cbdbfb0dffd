# cython: language_level=3, annotation_typing=False, freethreading_compatible=True
"""A frame from its start to its end. `_format.py` describes the bytes.

A packer belongs to one connection and direction: it numbers its classes and its cached values. Two threads may not use
it at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    import cython
except ModuleNotFoundError:
    from fastsock.rmi import _interpreted as cython


if not cython.compiled:
    from fastsock.rmi._format import DEEPEST, FORGET, KEPT_SCRATCH, NEW, SCRATCH, SPARE, WORD
    from fastsock.rmi._interpreted import store_64
    from fastsock.rmi._packing_objects import ObjectPacker

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from fastsock.rmi.values import ClassTable

    Buffer = Any

OPTIMIZATIONS = frozenset({"class-number", "array-memory", "early-detection", "cache"})


class Packer(ObjectPacker):
    """Packs values for one connection. `start`, `pack` once or more, `finish`."""

    def __init__(
        self,
        classes: ClassTable,
        references: Any = None,
        trust_pickle: bool = False,
        depth: int = 100,
        without: Collection[str] = frozenset(),
    ) -> None:
        if not 0 < depth <= DEEPEST:
            raise ValueError(f"depth is {depth}: it must be from 1 to {DEEPEST}")
        unknown = sorted(set(without) - OPTIMIZATIONS)
        if unknown:
            raise ValueError(f"without names {', '.join(unknown)}; there are {', '.join(sorted(OPTIMIZATIONS))}")
        ObjectPacker.__init__(self, classes, references, trust_pickle, depth, without)
        self.numbers_classes = "class-number" not in without
        self.is_open = False
        self.is_packing = False

    def start(self, reserved: int = 0) -> None:
        """Begin a frame whose first `reserved` bytes are for its header. The buffers of the one before are void."""
        if self.is_packing:
            raise RuntimeError("a pack function used the connection that it packs for: gather first what it needs")
        if self.is_open:
            self.abandon()
        if self.room > KEPT_SCRATCH:
            self._new_scratch(SCRATCH)
        if self.announced:
            self.announced = []
        if self.filled:
            self.filled = []
        if not self.numbers_classes and self.class_count:
            self._forget_classes()
        if self.segments:
            self.segments = []
            self.words = []
        if self.room - reserved < SPARE:
            self.grow(reserved + SPARE)
        self.level = 0
        self.first = reserved
        self.data[reserved] = 0 if self.numbers_classes else FORGET
        self.at = reserved + 1
        self.is_open = True

    def pack(self, value: Any) -> None:
        """Pack one more value. Raises NotPackable or LimitExceeded: then `abandon`."""
        if self.is_packing or not self.is_open:
            raise RuntimeError("a value is packed between start and finish, and not by a pack function")
        self.is_packing = True
        try:
            self.write(value)
        finally:
            self.is_packing = False

    def pack_written(self, writer: Any) -> None:
        """Pack one more value, which `writer` writes. As `pack`."""
        if self.is_packing or not self.is_open:
            raise RuntimeError("a value is packed between start and finish, and not by a pack function")
        self.is_packing = True
        try:
            writer.write_to(self)
        finally:
            self.is_packing = False

    def finish(self) -> tuple[memoryview, list[Buffer]]:
        """The frame: the scratch, header room first, and the buffers that follow it. They are valid until `start`."""
        self.close()
        return self.whole[: self.at], self.segments

    def pack_frame(self, reserved: int, values: Sequence[Any]) -> tuple[memoryview, list[Buffer]]:
        """`start`, `pack` of each value, and `finish`; `abandon` where that fails."""
        self.start(reserved)
        try:
            for value in values:
                self.pack(value)
        except BaseException:
            self.abandon()
            raise
        return self.finish()

    def close(self) -> None:
        """Write the end of the body. For C: then `data`, `at` and `segments` are the frame."""
        if self.announced:
            self._describe()
        if self.words:
            if self.room - self.at < WORD * len(self.words):
                self.grow(WORD * len(self.words))
            for word in self.words:
                store_64(self.data, self.at, word)
                self.at += WORD
        if self.count:
            self._forget_numbers()
        self.is_open = False

    def abandon(self) -> None:
        """The frame is not sent: what it announced is taken back."""
        for outgoing in self.announced:
            outgoing.number = NEW
        self.class_count -= len(self.announced)
        self.announced = []
        for place in self.filled:
            held = self.cached[place]
            if held is not None:
                self.places.pop(id(held), None)
                self.cached[place] = None
        self.filled = []
        self._forget_numbers()
        self.segments = []
        self.words = []
        self.level = 0
        self.is_open = False
