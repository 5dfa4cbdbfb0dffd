"""Parts of multidimensional arrays as type maps: subarrays, and a process's share of a distributed array."""

from __future__ import annotations

import numpy as np

from ..constants import (
    DISTRIBUTE_BLOCK,
    DISTRIBUTE_CYCLIC,
    DISTRIBUTE_DFLT_DARG,
    DISTRIBUTE_NONE,
    ERR_ARG,
    ORDER_C,
    ORDER_FORTRAN,
)
from ..exceptions import Exception
from .typemap import Part, TypeRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Indices = NDArray[np.int64]


def subarray(
    type_: TypeRecord, sizes: Sequence[int], subsizes: Sequence[int], starts: Sequence[int], order: int
) -> tuple[Part, int]:
    """Returns the part of an array that begins at `starts`, and the extent of the whole array."""
    for size, subsize, start in zip(sizes, subsizes, starts, strict=True):
        if size < 1 or not 0 < subsize <= size or not 0 <= start <= size - subsize:
            raise Exception(ERR_ARG, f"{subsize} elements from {start} are no part of {size}")
    chosen = [
        np.arange(start, start + subsize, dtype=np.int64) for start, subsize in zip(starts, subsizes, strict=True)
    ]
    return _grid(type_, sizes, chosen, order)


def distributed(
    type_: TypeRecord,
    processes: int,
    rank: int,
    sizes: Sequence[int],
    distributions: Sequence[int],
    arguments: Sequence[int],
    grid: Sequence[int],
    order: int,
) -> tuple[Part, int]:
    """Returns the share of process `rank`, and the extent of the whole array."""
    if int(np.prod(grid, dtype=np.int64)) != processes or not 0 <= rank < processes:
        raise Exception(ERR_ARG, f"rank {rank} of {processes} processes is not on the grid {list(grid)}")
    # processes are numbered in C's order whatever the order of the array is
    place = [int(coordinate) for coordinate in np.unravel_index(rank, tuple(grid))]
    chosen = [
        _share(size, how, argument, processes_here, coordinate)
        for size, how, argument, processes_here, coordinate in zip(
            sizes, distributions, arguments, grid, place, strict=True
        )
    ]
    return _grid(type_, sizes, chosen, order)


def _share(size: int, how: int, argument: int, processes: int, place: int) -> Indices:
    """The indices of one dimension that the process at `place` has."""
    if how == DISTRIBUTE_NONE:
        if processes != 1:
            raise Exception(ERR_ARG, "a dimension that is not distributed has one process")
        return np.arange(size, dtype=np.int64)
    if how == DISTRIBUTE_BLOCK:
        block = -(-size // processes) if argument == DISTRIBUTE_DFLT_DARG else argument
        if block <= 0 or block * processes < size:
            raise Exception(ERR_ARG, f"{processes} blocks of {block} do not hold {size} elements")
        return np.arange(place * block, min((place + 1) * block, size), dtype=np.int64)
    if how == DISTRIBUTE_CYCLIC:
        block = 1 if argument == DISTRIBUTE_DFLT_DARG else argument
        if block <= 0:
            raise Exception(ERR_ARG, f"a block of {block} elements: it has at least 1")
        indices = np.arange(size, dtype=np.int64)
        mine: Indices = indices[indices // block % processes == place]
        return mine
    raise Exception(ERR_ARG, f"{how} is not a kind of distribution")


def _grid(type_: TypeRecord, sizes: Sequence[int], chosen: Sequence[Indices], order: int) -> tuple[Part, int]:
    """The elements whose index is chosen in every dimension; rows of neighbours become blocks."""
    if order == ORDER_FORTRAN:
        sizes, chosen = sizes[::-1], chosen[::-1]
    elif order != ORDER_C:
        raise Exception(ERR_ARG, f"{order} is not an order of arrays")
    extent = type_.extent * int(np.prod(sizes, dtype=object)) if sizes else type_.extent
    places = np.zeros(1, np.int64)
    lengths: Indices | int = 1
    stride = type_.extent
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
    return Part(type_, starts, lengths if isinstance(lengths, int) else lengths.tolist()), extent
