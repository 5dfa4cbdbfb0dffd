"""
Objects as messages: pickles, whatever they hold.

A program may receive such a message as bytes and unpickle it. Large buffers are not copied into it (_embedding.pyx).
Small objects of Python's own types are written and read natively (_plain.pyx).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from fastsock.system.pickles import HIGHEST_PROTOCOL, PickleBuffer
from fastsock.system.pickles import dumps as _dumps
from fastsock.system.pickles import loads as _loads

from ..datatypes._memory import buffer
from ..handle import public
from ._embedding import ENTRY, MAGIC, TAIL, embedded
from ._plain import load_plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

frombuffer = buffer.frombuffer

PROTOCOL = int(os.environ.get("MPI4PY_PICKLE_PROTOCOL", HIGHEST_PROTOCOL))
THRESHOLD = int(os.environ.get("MPI4PY_PICKLE_THRESHOLD", 1024 * 1024 // 4))

_WITH_BUFFERS = 5  # the protocol that lets buffers be left out, whose opcodes embedded() knows

BESIDE = 8 * 1024
"""Buffers of at least so many bytes are not copied into the pickle."""

_NEXT_BUFFER, _READONLY = b"\x97", b"\x97\x98"
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
            buffers.append(frombuffer(raw, raw.readonly))
            return False

        return self._dumps(obj, _WITH_BUFFERS, buffer_callback=stays), buffers

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
        return embedded(data, buffers)

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
        if self.beside is not None and not chosen._standard:
            return chosen._loads(payload)
        if view[-len(MAGIC) :] == MAGIC:
            return self._load_embedded(chosen, view)
        found, plain = load_plain(payload)
        return found if plain else chosen._loads(payload)

    def _load_embedded(self, chosen: Pickle, view: memoryview) -> Any:
        """The object, whose large buffers stay where they are: in the message."""
        count, _ = TAIL.unpack_from(view, view.nbytes - TAIL.size)
        end = view.nbytes - TAIL.size - count * ENTRY.size
        if end < 0:
            raise ValueError(DAMAGED)
        at = 0
        parts: list[Any] = []
        buffers: list[memoryview] = []
        for start, first, length, readonly in ENTRY.iter_unpack(view[end : view.nbytes - TAIL.size]):
            if not at <= start <= first <= first + length <= end:
                raise ValueError(DAMAGED)
            parts += [view[at:start], _READONLY if readonly else _NEXT_BUFFER]
            buffers.append(view[first : first + length])
            at = first + length
        return chosen._loads(b"".join([*parts, view[at:end]]), buffers=buffers)


CODEC = Codec(lambda: pickle, BESIDE)
"""What communicators use."""
