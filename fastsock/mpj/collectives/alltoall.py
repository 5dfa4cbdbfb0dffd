"""Alltoall: each rank gets a block of its own from each."""

from __future__ import annotations

from . import blocks, primitive, shared
from .blocks import AnyBlocks
from .entry_points import entry_points
from .primitive import Primitive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .exchange import Exchange
    from .protocols import Steps

PRIMITIVE = Primitive("alltoall")


def steps(exchange: Exchange, send: AnyBlocks | None, receive: AnyBlocks, algorithm: str | None = None) -> Steps:
    """The steps that bring block j of the `send` of rank i into block i of the `receive` of rank j; None: what is in
    `receive` is sent. All blocks have one size."""
    nbytes = receive.nbytes(0, exchange.size)
    function = PRIMITIVE.choose(exchange, nbytes, algorithm)
    return function(exchange, kept(exchange, receive) if send is None else send, receive)  # type: ignore[no-any-return]


run, start = entry_points(steps)


def kept(exchange: Exchange, receive: AnyBlocks) -> AnyBlocks:
    """What is in the receive blocks now, in memory of its own."""
    copy = receive.fresh(exchange, 0, exchange.size)
    for rank in range(exchange.size):
        copy[rank][:] = receive[rank]
    return copy


def keep(exchange: Exchange, send: AnyBlocks, receive: AnyBlocks) -> None:
    """The block from oneself."""
    mine = send[exchange.rank]
    receive[exchange.rank][: len(mine)] = mine


@PRIMITIVE.algorithm()
def flat_tree(exchange: Exchange, send: AnyBlocks, receive: AnyBlocks) -> Steps:
    """All to all at the same time (F-MPJ, MPJ Express, MPJ/Ibis)."""
    rank, size = exchange.rank, exchange.size
    others = [(rank + step) % size for step in range(1, size)]
    requests = [exchange.receive(receive.range(at, at + 1), at) for at in reversed(others)]
    requests += [exchange.send(send.range(to, to + 1), to) for to in others]
    keep(exchange, send, receive)
    yield requests


@PRIMITIVE.algorithm()
def pairwise_exchange(exchange: Exchange, send: AnyBlocks, receive: AnyBlocks) -> Steps:
    """In step i with the ranks i above and below: one message each way at a time."""
    rank, size = exchange.rank, exchange.size
    keep(exchange, send, receive)
    for step in range(1, size):
        to, at = (rank + step) % size, (rank - step) % size
        yield [exchange.receive(receive.range(at, at + 1), at), exchange.send(send.range(to, to + 1), to)]


@PRIMITIVE.algorithm(primitive.team)
def shared_memory(exchange: Exchange, send: AnyBlocks, receive: AnyBlocks) -> Steps:
    """Through the memory that all ranks share."""
    outgoing = shared.read(exchange, send)
    shared.write(exchange, receive, lambda *placed: exchange.team.alltoall(*outgoing, *placed))
    return ()


@PRIMITIVE.algorithm(primitive.hierarchy)
def two_level(exchange: Exchange, send: AnyBlocks, receive: AnyBlocks) -> Steps:
    """To the leader inside each host, from leader to leader one message for all ranks of a host, and out again."""
    hierarchy = exchange.hierarchy
    assert hierarchy is not None
    size, groups, local = exchange.size, hierarchy.groups, hierarchy.local
    each = receive.nbytes(0, 1)
    host = exchange.on_host()
    if host.rank:
        yield [exchange.send(send.range(0, size), local[0])]
        yield [exchange.receive(receive.range(0, size), local[0])]
        return
    # rows[i]: all that local rank i sends; columns[i]: all that it gets
    rows = [send, *(receive.fresh(exchange, 0, size) for _ in local[1:])]
    columns = [receive, *(receive.fresh(exchange, 0, size) for _ in local[1:])]
    yield [host.receive(row.range(0, size), at) for at, row in enumerate(rows) if at]
    requests = []
    for index, group in enumerate(groups):
        if index != hierarchy.mine:
            incoming = [column.range(at, at + 1) for at in group for column in columns]
            requests.append(exchange.receive(blocks.pieces(incoming), group[0]))
    for index, group in enumerate(groups):
        if index != hierarchy.mine:
            outgoing = [row.range(to, to + 1) for row in rows for to in group]
            requests.append(exchange.send(blocks.pieces(outgoing), group[0]))
    if each:
        for at, row in zip(local, rows, strict=True):
            for to, column in zip(local, columns, strict=True):
                column[at][:] = row[to]
    yield requests
    yield [host.send(column.range(0, size), to) for to, column in enumerate(columns) if to]
