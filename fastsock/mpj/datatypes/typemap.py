"""Type maps: where the data of a datatype lie, and how they are gathered into contiguous bytes and scattered back."""

from __future__ import annotations

from ..constants import COMBINER_NAMED
from ..handle import Record
from . import _memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray

    Runs = NDArray[np.int64]


class Contents:
    """The arguments that a derived type was made with."""

    __slots__ = ("counts", "integers", "types")

    def __init__(self, integers: Sequence[int], counts: Sequence[int], types: Sequence[TypeRecord]) -> None:
        self.integers = list(integers)
        self.counts = list(counts)
        self.types = list(types)


class Part:
    """Copies of one type: at each displacement (in bytes) `lengths` of them (or `lengths[i]`), one extent apart."""

    __slots__ = ("displacements", "lengths", "type")

    def __init__(self, type_: TypeRecord, displacements: Sequence[int], lengths: Sequence[int] | int) -> None:
        self.type = type_
        self.displacements = displacements
        self.lengths = lengths

    def blocks(self) -> Iterable[tuple[int, int]]:
        """(displacement, number of items) of each block that has any."""
        if isinstance(self.lengths, int):
            return [(place, self.lengths) for place in self.displacements] if self.lengths > 0 else ()
        return [(place, length) for place, length in zip(self.displacements, self.lengths, strict=True) if length > 0]

    def total(self) -> int:
        """The number of items."""
        if isinstance(self.lengths, int):
            return self.lengths * len(self.displacements)
        return sum(self.lengths)

    def ends(self) -> tuple[int, int] | None:
        """The lowest and highest displacement of an item; None without items."""
        step = self.type.extent
        if isinstance(self.lengths, int):
            if self.lengths <= 0 or not len(self.displacements):
                return None
            more = (self.lengths - 1) * step
            places = self.displacements
            if isinstance(places, range):
                places = (places[0], places[-1])
            return min(places) + min(more, 0), max(places) + max(more, 0)
        blocks = self.blocks()
        if not blocks:
            return None
        low = min(place + min((length - 1) * step, 0) for place, length in blocks)
        return low, max(place + max((length - 1) * step, 0) for place, length in blocks)


class TypeRecord(_memory.TypeMap):
    """What a datatype's handles refer to, as `Record` is; never changes once made, but for its name and attributes."""

    __slots__ = (
        "__weakref__",
        "_number",
        "_runs",
        "alignment",
        "attributes",
        "basic",
        "code",
        "combiner",
        "constant",
        "constant_name",
        "contents",
        "elements",
        "explicit",
        "kind",
        "known",
        "name",
        "parts",
        "predefined",
        "wire",
    )

    alignment: int
    explicit: bool
    """Its bounds were set (resized), or those of a part of it; then they are not padded."""
    combiner: int
    contents: Contents | None
    parts: Sequence[Part]
    elements: int
    """The number of basic elements."""
    basic: TypeRecord | None
    """The only basic type in it, where there is one."""
    kind: str
    """Of a basic type: "i", "u", "f", "c", "b" (logical), "S" (character), "V" (bytes); else empty."""
    code: str
    wire: int
    """Of a basic type: its size in the external32 representation."""
    name: str
    attributes: dict[int, Any]
    known: dict[Any, Any]
    """Facts that other modules worked out about the type, by names that they choose. They live as long as the type."""
    _runs: Runs | None

    def __init__(self, combiner: int, name: str = "") -> None:
        self._number = -1
        self.constant: Any = None
        self.constant_name = ""
        self.predefined = False
        self.combiner = combiner
        self.name = name
        self.attributes = {}
        self.known = {}
        self.kind = self.code = ""
        self.wire = 0
        self.contents = None
        self.explicit = False
        self._runs = None

    number = Record.number

    @property
    def runs(self) -> Runs:
        """(offset, length) of each contiguous piece of an item, in the order of its data; neighbours are joined."""
        if self._runs is None:
            from .flattening import runs

            self._runs = runs(self)
        return self._runs

    @property
    def true_ub(self) -> int:
        """The end of the data."""
        return self.true_lb + self.true_extent

    def basics(self, origin: int = 0) -> Iterator[tuple[TypeRecord, int]]:
        """Yields (basic type, offset) of each basic element of one item, in the order of the data."""
        if not self.parts:
            if self.size:
                yield self, origin
            return
        for part in self.parts:
            for displacement, length in part.blocks():
                for item in range(length):
                    yield from part.type.basics(origin + displacement + item * part.type.extent)


def basic_type(name: str, kind: str, size: int, code: str, *, alignment: int = 0, wire: int = 0) -> TypeRecord:
    """Returns a named type of one element."""
    record = TypeRecord(COMBINER_NAMED, name)
    record.kind = kind
    record.code = code
    record.size = record.extent = record.true_extent = size
    record.lb = record.true_lb = 0
    record.alignment = alignment or size or 1
    record.parts = ()
    record.elements = 1
    record.basic = record
    record.dense = True
    record.wire = wire or size
    return record


def derived_type(
    combiner: int,
    parts: Sequence[Part],
    contents: Contents | None,
    *,
    bounds: tuple[int, int] | None = None,
    name: str = "",
) -> TypeRecord:
    """Returns the type whose data are those of `parts`, in order; `bounds` are its lower bound and extent, if set."""
    record = TypeRecord(combiner, name)
    record.contents = contents
    record.parts = parts = [part for part in parts if part.total()]
    record.size = sum(part.total() * part.type.size for part in parts)
    record.elements = sum(part.total() * part.type.elements for part in parts)
    record.alignment = max((part.type.alignment for part in parts), default=1)
    first = parts[0].type.basic if parts else None
    record.basic = first if all(part.type.basic is first for part in parts) else None
    record.true_lb, true_ub = _bounds([part for part in parts if part.type.size], true=True)
    record.true_extent = true_ub - record.true_lb
    if bounds is not None:
        record.lb, record.extent = bounds
        record.explicit = True
    else:
        marked = [part for part in parts if part.type.explicit]
        record.explicit = bool(marked)
        record.lb, ub = _bounds(marked or parts, true=False)
        record.extent = ub - record.lb
        if not marked and record.extent > 0:
            record.extent += -record.extent % record.alignment
    filled = record.true_lb == 0 and record.size == record.true_extent == record.extent
    record.dense = filled and (record.size == 0 or _in_order(record))
    return record


def _bounds(parts: Sequence[Part], *, true: bool) -> tuple[int, int]:
    """The lowest and highest address of the parts' items, by their bounds or by where their data truly are."""
    low: list[int] = []
    high: list[int] = []
    for part in parts:
        ends = part.ends()
        if ends is None:
            continue
        type_ = part.type
        lb, extent = (type_.true_lb, type_.true_extent) if true else (type_.lb, type_.extent)
        low.append(ends[0] + lb)
        high.append(ends[1] + lb + extent)
    return (min(low), max(high)) if low else (0, 0)


def _in_order(record: TypeRecord) -> bool:
    """Whether data that fill their span also follow each other; a type that is not known to is not taken for dense."""
    place = 0
    for part in record.parts:
        type_, lengths, places = part.type, part.lengths, part.displacements
        if not type_.size:
            continue
        if not type_.dense:
            return len(record.runs) == 1
        if isinstance(lengths, int) and isinstance(places, range):
            size = lengths * type_.size
            if size and (places[0] != place or (len(places) > 1 and places.step != size)):
                return False
            place += size * len(places)
            continue
        for start, length in part.blocks():
            if start != place:
                return False
            place += length * type_.size
    return True


def pack_into(target: Any, type_: TypeRecord, address: int, *, start: int = 0) -> None:
    """Gathers data of the items at `address` into contiguous `target`: so many bytes as it has, from `start` on.

    The caller answers for the memory at `address`.
    """
    _memory.pack(address, type_.runs, type_.extent, start, target)


def unpack_from(source: Any, type_: TypeRecord, address: int, *, start: int = 0) -> None:
    """Scatters contiguous `source` over the items at `address`; the opposite of `pack_into`."""
    _memory.unpack(source, address, type_.runs, type_.extent, start)


def span(type_: TypeRecord, count: int) -> tuple[int, int]:
    """Returns the lowest and highest offset that the data of `count` items have from the address of the first."""
    if count <= 0 or not type_.size:
        return 0, 0
    more = (count - 1) * type_.extent
    return type_.true_lb + min(more, 0), type_.true_ub + max(more, 0)
