"""What goes over a control connection: frames of a kind and some byte strings, parsed with every length checked."""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# rank to server
JOIN = 1  # identity of its host, host name, pid
PUT = 2  # key, value
GET = 3  # key; answered by VALUE, when there is one
FENCE = 4  # answered by FENCED when every rank has sent it
FINISH = 5  # its end is no failure from now on; answered by FINISHED
ABORT = 6  # status, reason: everything ends
CRASH = 7  # reason: this rank is about to end by an error
BROADCAST = 8  # a value; answered by BROADCAST to all ranks
ASK = 9  # rank; answered by LEFT once that one has finished
# server to rank; BROADCAST too
TABLE = 16  # once all have joined: outward address of the server's host, then what each rank's JOIN said
VALUE = 17  # key, value
FENCED = 18
FINISHED = 19
FAILED = 20  # rank, reason
ABORTED = 21  # rank, status, reason
LEFT = 23  # rank: it has finished
KEEP_GOING = 22  # before all others: the job goes on without ranks that fail

LARGEST = 64 << 20
_HEAD = struct.Struct("!IBI")  # length of what follows the head, kind, number of strings
_LENGTH = struct.Struct("!I")


class FrameError(ValueError):
    """Bytes that are no frame."""


def pack(kind: int, *strings: bytes) -> bytes:
    """The bytes of one frame."""
    body = b"".join([_LENGTH.pack(len(string)) + string for string in strings])
    if len(body) > LARGEST:
        raise FrameError(f"a message of {len(body)} bytes; at most {LARGEST} can be exchanged at wire-up")
    return _HEAD.pack(len(body), kind, len(strings)) + body


class Reader:
    """Frames out of a stream of bytes."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, list[bytes]]]:
        """Take bytes that arrived; gives (kind, strings) of each frame that is whole. Raises FrameError."""
        self._buffer += data
        while len(self._buffer) >= _HEAD.size:
            length, kind, count = _HEAD.unpack_from(self._buffer)
            if length > LARGEST:
                raise FrameError(f"a frame of {length} bytes")
            end = _HEAD.size + length
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[_HEAD.size : end])
            del self._buffer[:end]
            yield kind, _split(body, count)


def _split(body: bytes, count: int) -> list[bytes]:
    strings = []
    place = 0
    for _ in range(count):
        if len(body) - place < _LENGTH.size:
            raise FrameError("a frame that ends too early")
        (length,) = _LENGTH.unpack_from(body, place)
        place += _LENGTH.size
        if length > len(body) - place:
            raise FrameError("a string that is longer than its frame")
        strings.append(body[place : place + length])
        place += length
    if place != len(body):
        raise FrameError("a frame with bytes left over")
    return strings


def number(string: bytes) -> int:
    """A whole number that was sent as text."""
    try:
        return int(string)
    except ValueError:
        raise FrameError(f"{string[:20]!r} where a number is due") from None


def text(string: bytes) -> str:
    """Text that was sent. Bytes that are no UTF-8 are shown, not refused."""
    return string.decode("utf-8", "backslashreplace")
