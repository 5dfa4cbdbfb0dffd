"""Scatter: each rank gets its block of the root's data."""

from __future__ import annotations

from . import blocks, moves, primitive, shared, trees
from .blocks import AnyBlocks
from .entry_points import entry_points
from .primitive import Primitive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .exchange import Exchange
    from .protocols import Steps, View

PRIMITIVE = Primitive("scatter")


def steps(
    exchange: Exchange, send: AnyBlocks | None, receive: View | None, root: int, algorithm: str | None = None
) -> Steps:
    """The steps that bring block i of the root's `send` into the `receive` of rank i; the root's may be None, when
    its block stays where it is. All blocks have one size."""
    nbytes = len(receive) if receive is not None else send.nbytes(root, root + 1) if send is not None else 0
    return PRIMITIVE.choose(exchange, nbytes, algorithm)(exchange, send, receive, root)  # type: ignore[no-any-return]


run, start = entry_points(steps)


def keep(send: AnyBlocks, receive: View | None, root: int) -> None:
    """The root's own block."""
    if receive is not None:
        receive[:] = send[root]


@PRIMITIVE.algorithm()
def minimum_spanning_tree(exchange: Exchange, send: AnyBlocks | None, receive: View | None, root: int) -> Steps:
    """Along a minimum spanning tree (F-MPJ, short messages)."""
    tree = trees.minimum_spanning(exchange.rank, exchange.size, root)
    if send is not None and exchange.rank == root:
        data = send
    else:
        assert receive is not None
        if tree.end - tree.first == 1:
            yield [exchange.receive(receive, tree.parent)]
            return
        everyone = blocks.sized(len(receive), exchange.size)
        data = everyone.fresh(exchange, tree.first, tree.end)
    yield from moves.scatter(exchange, data, tree)
    keep(data, receive, exchange.rank)


@PRIMITIVE.algorithm()
def flat_tree(exchange: Exchange, send: AnyBlocks | None, receive: View | None, root: int) -> Steps:
    """From the root to all at the same time (F-MPJ for long messages, MPJ Express)."""
    if exchange.rank != root:
        yield [exchange.receive(_room(receive), root)]
        return
    assert send is not None
    requests = [exchange.send(send.range(to, to + 1), to) for to in range(exchange.size) if to != root]
    keep(send, receive, root)
    yield requests


@PRIMITIVE.algorithm()
def flat_tree_blocking(exchange: Exchange, send: AnyBlocks | None, receive: View | None, root: int) -> Steps:
    """From the root to one after the other (MPJ/Ibis)."""
    if exchange.rank != root:
        yield [exchange.receive(_room(receive), root)]
        return
    assert send is not None
    for to in range(exchange.size):
        if to != root:
            yield [exchange.send(send.range(to, to + 1), to)]
    keep(send, receive, root)


def through_memory(exchange: Exchange, send: AnyBlocks | None, receive: View | None, root: int) -> Steps:
    """Any blocks, through the memory that all ranks share."""
    if send is None or exchange.rank != root:
        exchange.team.scatter(None, None, None, receive, root)
    else:
        exchange.team.scatter(*shared.read(exchange, send), receive, root)
    return ()


@PRIMITIVE.algorithm(primitive.team)
def shared_memory(exchange: Exchange, send: AnyBlocks | None, receive: View | None, root: int) -> Steps:
    """Through the memory that all ranks share."""
    return through_memory(exchange, send, receive, root)


@PRIMITIVE.algorithm(primitive.hierarchy)
def two_level(exchange: Exchange, send: AnyBlocks | None, receive: View | None, root: int) -> Steps:
    """From the root to one rank of each host, then inside each host."""
    hierarchy = exchange.hierarchy
    assert hierarchy is not None
    leaders = hierarchy.leaders(root)
    leader = leaders[hierarchy.mine]
    local: AnyBlocks | None = None
    if exchange.rank == leader:
        if exchange.rank == root:
            assert send is not None
            local = blocks.chosen(send, hierarchy.local)
            yield from flat_tree(exchange.among(leaders), blocks.grouped(send, hierarchy.groups), None, hierarchy.mine)
        else:
            assert receive is not None
            data = exchange.scratch(len(receive) * len(hierarchy.local))
            local = blocks.equal(data, len(hierarchy.local))
            yield [exchange.receive(data, root)]
    yield from steps(exchange.on_host(), local, receive, hierarchy.local.index(leader))


def _room(receive: View | None) -> View:
    assert receive is not None
    return receive
