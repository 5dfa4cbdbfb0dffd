"""Memory that messages name, as the contiguous bytes that collective operations work on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..datatypes import buffers
from ..datatypes.buffers import Simple, Vector, VectorW
from . import blocks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .protocols import Land


def outgoing(message: Simple, repeat: int = 1) -> memoryview:
    """Returns `repeat` times the message's items as bytes to send."""
    return _bytes(buffers.outgoing(message.address, message.count * repeat, message.datatype))


def incoming(message: Simple, repeat: int = 1, *, kept: bool = False) -> tuple[memoryview, Land | None]:
    """Returns where to receive `repeat` times the message's items. With `kept` the present contents are there too."""
    count = message.count * repeat
    room, finish = buffers.landing(message.address, count, message.datatype)
    data = _bytes(room)
    if finish is None:
        return data, None
    if kept:
        data[:] = _bytes(buffers.outgoing(message.address, count, message.datatype))
    return data, lambda: finish(len(data))


def outgoing_blocks(given: Vector | VectorW) -> Any:
    """Returns the blocks for all ranks as bytes to send."""
    if isinstance(given, Vector) and buffers.is_dense(given.datatype):
        return _dense(given)
    return blocks.separate([_bytes(buffers.outgoing(*place)) for place in _places(given)])


def incoming_blocks(given: Vector | VectorW, *, kept: bool = False) -> tuple[Any, Land | None]:
    """Returns where to receive the blocks from all ranks. With `kept` the present contents are there too."""
    if isinstance(given, Vector) and buffers.is_dense(given.datatype):
        return _dense(given), None
    views = []
    lands: list[tuple[Callable[[int], None], int]] = []
    for place in _places(given):
        room, finish = buffers.landing(*place)
        data = _bytes(room)
        views.append(data)
        if finish is not None:
            lands.append((finish, len(data)))
            if kept:
                data[:] = _bytes(buffers.outgoing(*place))

    def land() -> None:
        for finish, nbytes in lands:
            finish(nbytes)

    return blocks.separate(views), land if lands else None


def _places(given: Vector | VectorW) -> list[tuple[int, int, Any]]:
    """Returns address, number of items and datatype of each block."""
    if isinstance(given, VectorW):
        types: Sequence[Any] = given.datatypes
        offsets = given.displs
    else:
        types = [given.datatype] * len(given.counts)
        extent = given.datatype.extent
        offsets = [displ * extent for displ in given.displs]
    return [
        (given.address + offset, count, datatype)
        for offset, count, datatype in zip(offsets, given.counts, types, strict=True)
    ]


def _dense(given: Vector) -> Any:
    """Returns the blocks where they are."""
    size = given.datatype.size
    lengths = [count * size for count in given.counts]
    offsets = [displ * size for displ in given.displs]
    used = [(at, at + length) for at, length in zip(offsets, lengths, strict=True) if length]
    low = min((at for at, _ in used), default=0)
    data = _bytes(buffers.view(given.address + low, max((end for _, end in used), default=low) - low))
    return blocks.counted(
        data, lengths, [at - low if length else 0 for at, length in zip(offsets, lengths, strict=True)]
    )


def _bytes(buffer: Any) -> memoryview:
    view = memoryview(buffer)
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")
