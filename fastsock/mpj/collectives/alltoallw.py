"""Alltoall of blocks of any sizes and types: their packed bytes move as in alltoallv, under settings of its own."""

from __future__ import annotations

from . import alltoall, alltoallv, primitive
from .entry_points import entry_points
from .primitive import Primitive

PRIMITIVE = Primitive("alltoallw")

steps = alltoallv.steps_from(PRIMITIVE)
run, start = entry_points(steps)

PRIMITIVE.offer("flat_tree", alltoall.flat_tree)
PRIMITIVE.offer("pairwise_exchange", alltoall.pairwise_exchange)
PRIMITIVE.offer("shared_memory", alltoall.shared_memory, primitive.team)
PRIMITIVE.offer("two_level", alltoallv.two_level, primitive.hierarchy)
