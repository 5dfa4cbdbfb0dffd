"""Alltoall of blocks of any sizes and types: their packed bytes move as in alltoallv, under settings of its own."""

from __future__ import annotations

from . import alltoall, alltoallv, primitive
from .blocks import AnyBlocks
from .forms import forms
from .primitive import Primitive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .exchange import Exchange
    from .protocols import Steps

PRIMITIVE = Primitive("alltoallw")


def steps(exchange: Exchange, send: AnyBlocks | None, receive: AnyBlocks, algorithm: str | None = None) -> Steps:
    """The steps that bring block j of the `send` of rank i into block i of the `receive` of rank j; None: what is in
    `receive` is sent."""
    function = PRIMITIVE.choose(exchange, 0, algorithm)
    outgoing = alltoall.kept(exchange, receive) if send is None else send
    return function(exchange, outgoing, receive)  # type: ignore[no-any-return]


run, start = forms(steps)

PRIMITIVE.offer("flat_tree", alltoall.flat_tree)
PRIMITIVE.offer("pairwise_exchange", alltoall.pairwise_exchange)
PRIMITIVE.offer("shared_memory", alltoallv.shared_memory, primitive.team)
PRIMITIVE.offer("two_level", alltoallv.two_level, primitive.levels)
