"""Scatter of blocks of any sizes. Only the root knows them all, so the choice goes by the number of ranks alone."""

from __future__ import annotations

from . import blocks, framed, primitive, scatter, trees
from .blocks import AnyBlocks
from .entry_points import entry_points
from .primitive import Primitive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .exchange import Exchange
    from .protocols import Steps, View

PRIMITIVE = Primitive("scatterv")


def steps(
    exchange: Exchange, send: AnyBlocks | None, receive: View | None, root: int, algorithm: str | None = None
) -> Steps:
    """The steps that bring block i of the root's `send` into the `receive` of rank i; the root's may be None, when
    its block stays where it is."""
    return PRIMITIVE.choose(exchange, 0, algorithm)(exchange, send, receive, root)  # type: ignore[no-any-return]


run, start = entry_points(steps)


@PRIMITIVE.algorithm()
def minimum_spanning_tree(exchange: Exchange, send: AnyBlocks | None, receive: View | None, root: int) -> Steps:
    """Along a minimum spanning tree (F-MPJ, short messages). Blocks to be passed on tell their sizes."""
    tree = trees.minimum_spanning(exchange.rank, exchange.size, root)
    if send is not None and exchange.rank == root:
        data = send
    elif not tree.children:
        assert receive is not None
        yield [exchange.receive(receive, tree.parent)]
        return
    else:
        request = exchange.receive_new(tree.parent)
        yield [request]
        data = framed.opened(request.payload, tree.first, tree.end)
    yield [
        exchange.send(
            data.range(child.first, child.end)
            if child.end - child.first == 1
            else framed.message(data, child.first, child.end),
            child.rank,
        )
        for child in tree.children
    ]
    if receive is not None:
        receive[: data.nbytes(exchange.rank, exchange.rank + 1)] = data[exchange.rank]


PRIMITIVE.offer("flat_tree", scatter.flat_tree)
PRIMITIVE.offer("flat_tree_blocking", scatter.flat_tree_blocking)


@PRIMITIVE.algorithm(primitive.team)
def shared_memory(exchange: Exchange, send: AnyBlocks | None, receive: View | None, root: int) -> Steps:
    """Through the memory that all ranks share."""
    return scatter.through_memory(exchange, send, receive, root)


@PRIMITIVE.algorithm(primitive.hierarchy)
def two_level(exchange: Exchange, send: AnyBlocks | None, receive: View | None, root: int) -> Steps:
    """From the root to one rank of each host, with the sizes, then inside each host."""
    hierarchy = exchange.hierarchy
    assert hierarchy is not None
    leaders = hierarchy.leaders(root)
    leader = leaders[hierarchy.mine]
    local: AnyBlocks | None = None
    if exchange.rank == root:
        assert send is not None
        yield [
            exchange.send(framed.message(blocks.chosen(send, group), 0, len(group)), other)
            for group, other in zip(hierarchy.groups, leaders, strict=True)
            if other != root
        ]
        local = blocks.chosen(send, hierarchy.local)
    elif exchange.rank == leader:
        request = exchange.receive_new(root)
        yield [request]
        local = framed.opened(request.payload, 0, len(hierarchy.local))
    yield from steps(exchange.on_host(), local, receive, hierarchy.local.index(leader))
