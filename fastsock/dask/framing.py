"""How the frames of a message lie in the stream, and in the receiver's memory.

    magic, count     8 bytes
    lengths          8 bytes a frame: its length, and in the highest bit whether it begins a block
    frames           one after the other

A block is memory of its own at the receiver: frames of one block live and die together. The sender knows which frames
objects will refer to for long (arrays), and which are read once (pickles, headers).
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Frame = bytes | bytearray | memoryview

_HEADER = struct.Struct("<4sI")
_MAGIC = b"FsD\x01"  # the last byte is the version
_LENGTH = 8  # bytes
_BEGINS_BLOCK = 1 << 63
_BUFFER = 1 << 16  # bytes that are received ahead of their block's memory
_COPIED = 1 << 14  # bytes: a frame up to here is copied to its neighbours, and sent with them
_LITTLE, _SHARE = 2048, 20  # what an array's memory may also hold: so many bytes, or one in so many


class FramingError(ConnectionError):
    """The bytes are not those of such messages."""


def pack(frames: Sequence[Frame]) -> tuple[list[Frame], int]:
    """The buffers that make up the message on the stream, and their bytes. Large frames are these buffers themselves.

    Each frame is contiguous, of single bytes if it is a memoryview.
    """
    sizes = [len(frame) for frame in frames]
    lengths = sizes.copy()
    for number in _first_of_blocks(frames, sizes):
        lengths[number] |= _BEGINS_BLOCK
    header = _HEADER.pack(_MAGIC, len(frames)) + struct.pack(f"<{len(frames)}Q", *lengths)
    buffers: list[Frame] = []
    little: list[Frame] = [header]
    for frame, size in zip(frames, sizes, strict=True):
        if size > _COPIED:
            if little:
                buffers.append(b"".join(little))
                little = []
            buffers.append(frame)
        elif size:
            little.append(frame)
    if little:
        buffers.append(b"".join(little))
    return buffers, len(header) + sum(sizes)


def _first_of_blocks(frames: Sequence[Frame], sizes: list[int]) -> list[int]:
    """Which frames begin a block. Two arrays never share one, but a split array stays in one piece."""
    begins = []
    array: object = None  # the array in this block
    before = 0  # bytes of this block before it
    for number, (frame, size) in enumerate(zip(frames, sizes, strict=True)):
        owner = frame.obj if isinstance(frame, memoryview) else frame
        if isinstance(owner, bytes):  # it is read once
            if array is not None:
                begins.append(number)
                array, before = None, 0
        elif array is not owner:
            if array is not None or before > max(_LITTLE, size // _SHARE):
                begins.append(number)
                before = 0
            array = owner
        before += size
    return begins


class Assembler:
    """Makes frames again of a stream that is received piecemeal.

    Receive into `room()`, then say `received(count)`. `take()` gives the frames of the next message.

    allocate(bytes) -> writable memory of a block.
    """

    def __init__(self, allocate: Callable[[int], memoryview]) -> None:
        self._allocate = allocate
        self._buffer = memoryview(bytearray(_BUFFER))
        self._begin = self._end = 0  # of what is in the buffer
        self._target: memoryview | None = None  # what is being filled: a table of lengths, or a block
        self._filled = 0
        self._count = 0  # of the message's frames, while its table is filled
        self._blocks: list[list[int]] = []  # the lengths of the frames of each block that is still missing, last first
        self._frames: list[memoryview] | None = None

    def room(self) -> memoryview:
        """Where the next bytes go. It is empty where a message must be taken first."""
        target = self._target
        if target is not None and len(target) - self._filled > _COPIED and self._begin == self._end:
            return target[self._filled :]
        if self._begin == self._end:
            self._begin = self._end = 0
        elif self._end == _BUFFER and self._begin:
            kept = self._end - self._begin
            self._buffer[:kept] = self._buffer[self._begin : self._end]
            self._begin, self._end = 0, kept
        return self._buffer[self._end :]

    def received(self, count: int) -> None:
        """So many bytes lie in `room()` now."""
        if self._target is not None and self._begin == self._end and len(self._target) - self._filled > _COPIED:
            self._filled += count
        else:
            self._end += count

    def is_between_messages(self) -> bool:
        """Whether no byte of another message has come."""
        return self._begin == self._end and self._target is None and self._frames is None

    def take(self) -> list[memoryview] | None:
        """The frames of the next message, writable. None while some of its bytes are missing.

        Raises FramingError where the bytes are no message, MemoryError where it is too large.
        """
        if self._target is None and not self._begin_message():
            return None
        while self._fill():
            if self._frames is None:
                self._read_table()
            else:
                self._split_block()
            if not self._blocks:
                frames, self._frames, self._target = self._frames, None, None
                return frames
            self._aim(self._allocate(sum(self._blocks[-1])))
        return None

    def _begin_message(self) -> bool:
        if self._end - self._begin < _HEADER.size:
            begun = bytes(self._buffer[self._begin : self._end][: len(_MAGIC)])
            if not _MAGIC.startswith(begun):
                raise _no_message(begun)
            return False
        magic, count = _HEADER.unpack_from(self._buffer, self._begin)
        if magic != _MAGIC:
            raise _no_message(magic)
        self._begin += _HEADER.size
        self._count = count
        self._aim(memoryview(bytearray(count * _LENGTH)))
        return True

    def _aim(self, target: memoryview) -> None:
        self._target, self._filled = target, 0

    def _fill(self) -> bool:
        """Moves bytes from the buffer to where they belong. Whether the target is full then."""
        target = self._target
        assert target is not None
        count = min(len(target) - self._filled, self._end - self._begin)
        if count:
            target[self._filled : self._filled + count] = self._buffer[self._begin : self._begin + count]
            self._filled += count
            self._begin += count
        return self._filled == len(target)

    def _read_table(self) -> None:
        lengths = struct.unpack(f"<{self._count}Q", self._target or b"")
        self._frames = []
        self._blocks = [[]] if lengths else []
        for length in lengths:
            if length & _BEGINS_BLOCK:
                self._blocks.append([])
            self._blocks[-1].append(length & ~_BEGINS_BLOCK)
        self._blocks.reverse()

    def _split_block(self) -> None:
        assert self._target is not None and self._frames is not None
        at = 0
        for length in self._blocks.pop():
            self._frames.append(self._target[at : at + length])
            at += length


def _no_message(begun: bytes) -> FramingError:
    return FramingError(f"the other end sends no messages of a fastsock:// comm (it began with {begun!r}): use the same"
                        " scheme and the same version of fastsock at both ends")  # fmt: skip
