"""Reduce: the root gets all ranks' vectors combined element by element, in the order of the ranks."""

from __future__ import annotations

from . import blocks, buckets, moves, primitive, trees
from .accumulator import Accumulator, begin
from .blocks import Blocks
from .entry_points import entry_points
from .primitive import Primitive
from .trees import Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .exchange import Exchange
    from .protocols import Combine, Steps, View

PRIMITIVE = Primitive("reduce")


def steps(
    exchange: Exchange,
    send: View | None,
    receive: View | None,
    combine: Combine,
    root: int,
    algorithm: str | None = None,
) -> Steps:
    """The steps that combine all ranks' `send` in the root's `receive`. None at the root: it sends its `receive`."""
    data = receive if send is None else send
    assert data is not None
    function = PRIMITIVE.choose(exchange, len(data), algorithm, combine)
    return function(exchange, send, receive if exchange.rank == root else None, combine, root)  # type: ignore[no-any-return]


run, start = entry_points(steps)


def climb(exchange: Exchange, partial: Accumulator, tree: Tree) -> Steps:
    """Take the partial results of those below, each next to one's own; give the one above the result."""
    for child in reversed(tree.children):
        yield [exchange.receive(partial.room(), child.rank)]
        if child.rank < exchange.rank:
            partial.take_lower()
        else:
            partial.take_higher()
    if tree.parent >= 0:
        yield [exchange.send(partial.value, tree.parent)]


def along(
    exchange: Exchange, send: View | None, receive: View | None, combine: Combine, root: int, tree: Tree
) -> Steps:
    """Along a tree whose subtrees are runs of ranks, or of any ranks where the operation commutes."""
    partial = begin(exchange, send, receive, combine)
    yield from climb(exchange, partial, tree)
    if exchange.rank == root:
        assert receive is not None
        partial.store(receive)


@PRIMITIVE.algorithm()
def minimum_spanning_tree(
    exchange: Exchange, send: View | None, receive: View | None, combine: Combine, root: int
) -> Steps:
    """Along a minimum spanning tree (F-MPJ, short messages)."""
    tree = trees.minimum_spanning(exchange.rank, exchange.size, root)
    return along(exchange, send, receive, combine, root, tree)


@PRIMITIVE.algorithm()
def bucket_gather(exchange: Exchange, send: View | None, receive: View | None, combine: Combine, root: int) -> Steps:
    """Reduce_scatter by buckets, then gather along a minimum spanning tree (F-MPJ, long messages)."""
    data = receive if send is None else send
    assert data is not None
    parts = Blocks(data, blocks.cut(len(data), combine.itemsize, exchange.size))
    tree = trees.minimum_spanning(exchange.rank, exchange.size, root)
    if exchange.rank == root:
        assert receive is not None
        found = Blocks(receive, parts.bounds)
    else:
        found = parts.fresh(exchange, tree.first, tree.end)
    yield from buckets.reduce(exchange, parts, found[exchange.rank], combine)
    yield from moves.gather(exchange, found, tree)


@PRIMITIVE.algorithm()
def binomial_tree(exchange: Exchange, send: View | None, receive: View | None, combine: Combine, root: int) -> Steps:
    """Along a binomial tree (MPJ/Ibis). Its order is that of the ranks only where rank 0 is the root: for operations
    that do not commute rank 0 computes, and sends the result to the root."""
    first = root if combine.commutative else 0
    tree = trees.binomial_reversed(exchange.rank, exchange.size, first)
    if first == root:
        yield from along(exchange, send, receive, combine, root, tree)
        return
    if exchange.rank == root:
        assert receive is not None
        # the result comes last, so an accumulator in the receive buffer is free again by then
        yield from climb(exchange, begin(exchange, send, receive, combine), tree)
        yield [exchange.receive(receive, 0)]
        return
    partial = begin(exchange, send, None, combine)
    yield from climb(exchange, partial, tree)
    if exchange.rank == 0:
        yield [exchange.send(partial.value, root)]


@PRIMITIVE.algorithm()
def flat_tree_blocking(
    exchange: Exchange, send: View | None, receive: View | None, combine: Combine, root: int
) -> Steps:
    """The root takes from one after the other (MPJ Express; MPJ/Ibis for operations that do not commute)."""
    if exchange.rank != root:
        assert send is not None
        yield [exchange.send(send, root)]
        return
    assert receive is not None
    partial = begin(exchange, send, receive, combine)
    for at in range(root - 1, -1, -1):
        yield [exchange.receive(partial.room(), at)]
        partial.take_lower()
    for at in range(root + 1, exchange.size):
        yield [exchange.receive(partial.room(), at)]
        partial.take_higher()
    partial.store(receive)


@PRIMITIVE.algorithm(primitive.team)
def shared_memory(exchange: Exchange, send: View | None, receive: View | None, combine: Combine, root: int) -> Steps:
    """Through the memory that all ranks share."""
    exchange.team.reduce(send, receive, *combine.kernel, root)
    return ()


@PRIMITIVE.algorithm(primitive.hierarchy)
def two_level(exchange: Exchange, send: View | None, receive: View | None, combine: Combine, root: int) -> Steps:
    """Inside each host to one rank, from these to the root."""
    hierarchy = exchange.hierarchy
    assert hierarchy is not None
    leaders = hierarchy.leaders(root)
    leader = leaders[hierarchy.mine]
    data = receive if send is None else send
    assert data is not None
    mine = None if exchange.rank != leader else receive if exchange.rank == root else exchange.scratch(len(data))
    yield from steps(exchange.on_host(), send, mine, combine, hierarchy.local.index(leader))
    if exchange.rank == root:
        yield from steps(exchange.among(leaders), None, mine, combine, hierarchy.home[root])
    elif exchange.rank == leader:
        yield from steps(exchange.among(leaders), mine, None, combine, hierarchy.home[root])
