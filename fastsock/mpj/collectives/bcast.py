"""Broadcast: all ranks get the root's data."""

from __future__ import annotations

from . import allgather, blocks, moves, primitive, trees
from .blocks import Blocks
from .entry_points import entry_points
from .primitive import Primitive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .exchange import Exchange
    from .protocols import Data, Steps, View

PRIMITIVE = Primitive("bcast")


def steps(exchange: Exchange, data: View, root: int, algorithm: str | None = None) -> Steps:
    """The steps that bring the root's `data` into the others' `data`."""
    function = PRIMITIVE.choose(exchange, len(data), algorithm)
    return function(exchange, data, root)  # type: ignore[no-any-return]


run, start = entry_points(steps)


@PRIMITIVE.algorithm()
def minimum_spanning_tree(exchange: Exchange, data: Data, root: int) -> Steps:
    """Along a minimum spanning tree (F-MPJ, short messages)."""
    return moves.spread(exchange, data, trees.minimum_spanning(exchange.rank, exchange.size, root))


@PRIMITIVE.algorithm()
def scatter_bucket(exchange: Exchange, data: View, root: int) -> Steps:
    """Scatter along a minimum spanning tree, then allgather by buckets (F-MPJ, long messages)."""
    parts = Blocks(data, blocks.cut(len(data), 1, exchange.size))
    tree = trees.minimum_spanning(exchange.rank, exchange.size, root)
    yield from moves.scatter(exchange, parts, tree)
    yield from allgather.bucket(exchange, None, parts)


@PRIMITIVE.algorithm()
def four_ary_tree(exchange: Exchange, data: Data, root: int) -> Steps:
    """Along a four-ary tree, with blocking sends (MPJ Express)."""
    return moves.spread_blocking(exchange, data, trees.four_ary(exchange.rank, exchange.size, root))


@PRIMITIVE.algorithm()
def binomial_tree(exchange: Exchange, data: Data, root: int) -> Steps:
    """Along a binomial tree, with blocking sends (MPJ/Ibis)."""
    return moves.spread_blocking(exchange, data, trees.binomial(exchange.rank, exchange.size, root))


@PRIMITIVE.algorithm()
def flat_tree(exchange: Exchange, data: Data, root: int) -> Steps:
    """From the root to all at the same time (figure 5.2, non-blocking)."""
    return moves.spread(exchange, data, trees.flat(exchange.rank, exchange.size, root))


@PRIMITIVE.algorithm()
def flat_tree_blocking(exchange: Exchange, data: Data, root: int) -> Steps:
    """From the root to one after the other (figure 5.2, blocking)."""
    return moves.spread_blocking(exchange, data, trees.flat(exchange.rank, exchange.size, root))


SPREADS = {
    minimum_spanning_tree: (trees.minimum_spanning, True),
    four_ary_tree: (trees.four_ary, False),
    binomial_tree: (trees.binomial, False),
    flat_tree: (trees.flat, True),
    flat_tree_blocking: (trees.flat, False),
}
"""Along which tree an algorithm goes, and whether a rank sends to all below it at the same time."""


@PRIMITIVE.algorithm(primitive.team)
def shared_memory(exchange: Exchange, data: View, root: int) -> Steps:
    """Through the memory that all ranks share."""
    exchange.team.bcast(data, root)
    return ()


@PRIMITIVE.algorithm(primitive.hierarchy)
def two_level(exchange: Exchange, data: View, root: int) -> Steps:
    """From the root to one rank of each other host, then inside each host."""
    hierarchy = exchange.hierarchy
    assert hierarchy is not None
    leaders = hierarchy.leaders(root)
    leader = leaders[hierarchy.mine]
    if exchange.rank == leader:
        yield from steps(exchange.among(leaders), data, hierarchy.home[root])
    host = exchange.on_host()
    yield from steps(host, data, hierarchy.local.index(leader))
