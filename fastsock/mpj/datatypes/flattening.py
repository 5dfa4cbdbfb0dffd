"""Type maps as lists of contiguous pieces; numpy, so that types of millions of pieces are no matter."""

from __future__ import annotations

import numpy as np

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    Runs = NDArray[np.int64]


def runs(record: Any) -> Runs:
    """(offset, length) of each contiguous piece of an item of a type's record, in the order of its data; neighbours are
    joined."""
    if not record.parts:
        found = np.array([[0, record.size]], np.int64)
        return found[found[:, 1] > 0]
    pieces = [_pieces(part) for part in record.parts if part.type.size]
    return _joined(np.concatenate(pieces) if pieces else np.empty((0, 2), np.int64))


def _pieces(part: Any) -> Runs:
    """The pieces of a part, before neighbours are joined across its blocks."""
    type_ = part.type
    places = np.array(part.displacements, np.int64)
    if type_.dense:
        pieces = np.empty((len(places), 2), np.int64)
        pieces[:, 0] = places
        pieces[:, 1] = part.lengths
        pieces[:, 1] *= type_.size
        return pieces[pieces[:, 1] > 0]
    lengths = np.array(part.lengths, np.int64)
    items = np.broadcast_to(lengths, places.shape)
    origins = np.repeat(places, items)
    # the number of each item in its block
    numbers = np.arange(len(origins)) - np.repeat(np.cumsum(items) - items, items)
    return _repeated(type_.runs, origins + numbers * type_.extent)


def _repeated(pieces: Runs, origins: NDArray[np.int64]) -> Runs:
    found = np.empty((len(origins), len(pieces), 2), np.int64)
    found[:, :, 0] = origins[:, None] + pieces[:, 0]
    found[:, :, 1] = pieces[:, 1]
    return found.reshape(-1, 2)


def _joined(pieces: Runs) -> Runs:
    if len(pieces) < 2:
        return pieces
    starts = np.empty(len(pieces), bool)
    starts[0] = True
    np.not_equal(pieces[1:, 0], pieces[:-1, 0] + pieces[:-1, 1], out=starts[1:])
    if starts.all():
        return pieces
    first = np.flatnonzero(starts)
    joined = np.empty((len(first), 2), np.int64)
    joined[:, 0] = pieces[first, 0]
    joined[:, 1] = np.add.reduceat(pieces[:, 1], first)
    return joined
