"""Neighbourhood alltoall(v, w): each rank gives each destination a block of its own, and gets one from each source."""

from __future__ import annotations

from . import neighbourhood
from .blocks import AnyBlocks
from .entry_points import entry_points

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .protocols import Data


def _block(send: AnyBlocks, index: int) -> Data:
    return send.range(index, index + 1)


PRIMITIVE, steps = neighbourhood.primitive("neighbour_alltoall", _block)
run, start = entry_points(steps)
