"""Gather of blocks of any sizes. Only the root knows them all, so the choice goes by the number of ranks alone."""

from __future__ import annotations

from . import blocks, framed, gather, primitive, trees
from .blocks import AnyBlocks
from .entry_points import entry_points
from .primitive import Primitive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .exchange import Exchange
    from .protocols import Data, Steps, View

PRIMITIVE = Primitive("gatherv")


def steps(
    exchange: Exchange, send: View | None, receive: AnyBlocks | None, root: int, algorithm: str | None = None
) -> Steps:
    """The steps that bring the `send` of rank i into block i of the root's `receive`; the root's may be None, when
    its block is there already."""
    return PRIMITIVE.choose(exchange, 0, algorithm)(exchange, send, receive, root)  # type: ignore[no-any-return]


run, start = entry_points(steps)


@PRIMITIVE.algorithm()
def minimum_spanning_tree(exchange: Exchange, send: View | None, receive: AnyBlocks | None, root: int) -> Steps:
    """Along a minimum spanning tree (F-MPJ, short messages). Blocks that are passed on tell their sizes."""
    tree = trees.minimum_spanning(exchange.rank, exchange.size, root)
    if receive is not None and exchange.rank == root:
        yield [
            exchange.receive(framed.room(exchange, receive, child.first, child.end), child.rank)
            if child.end - child.first > 1
            else exchange.receive(receive.range(child.first, child.end), child.rank)
            for child in tree.children
        ]
        gather.keep(send, receive, root)
        return
    assert send is not None
    if not tree.children:
        yield [exchange.send(send, tree.parent)]
        return
    requests = [exchange.receive_new(child.rank) for child in tree.children]
    yield requests
    found: dict[int, Data] = {exchange.rank: send}
    for child, request in zip(tree.children, requests, strict=True):
        if child.end - child.first == 1:
            found[child.first] = memoryview(request.payload).cast("B")
        else:
            below = framed.opened(request.payload, child.first, child.end)
            found.update({rank: below[rank] for rank in range(child.first, child.end)})
    mine = blocks.separate([found[rank] for rank in range(tree.first, tree.end)])
    yield [exchange.send(framed.message(mine, 0, len(mine)), tree.parent)]


PRIMITIVE.offer("flat_tree", gather.flat_tree)
PRIMITIVE.offer("flat_tree_blocking", gather.flat_tree_blocking)


@PRIMITIVE.algorithm(primitive.team)
def shared_memory(exchange: Exchange, send: View | None, receive: AnyBlocks | None, root: int) -> Steps:
    """Through the memory that all ranks share."""
    return gather.through_memory(exchange, send, receive, root)


@PRIMITIVE.algorithm(primitive.hierarchy)
def two_level(exchange: Exchange, send: View | None, receive: AnyBlocks | None, root: int) -> Steps:
    """Inside each host to one rank, from these to the root with nothing but the blocks: the root knows their sizes."""
    hierarchy = exchange.hierarchy
    assert hierarchy is not None
    leader = hierarchy.leaders(root)[hierarchy.mine]
    if exchange.rank == root:
        assert receive is not None
        whole = blocks.grouped(receive, hierarchy.groups)
        requests = [
            exchange.receive(whole.range(host, host + 1), other)
            for host, other in enumerate(hierarchy.leaders(root))
            if other != root
        ]
        requests += [exchange.receive(receive.range(at, at + 1), at) for at in hierarchy.local if at != root]
        gather.keep(send, receive, root)
        yield requests
    elif exchange.rank == leader:
        assert send is not None
        requests = [exchange.receive_new(at) for at in hierarchy.local if at != leader]
        yield requests
        below = iter([memoryview(request.payload).cast("B") for request in requests])
        yield [exchange.send([send if at == leader else next(below) for at in hierarchy.local], root)]
    else:
        assert send is not None
        yield [exchange.send(send, leader)]
