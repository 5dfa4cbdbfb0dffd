"""The blocks of parts of multidimensional arrays: of subarrays, and of a process's share of a distributed array."""

from __future__ import annotations

import numpy as np

from ..constants import (
    COMBINER_DARRAY,
    DISTRIBUTE_BLOCK,
    DISTRIBUTE_DFLT_DARG,
    DISTRIBUTE_NONE,
    ORDER_FORTRAN,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

    Indices = NDArray[np.int64]
    Blocks = tuple[Sequence[int], Sequence[int] | int]


def blocks_of(combiner: int, contents: Any) -> Blocks:
    """Returns the displacements and lengths of the blocks of a type that is a part of an array."""
    (old,), integers, counts = contents.types, contents.integers, contents.counts
    if combiner == COMBINER_DARRAY:
        _, rank, n = integers[:3]
        how, arguments, grid = (integers[3 + i * n : 3 + (i + 1) * n] for i in range(3))
        # processes are numbered in C's order whatever the order of the array is
        place = np.unravel_index(rank, tuple(grid)) if n else ()
        chosen = [_share(*dimension) for dimension in zip(counts, how, arguments, grid, map(int, place), strict=True)]
        return _grid(old.extent, counts, chosen, integers[-1])
    n = integers[0]
    sizes, subsizes, starts = (counts[i * n : (i + 1) * n] for i in range(3))
    chosen = [
        np.arange(start, start + subsize, dtype=np.int64) for start, subsize in zip(starts, subsizes, strict=True)
    ]
    return _grid(old.extent, sizes, chosen, integers[1])


def _share(size: int, how: int, argument: int, processes: int, place: int) -> Indices:
    """The indices of one dimension that the process at `place` has."""
    indices = np.arange(size, dtype=np.int64)
    if how == DISTRIBUTE_NONE:
        return indices
    if how == DISTRIBUTE_BLOCK:
        block = -(-size // processes) if argument == DISTRIBUTE_DFLT_DARG else argument
        return indices[place * block : (place + 1) * block]
    block = 1 if argument == DISTRIBUTE_DFLT_DARG else argument
    mine: Indices = indices[indices // block % processes == place]
    return mine


def _grid(extent: int, sizes: Sequence[int], chosen: Sequence[Indices], order: int) -> Blocks:
    """The elements whose index is chosen in every dimension; rows of neighbours become blocks."""
    if order == ORDER_FORTRAN:
        sizes, chosen = sizes[::-1], chosen[::-1]
    places = np.zeros(1, np.int64)
    lengths: Indices | int = 1
    stride = extent
    strides = []
    for size in reversed(sizes):
        strides.append(stride)
        stride *= size
    strides.reverse()
    for dimension, indices in enumerate(chosen):
        if dimension == len(chosen) - 1 and len(indices):
            first = np.flatnonzero(np.diff(indices, prepend=indices[0] - 2) != 1)
            row = np.diff(first, append=len(indices))
            lengths = np.tile(row, len(places))
            indices = indices[first]
        places = (places[:, None] + indices * strides[dimension]).ravel()
    if not isinstance(lengths, int) and len(lengths) and (lengths == lengths[0]).all():
        lengths = int(lengths[0])
    even = np.diff(places)
    starts: Sequence[int] = places.tolist()
    if len(even) and even[0] and (even == even[0]).all():
        starts = range(starts[0], starts[-1] + int(even[0]), int(even[0]))
    return starts, lengths if isinstance(lengths, int) else lengths.tolist()
