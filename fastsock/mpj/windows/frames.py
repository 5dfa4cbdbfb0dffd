"""What an origin says to the server of a target: a head, the target's datatype, and short data behind.

Long data are a message of their own, so that they can be received where they belong.
"""

from __future__ import annotations

import pickle
from struct import Struct

from ..constants import ERR_INTERN
from ..datatypes.datatype import Datatype
from ..datatypes.op import constants_by_name as _operations
from ..exceptions import Exception as MPIException

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The tags in the context of a window, which nobody else uses.
REQUEST, DATA, POSTED, COMPLETED = range(4)
FIRST_ANSWER = 16
"""Answers have tags from this one on, which the origin chooses."""
LAST_ANSWER = 1 << 30

PUT, GET, ACCUMULATE, FETCH, SWAP, FLUSH, LOCK, UNLOCK = range(8)
INLINE = 8192
"""Data up to this length travel with the head."""

_HEAD = Struct("<BBBxIIqqq12x")  # the data behind are aligned as any of its items needs it
_FAILURE = Struct("<i")
_OPERATIONS = list(_operations)
_MOST_KNOWN = 1024

BYTES = b""
"""What stands for items without gaps, whose type does not matter."""


class Frame:
    """`count` items of a datatype at an offset; `length` bytes of data, here where they are short."""

    __slots__ = ("answer", "argument", "count", "data", "description", "kind", "length", "offset")

    def __init__(
        self,
        kind: int,
        *,
        argument: int = 0,
        answer: int = 0,
        offset: int = 0,
        count: int = 0,
        length: int = 0,
        description: bytes = BYTES,
        data: Any = None,
    ) -> None:
        self.kind = kind
        self.argument = argument
        self.answer = answer
        self.offset = offset
        self.count = count
        self.length = length
        self.description = description
        self.data = data

    def packed(self) -> bytes:
        """Returns the message."""
        head = _HEAD.pack(
            self.kind,
            self.argument,
            self.data is not None,
            len(self.description),
            self.answer,
            self.offset,
            self.count,
            self.length,
        )
        if self.data is None:
            return head + self.description
        return b"".join((head, self.description, bytes(-len(self.description) % 16), self.data))

    @classmethod
    def unpacked(cls, message: Any) -> Frame:
        """Returns what a message says."""
        view = memoryview(message)
        kind, argument, inline, described, answer, offset, count, length = _HEAD.unpack_from(view)
        end = _HEAD.size + described
        return cls(
            kind,
            argument=argument,
            answer=answer,
            offset=offset,
            count=count,
            length=length,
            description=bytes(view[_HEAD.size : end]),
            data=view[end + -described % 16 :] if inline else None,
        )


def number_of(op: Any) -> int:
    """Returns the number by which a predefined operation travels."""
    return _OPERATIONS.index(op.ob.constant_name)


def operation_of(number: int) -> Any:
    """Returns the operation of a number."""
    return _operations[_OPERATIONS[number]]


def description_of(datatype: Datatype) -> bytes:
    """Returns how a datatype travels."""
    known = datatype.ob.known
    found: bytes | None = known.get("description")
    if found is None:
        found = known["description"] = pickle.dumps(datatype)
    return found


class Descriptions:
    """The datatypes that travelled here, so that each is made once."""

    def __init__(self) -> None:
        self._known: dict[bytes, Datatype] = {}

    def datatype(self, description: bytes) -> Datatype:
        """Returns the datatype that is described."""
        found = self._known.get(description)
        if found is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            found = self._known[description] = pickle.loads(description)
        return found


def failure(error: BaseException) -> bytes:
    """Returns how an error travels."""
    if isinstance(error, MPIException):
        return _FAILURE.pack(int(error)) + error.detail.encode()
    return _FAILURE.pack(ERR_INTERN) + repr(error).encode()


def failure_of(message: Any) -> MPIException | None:
    """Returns the error that an answer tells of."""
    data = bytes(message)
    if not data:
        return None
    return MPIException(_FAILURE.unpack_from(data)[0], data[_FAILURE.size :].decode())
