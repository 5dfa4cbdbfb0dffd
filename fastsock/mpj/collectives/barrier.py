"""Barrier: no rank leaves before all have come."""

from __future__ import annotations

from . import primitive, trees
from .entry_points import entry_points
from .primitive import Primitive
from .trees import Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .exchange import Exchange
    from .protocols import Steps

PRIMITIVE = Primitive("barrier")
NOTHING = memoryview(bytearray())


def steps(exchange: Exchange, algorithm: str | None = None) -> Steps:
    """The steps of a barrier."""
    return PRIMITIVE.choose(exchange, 0, algorithm)(exchange)  # type: ignore[no-any-return]


run, start = entry_points(steps)


def gathered(exchange: Exchange, tree: Tree) -> Steps:
    """Hear of all ranks below, then tell the one above."""
    if tree.children:
        yield [exchange.receive(NOTHING, child.rank) for child in tree.children]
    if tree.parent >= 0:
        yield [exchange.send(NOTHING, tree.parent)]


def released(exchange: Exchange, tree: Tree) -> Steps:
    """Hear from above, then tell all ranks below."""
    if tree.parent >= 0:
        yield [exchange.receive(NOTHING, tree.parent)]
    if tree.children:
        yield [exchange.send(NOTHING, child.rank) for child in tree.children]


@PRIMITIVE.algorithm()
def minimum_spanning_tree(exchange: Exchange) -> Steps:
    """Gather, then release, along a minimum spanning tree (F-MPJ)."""
    tree = trees.minimum_spanning(exchange.rank, exchange.size, 0)
    yield from gathered(exchange, tree)
    yield from released(exchange, tree)


@PRIMITIVE.algorithm()
def flat_gather_four_ary_release(exchange: Exchange) -> Steps:
    """Gather at one rank without blocking, release along a four-ary tree with blocking sends (MPJ Express)."""
    yield from gathered(exchange, trees.flat(exchange.rank, exchange.size, 0))
    tree = trees.four_ary(exchange.rank, exchange.size, 0)
    if tree.parent >= 0:
        yield [exchange.receive(NOTHING, tree.parent)]
    for child in tree.children:
        yield [exchange.send(NOTHING, child.rank)]


@PRIMITIVE.algorithm()
def flat_tree_blocking(exchange: Exchange) -> Steps:
    """One rank hears of all others and tells them, one by one (MPJ/Ibis)."""
    tree = trees.flat(exchange.rank, exchange.size, 0)
    if tree.parent >= 0:
        yield [exchange.send(NOTHING, 0)]
        yield [exchange.receive(NOTHING, 0)]
    for child in tree.children:
        yield [exchange.receive(NOTHING, child.rank)]
    for child in tree.children:
        yield [exchange.send(NOTHING, child.rank)]


@PRIMITIVE.algorithm()
def dissemination(exchange: Exchange) -> Steps:
    """In round i tell the rank 2^i above, hear of that 2^i below: the fewest rounds for any number of ranks."""
    rank, size, distance = exchange.rank, exchange.size, 1
    while distance < size:
        yield [
            exchange.receive(NOTHING, (rank - distance) % size),
            exchange.send(NOTHING, (rank + distance) % size),
        ]
        distance *= 2


@PRIMITIVE.algorithm(primitive.team)
def shared_memory(exchange: Exchange) -> Steps:
    """Through the memory that all ranks share."""
    exchange.team.barrier()
    return ()


@PRIMITIVE.algorithm(primitive.hierarchy)
def two_level(exchange: Exchange) -> Steps:
    """Inside each host, between the hosts' leaders, inside each host again."""
    assert exchange.hierarchy is not None
    host = exchange.on_host()
    tree = trees.minimum_spanning(host.rank, host.size, 0)
    if host.team is None:
        yield from gathered(host, tree)
    else:
        host.team.barrier()
    if host.rank == 0:
        yield from dissemination(exchange.among(exchange.hierarchy.leaders()))
    if host.team is None:
        yield from released(host, tree)
    else:
        host.team.barrier()
