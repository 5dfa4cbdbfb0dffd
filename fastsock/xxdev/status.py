"""What a receive or a probe tells of a message."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Status:
    """Of a completed request, or of a message that a probe found.

    source, tag: where the message came from and its tag; of a send, where it went.
    context: the one that it was matched in.
    length: bytes of the message without its header; of a pickled object, of its pickle and buffers.
    cancelled: whether the request ended by cancel().
    index: in `Request.iwaitany`, which of the requests this is.
    value: the object that came, where none was given to receive into.
    """

    __slots__ = ("cancelled", "context", "index", "length", "source", "tag", "value")

    def __init__(self) -> None:
        self.source = -1
        self.tag = -1
        self.context = 0
        self.length = 0
        self.cancelled = False
        self.index = 0
        self.value: Any = None

    def count(self, item: Any) -> int:
        """How many items of a dtype, or of that many bytes, came. Raises ValueError where that is no whole number."""
        size = item if isinstance(item, int) else _item_bytes(item)
        if size <= 0 or self.length % size:
            raise ValueError(f"{self.length} bytes are no whole number of items of {size} bytes")
        return self.length // size

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in ("source", "tag", "context", "length"))
        return f"Status({fields}{', cancelled=True' if self.cancelled else ''})"


def _item_bytes(item: Any) -> int:
    import numpy

    return int(numpy.dtype(item).itemsize)
