"""What a datatype is made of, for whoever asks: elements, the portable representation, the list of its runs.

`_memory` makes type maps and copies what they describe, and needs none of this.
"""

from __future__ import annotations

from ..constants import (
    COMBINER_CONTIGUOUS,
    COMBINER_DARRAY,
    COMBINER_HINDEXED,
    COMBINER_HINDEXED_BLOCK,
    COMBINER_HVECTOR,
    COMBINER_INDEXED,
    COMBINER_INDEXED_BLOCK,
    COMBINER_STRUCT,
    COMBINER_SUBARRAY,
    COMBINER_VECTOR,
)
from ._memory import Contents, Part, TypeRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    Runs = NDArray[np.int64]


def parts_of(record: TypeRecord) -> list[Part]:
    """Returns what a type is made of, in the order of its data."""
    return [part for part in _parts(record.combiner, record.contents) if part.total()]


def _parts(combiner: int, contents: Contents | None) -> list[Part]:
    if contents is None:
        return []
    types, counts = contents.types, contents.counts
    if combiner == COMBINER_STRUCT:
        n = counts[0]
        blocks = zip(types, ((place,) for place in counts[n + 1 :]), counts[1 : n + 1], strict=True)
        return [Part(*block) for block in blocks]
    (old,) = types
    if combiner == COMBINER_CONTIGUOUS:
        return [Part(old, (0,), counts[0])]
    if combiner in (COMBINER_VECTOR, COMBINER_HVECTOR):
        count, length, stride = counts
        return [Part(old, _places(count, stride * (old.extent if combiner == COMBINER_VECTOR else 1)), length)]
    if combiner in (COMBINER_INDEXED, COMBINER_HINDEXED):
        n, unit = counts[0], old.extent if combiner == COMBINER_INDEXED else 1
        return [Part(old, [place * unit for place in counts[n + 1 :]], counts[1 : n + 1])]
    if combiner in (COMBINER_INDEXED_BLOCK, COMBINER_HINDEXED_BLOCK):
        unit = old.extent if combiner == COMBINER_INDEXED_BLOCK else 1
        return [Part(old, [place * unit for place in counts[2:]], counts[1])]
    if combiner in (COMBINER_SUBARRAY, COMBINER_DARRAY):
        from .array_types import blocks_of

        return [Part(old, *blocks_of(combiner, contents))]
    return [Part(old, (0,), 1)]


def _places(count: int, stride: int) -> Sequence[int]:
    return range(0, count * stride, stride) if stride else [0] * count


def runs_of(record: TypeRecord) -> Runs:
    """Returns (offset, length) of each contiguous piece of an item, in the order of its data; neighbours are joined."""
    from .flattening import runs

    return runs(record)
