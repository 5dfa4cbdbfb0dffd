"""Gather: the root gets a block from each rank."""

from __future__ import annotations

from . import blocks, moves, primitive, shared, trees
from .blocks import AnyBlocks
from .entry_points import entry_points
from .primitive import Primitive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .exchange import Exchange
    from .protocols import Steps, View

PRIMITIVE = Primitive("gather")


def steps(
    exchange: Exchange, send: View | None, receive: AnyBlocks | None, root: int, algorithm: str | None = None
) -> Steps:
    """The steps that bring the `send` of rank i into block i of the root's `receive`; the root's may be None, when
    its block is there already. All blocks have one size."""
    nbytes = len(send) if send is not None else receive.nbytes(root, root + 1) if receive is not None else 0
    return PRIMITIVE.choose(exchange, nbytes, algorithm)(exchange, send, receive, root)  # type: ignore[no-any-return]


run, start = entry_points(steps)


def keep(send: View | None, receive: AnyBlocks, root: int) -> None:
    """The root's own block."""
    if send is not None:
        receive[root][:] = send


@PRIMITIVE.algorithm()
def minimum_spanning_tree(exchange: Exchange, send: View | None, receive: AnyBlocks | None, root: int) -> Steps:
    """Along a minimum spanning tree (F-MPJ, short messages)."""
    tree = trees.minimum_spanning(exchange.rank, exchange.size, root)
    if receive is not None and exchange.rank == root:
        data = receive
    else:
        assert send is not None
        if not tree.children:
            yield [exchange.send(send, tree.parent)]
            return
        data = blocks.sized(len(send), exchange.size).fresh(exchange, tree.first, tree.end)
    keep(send, data, exchange.rank)
    yield from moves.gather(exchange, data, tree)


@PRIMITIVE.algorithm()
def flat_tree(exchange: Exchange, send: View | None, receive: AnyBlocks | None, root: int) -> Steps:
    """From all to the root at the same time (F-MPJ for long messages, MPJ Express)."""
    if exchange.rank != root:
        yield [exchange.send(_given(send), root)]
        return
    assert receive is not None
    requests = [exchange.receive(receive.range(at, at + 1), at) for at in range(exchange.size) if at != root]
    keep(send, receive, root)
    yield requests


@PRIMITIVE.algorithm()
def flat_tree_blocking(exchange: Exchange, send: View | None, receive: AnyBlocks | None, root: int) -> Steps:
    """From one after the other to the root (MPJ/Ibis)."""
    if exchange.rank != root:
        yield [exchange.send(_given(send), root)]
        return
    assert receive is not None
    for at in range(exchange.size):
        if at != root:
            yield [exchange.receive(receive.range(at, at + 1), at)]
    keep(send, receive, root)


def through_memory(exchange: Exchange, send: View | None, receive: AnyBlocks | None, root: int) -> Steps:
    """Any blocks, through the memory that all ranks share."""
    if receive is None or exchange.rank != root:
        exchange.team.gather(send, None, None, None, root)
    else:
        shared.write(exchange, receive, lambda *placed: exchange.team.gather(send, *placed, root))
    return ()


@PRIMITIVE.algorithm(primitive.team)
def shared_memory(exchange: Exchange, send: View | None, receive: AnyBlocks | None, root: int) -> Steps:
    """Through the memory that all ranks share."""
    return through_memory(exchange, send, receive, root)


@PRIMITIVE.algorithm(primitive.hierarchy)
def two_level(exchange: Exchange, send: View | None, receive: AnyBlocks | None, root: int) -> Steps:
    """Inside each host to one rank, from these to the root."""
    hierarchy = exchange.hierarchy
    assert hierarchy is not None
    leader = hierarchy.leaders(root)[hierarchy.mine]
    local: AnyBlocks | None = None
    if exchange.rank == root:
        assert receive is not None
        local = blocks.chosen(receive, hierarchy.local)
    elif exchange.rank == leader:
        local = blocks.equal(exchange.scratch(len(_given(send)) * len(hierarchy.local)), len(hierarchy.local))
    requests = []
    if exchange.rank == root:
        assert receive is not None
        whole = blocks.grouped(receive, hierarchy.groups)
        requests = [
            exchange.receive(whole.range(host, host + 1), other)
            for host, other in enumerate(hierarchy.leaders(root))
            if other != root
        ]
    yield from steps(exchange.on_host(), send, local, hierarchy.local.index(leader))
    if exchange.rank == leader != root:
        assert isinstance(local, blocks.Blocks)
        requests = [exchange.send(local.data, root)]
    yield requests


def _given(send: View | None) -> View:
    assert send is not None
    return send
