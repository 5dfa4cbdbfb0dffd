"""Alltoall of blocks of any sizes. A rank knows its own sizes only, so the choice goes by the number of ranks alone."""

from __future__ import annotations

from itertools import accumulate

from . import alltoall, blocks, framed, primitive
from .blocks import AnyBlocks
from .entry_points import entry_points
from .primitive import Primitive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Concatenate

    from .exchange import Exchange
    from .protocols import Steps

    Moving = Callable[Concatenate[Exchange, AnyBlocks | None, AnyBlocks, ...], Steps]

PRIMITIVE = Primitive("alltoallv")


def steps_from(algorithms: Primitive) -> Moving:
    """The steps of a primitive that moves blocks as alltoallv does."""

    def steps(exchange: Exchange, send: AnyBlocks | None, receive: AnyBlocks, algorithm: str | None = None) -> Steps:
        """The steps that bring block j of the `send` of rank i into block i of the `receive` of rank j; None: what is
        in `receive` is sent."""
        function = algorithms.choose(exchange, 0, algorithm)
        outgoing = alltoall.kept(exchange, receive) if send is None else send
        return function(exchange, outgoing, receive)  # type: ignore[no-any-return]

    return steps


steps = steps_from(PRIMITIVE)
run, start = entry_points(steps)

PRIMITIVE.offer("flat_tree", alltoall.flat_tree)
PRIMITIVE.offer("pairwise_exchange", alltoall.pairwise_exchange)
PRIMITIVE.offer("shared_memory", alltoall.shared_memory, primitive.team)


@PRIMITIVE.algorithm(primitive.hierarchy)
def two_level(exchange: Exchange, send: AnyBlocks, receive: AnyBlocks) -> Steps:
    """Direct inside each host; between hosts through the leaders, in messages that tell their blocks' sizes."""
    hierarchy = exchange.hierarchy
    assert hierarchy is not None
    groups, local = hierarchy.groups, hierarchy.local
    host = exchange.on_host()
    away = [rank for index, group in enumerate(groups) if index != hierarchy.mine for rank in group]
    inside = alltoall.flat_tree(host, blocks.chosen(send, local), blocks.chosen(receive, local))
    if host.rank:
        yield from inside
        yield [exchange.send(framed.message(blocks.chosen(send, away), 0, len(away)), local[0])]
        yield [exchange.receive(blocks.chosen(receive, away).range(0, len(away)), local[0])]
        return
    yield from inside
    requests = [exchange.receive_new(at) for at in local[1:]]
    yield requests
    # rows[i][j]: what local rank i sends to the j-th rank of all other hosts
    rows: list[AnyBlocks] = [blocks.chosen(send, away)]
    rows += [framed.opened(request.payload, 0, len(away)) for request in requests]
    others = [group for index, group in enumerate(groups) if index != hierarchy.mine]
    starts = list(accumulate(map(len, others), initial=0))
    sends = []
    for group, begin in zip(others, starts, strict=False):
        outgoing = blocks.separate([row.range(to, to + 1) for row in rows for to in range(begin, begin + len(group))])
        sends.append(exchange.send(framed.message(outgoing, 0, len(outgoing)), group[0]))
    requests = [exchange.receive_new(group[0]) for group in others]
    yield requests
    came = [framed.opened(r.payload, 0, len(g) * len(local)) for g, r in zip(others, requests, strict=True)]
    # came[k][i * len(local) + j]: what the i-th rank of the k-th other host sends to local rank j
    columns = [
        [blocks_[i * len(local) + j] for group, blocks_ in zip(others, came, strict=True) for i in range(len(group))]
        for j in range(len(local))
    ]
    for at, block in zip(away, columns[0], strict=True):
        receive[at][: len(block)] = block
    sends += [exchange.send(blocks.pieces(columns[j]), local[j]) for j in range(1, len(local))]
    yield sends
