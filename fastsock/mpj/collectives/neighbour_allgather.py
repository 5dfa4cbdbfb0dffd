"""Neighbourhood allgather(v): each rank gives one block to all its destinations, and gets one from each source."""

from __future__ import annotations

from . import neighbourhood
from .entry_points import entry_points

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .protocols import View


def _block(send: View, index: int) -> View:
    return send


PRIMITIVE, steps = neighbourhood.primitive("neighbour_allgather", _block)
run, start = entry_points(steps)
