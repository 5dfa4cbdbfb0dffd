"""
Objects as messages: pickled, with large buffers beside the pickle instead of copied into it.

A message is the pickle itself, or a header, the pickle and the buffers, each at a multiple of 64 bytes: a numpy array
that arrives then lies where its message was received.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Sequence
from pickle import HIGHEST_PROTOCOL, PickleBuffer
from pickle import dumps as _dumps
from pickle import loads as _loads

from ..datatypes._memory import buffer
from ..handle import public
from ._plain import load_plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

frombuffer = buffer.frombuffer

PROTOCOL = int(os.environ.get("MPI4PY_PICKLE_PROTOCOL", HIGHEST_PROTOCOL))
THRESHOLD = int(os.environ.get("MPI4PY_PICKLE_THRESHOLD", 1024 * 1024 // 4))

BESIDE = 8 * 1024
"""Buffers of at least so many bytes travel beside the pickle."""

_MAGIC = b"\x00fsk-oob"  # no pickle begins with a NUL
_HEAD = struct.Struct("<8sQQ")  # magic, number of buffers, length of the pickle
_LENGTH = struct.Struct("<Q")
_ALIGNMENT = 64
_PADDING = bytes(_ALIGNMENT)
DAMAGED = "a message with an object is damaged: it names more bytes than it has"


@public
class Pickle:
    """How objects become messages and messages objects; mpi4py's class of this name.

    `protocol` is that of pickle. Buffers of `threshold` bytes or more travel beside the pickle, uncopied.
    """

    def __init__(
        self,
        dumps: Callable[..., bytes] | None = None,
        loads: Callable[..., Any] | None = None,
        protocol: int | None = None,
        threshold: int | None = None,
    ) -> None:
        """Take functions in place of pickle's `dumps` and `loads`."""
        self._dumps: Callable[..., bytes] = _dumps if dumps is None else dumps
        self._loads: Callable[..., Any] = _loads if loads is None else loads
        self._protocol = PROTOCOL if protocol is None and dumps is None else protocol
        self._threshold = THRESHOLD if threshold is None else threshold
        self._standard = False
        self._judge()

    def _judge(self) -> None:
        """Notes whether it is Python's own pickle, with a protocol that lets buffers travel beside."""
        self._standard = self._dumps is _dumps and self._loads is _loads and (self._protocol or 0) >= 5

    def dumps(self, obj: Any) -> bytes:
        """Return the pickle of an object."""
        if self._protocol is None:
            return self._dumps(obj)
        return self._dumps(obj, self._protocol)

    def loads(self, data: Any) -> Any:
        """Return the object of a pickle."""
        return self._loads(data)

    def dumps_oob(self, obj: Any) -> tuple[bytes, list[buffer]]:
        """Return the pickle of an object, and the buffers that travel beside it."""
        return self._beside(obj, self._threshold)

    def loads_oob(self, data: Any, buffers: Iterable[Any]) -> Any:
        """Return the object of a pickle and the buffers that travelled beside it."""
        return self._loads(data, buffers=buffers)

    def _beside(self, obj: Any, threshold: int) -> tuple[bytes, list[buffer]]:
        buffers: list[buffer] = []

        def stays(given: PickleBuffer) -> bool:
            try:
                raw = given.raw()
            except BufferError:  # not contiguous
                return True
            if raw.nbytes < threshold:
                return True
            buffers.append(frombuffer(raw))
            return False

        protocol = PROTOCOL if self._protocol is None else self._protocol
        return self._dumps(obj, max(protocol, 5), buffer_callback=stays), buffers

    @property
    def PROTOCOL(self) -> int | None:
        """The protocol of pickle; None: what the program's function chooses."""
        return self._protocol

    @PROTOCOL.setter
    def PROTOCOL(self, protocol: int | None) -> None:
        if protocol is None and self._dumps is _dumps:
            protocol = PROTOCOL
        self._protocol = protocol
        self._judge()

    @property
    def THRESHOLD(self) -> int:
        """The least length, in bytes, of buffers that travel beside the pickle."""
        return self._threshold

    @THRESHOLD.setter
    def THRESHOLD(self, threshold: int | None) -> None:
        self._threshold = THRESHOLD if threshold is None else threshold


pickle = Pickle()
"""What the lower-case calls serialize with; a program may give it other functions."""


def assembled(data: bytes, buffers: Sequence[Any]) -> list[Any]:
    """Returns the pieces of a message of a pickle and the buffers beside it."""
    lengths = b"".join([_LENGTH.pack(len(each)) for each in buffers])
    pieces: list[Any] = [_HEAD.pack(_MAGIC, len(buffers), len(data)) + lengths, data]
    at = len(pieces[0]) + len(data)
    for each in buffers:
        pieces += [_PADDING[: -at % _ALIGNMENT], each]
        at += -at % _ALIGNMENT + len(each)
    return pieces


class Codec:
    """Makes messages of objects and objects of messages; `beside`: the least length of buffers beside the pickle."""

    def __init__(self, find: Callable[[], Pickle], beside: int | None) -> None:
        self.find = find
        self.beside = beside

    def pieces(self, obj: Any) -> Any:
        """Returns the message for an object: bytes, or a list of buffers of which some are the object's own memory."""
        chosen = self.find()
        if self.beside is None:
            data, buffers = chosen.dumps_oob(obj)
        elif not chosen._standard:
            return chosen.dumps(obj)
        else:
            data, buffers = chosen._beside(obj, self.beside)
        if not buffers:
            return data
        return assembled(data, buffers)

    def message(self, obj: Any) -> Any:
        """Returns the message for an object, with no memory of the object in it."""
        pieces = self.pieces(obj)
        return bytearray().join(pieces) if isinstance(pieces, list) else pieces

    def load(self, payload: Any) -> Any:
        """Returns the object of a message; None for an empty one."""
        view = memoryview(payload)
        if view.nbytes == 0:
            return None
        chosen = self.find()
        if view[0] > 1 or view[:8] != _MAGIC:
            found, plain = load_plain(payload) if view[0] == 1 else (None, False)
            return found if plain else chosen._loads(payload)
        _, count, length = _HEAD.unpack_from(view)
        at = _HEAD.size + count * _LENGTH.size
        if count > view.nbytes // _LENGTH.size or at + length > view.nbytes:
            raise ValueError(DAMAGED)
        lengths = [_LENGTH.unpack_from(view, _HEAD.size + i * _LENGTH.size)[0] for i in range(count)]
        data = view[at : at + length]
        at += length
        buffers = []
        for nbytes in lengths:
            at += -at % _ALIGNMENT
            if at + nbytes > view.nbytes:
                raise ValueError(DAMAGED)
            buffers.append(view[at : at + nbytes])
            at += nbytes
        return chosen._loads(data, buffers=buffers)


CODEC = Codec(lambda: pickle, BESIDE)
"""What communicators use."""
