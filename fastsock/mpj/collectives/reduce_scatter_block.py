"""Reduce_scatter with blocks of one size, under settings of its own."""

from __future__ import annotations

from . import primitive, reduce_scatter
from .blocks import Blocks
from .entry_points import entry_points
from .primitive import Primitive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .exchange import Exchange
    from .protocols import Combine, Steps, View

PRIMITIVE = Primitive("reduce_scatter_block")


def steps(exchange: Exchange, send: Blocks, receive: View, combine: Combine, algorithm: str | None = None) -> Steps:
    """The steps that combine block i of all ranks' `send` in the `receive` of rank i. The two may overlap."""
    function = PRIMITIVE.choose(exchange, send.nbytes(0, exchange.size), algorithm, combine)
    return function(exchange, send, receive, combine)  # type: ignore[no-any-return]


run, start = entry_points(steps)

PRIMITIVE.offer("reduce_scatterv", reduce_scatter.reduce_scatterv)
PRIMITIVE.offer("bucket", reduce_scatter.bucket)
PRIMITIVE.offer("bidirectional_exchange", reduce_scatter.bidirectional_exchange)
PRIMITIVE.offer("flat_reduce_scatterv", reduce_scatter.flat_reduce_scatterv)
PRIMITIVE.offer("binomial_reduce_scatterv", reduce_scatter.binomial_reduce_scatterv)
PRIMITIVE.offer("shared_memory", reduce_scatter.shared_memory, primitive.team)
PRIMITIVE.offer("two_level", reduce_scatter.two_level, primitive.hierarchy)
