"""Packing by a program: into its own buffers, natively or in the portable representation of the standard."""

from __future__ import annotations

from operator import index

import numpy as np

from ..constants import ERR_ARG, ERR_TRUNCATE, ERR_TYPE, ERR_UNSUPPORTED_DATAREP
from ..exceptions import Exception
from . import _memory
from ._memory import TypeRecord, pack_into, span, unpack_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def pack(type_: TypeRecord, inbuf: Any, outbuf: Any, position: int) -> int:
    """Packs all whole items of `inbuf` to `outbuf` from `position` on; returns the position after them."""
    source, target = _memory.acquire(inbuf, True, False), _memory.acquire(outbuf, False, False)
    size = _items(type_, source) * type_.size
    room = _room(target, position, size)
    pack_into(room, type_, source.address)
    return index(position) + size


def unpack(type_: TypeRecord, inbuf: Any, position: int, outbuf: Any) -> int:
    """Unpacks so many items as `outbuf` has room for; returns the position after them."""
    source, target = _memory.acquire(inbuf, True, False), _memory.acquire(outbuf, False, False)
    size = _items(type_, target) * type_.size
    unpack_from(_room(source, position, size), type_, target.address)
    return index(position) + size


def pack_external(datarep: str, type_: TypeRecord, inbuf: Any, outbuf: Any, position: int) -> int:
    """Packs as `pack` does, in the external32 representation."""
    _check(datarep)
    source, target = _memory.acquire(inbuf, True, False), _memory.acquire(outbuf, False, False)
    count = _items(type_, source)
    native = np.empty(count * type_.size, np.uint8)
    pack_into(native, type_, source.address)
    external = _converted(type_, count, native, outwards=True)
    _room(target, position, len(external))[:] = external
    return index(position) + len(external)


def unpack_external(datarep: str, type_: TypeRecord, inbuf: Any, position: int, outbuf: Any) -> int:
    """Unpacks as `unpack` does, from the external32 representation."""
    _check(datarep)
    source, target = _memory.acquire(inbuf, True, False), _memory.acquire(outbuf, False, False)
    count = _items(type_, target)
    size = external_size(datarep, type_, count)
    native = _converted(type_, count, np.frombuffer(_room(source, position, size), np.uint8), outwards=False)
    unpack_from(native, type_, target.address)
    return index(position) + size


def to_external(type_: TypeRecord, count: int, packed: Any) -> Any:
    """Returns the data of `count` items, which are given without their gaps, in the external32 representation."""
    return _converted(type_, count, np.frombuffer(packed, np.uint8), outwards=True)


def from_external(type_: TypeRecord, count: int, external: Any) -> Any:
    """Does the opposite."""
    return _converted(type_, count, np.frombuffer(external, np.uint8), outwards=False)


def external_size(datarep: str, type_: TypeRecord, count: int) -> int:
    """Returns how many bytes `count` items take in the external32 representation."""
    _check(datarep)
    return count * sum(basic.wire for basic, _ in type_.basics())


def _check(datarep: str) -> None:
    if datarep != "external32":
        raise Exception(ERR_UNSUPPORTED_DATAREP, f"the representation {datarep!r} is not there; external32 is")


def _items(type_: TypeRecord, buffer: _memory.buffer) -> int:
    if type_.extent <= 0:
        raise Exception(ERR_TYPE, f"items of extent {type_.extent} cannot be counted: resize the type")
    count = buffer.nbytes // type_.extent
    low, high = span(type_, count)
    if low < 0 or high > buffer.nbytes:
        raise Exception(ERR_ARG, f"{count} items take the bytes {low} to {high} of a buffer of {buffer.nbytes}")
    return count


def _room(buffer: _memory.buffer, position: int, size: int) -> _memory.buffer:
    position = index(position)
    if position < 0 or position + size > buffer.nbytes:
        raise Exception(ERR_TRUNCATE, f"{size} bytes from {position} on are not in a buffer of {buffer.nbytes}")
    return _memory.part(buffer, position, size)


def _converted(type_: TypeRecord, count: int, data: np.ndarray[Any, np.dtype[np.uint8]], *, outwards: bool) -> Any:
    """Packed data of `count` items in the other representation: numbers big end first, of standard sizes."""
    if not count:
        return np.empty(0, np.uint8)
    pieces = []
    items = _columns(type_)
    start = 0
    rows = data.reshape(count, -1)
    for basic, repeat in items:
        native, external = basic.size * repeat, basic.wire * repeat
        taken = native if outwards else external
        column = rows[:, start : start + taken]
        start += taken
        pieces.append(_convert(basic, np.ascontiguousarray(column), outwards).reshape(count, -1))
    if not pieces:
        return np.empty(0, np.uint8)
    return np.ascontiguousarray(np.concatenate(pieces, axis=1)).ravel()


def _columns(type_: TypeRecord) -> list[tuple[TypeRecord, int]]:
    """(basic type, number of them) of one item; equal neighbours are joined."""
    if type_.basic is not None and type_.basic.size:
        return [(type_.basic, type_.elements)]
    found: list[tuple[TypeRecord, int]] = []
    for basic, _ in type_.basics():
        if found and found[-1][0] is basic:
            found[-1] = (basic, found[-1][1] + 1)
        else:
            found.append((basic, 1))
    return found


def _convert(basic: TypeRecord, data: Any, outwards: bool) -> Any:
    units = 2 if basic.kind == "c" else 1
    here, there = basic.size // units, basic.wire // units
    if here == there:
        # of equal size: the bytes of each number the other way round
        return data.reshape(-1, here)[:, ::-1]
    kind = {"S": "u", "b": "u"}.get(basic.kind, basic.kind)
    native, external = np.dtype(f"{kind}{here}"), np.dtype(f">{kind}{there}")
    source, target = (native, external) if outwards else (external, native)
    return np.ascontiguousarray(data).view(source).astype(target).view(np.uint8)
