"""Allreduce: all ranks get all ranks' vectors combined element by element, in the order of the ranks."""

from __future__ import annotations

from . import allgather, bcast, blocks, buckets, moves, primitive, reduce, trees
from .accumulator import begin
from .blocks import Blocks
from .entry_points import entry_points
from .folding import Folding
from .primitive import Primitive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .exchange import Exchange
    from .protocols import Combine, Steps, View

PRIMITIVE = Primitive("allreduce")


def steps(
    exchange: Exchange, send: View | None, receive: View, combine: Combine, algorithm: str | None = None
) -> Steps:
    """The steps that combine all ranks' `send` in every `receive`. None: `receive` is sent."""
    function = PRIMITIVE.choose(exchange, len(receive), algorithm, combine)
    return function(exchange, send, receive, combine)  # type: ignore[no-any-return]


run, start = entry_points(steps)


def _at_zero(exchange: Exchange, receive: View) -> View | None:
    return receive if exchange.rank == 0 else None


@PRIMITIVE.algorithm()
def reduce_broadcast(exchange: Exchange, send: View | None, receive: View, combine: Combine) -> Steps:
    """Reduce, then broadcast, along minimum spanning trees (F-MPJ, short messages)."""
    tree = trees.minimum_spanning(exchange.rank, exchange.size, 0)
    partial = begin(exchange, send, receive, combine)
    yield from reduce.climb(exchange, partial, tree)
    if exchange.rank == 0:
        partial.store(receive)
    yield from moves.spread(exchange, receive, tree)


@PRIMITIVE.algorithm()
def bucket(exchange: Exchange, send: View | None, receive: View, combine: Combine) -> Steps:
    """Reduce_scatter, then allgather, by buckets (F-MPJ, long messages)."""
    bounds = blocks.cut(len(receive), combine.itemsize, exchange.size)
    found = Blocks(receive, bounds)
    source = found if send is None else Blocks(send, bounds)
    yield from buckets.reduce(exchange, source, found[exchange.rank], combine)
    yield from allgather.bucket(exchange, None, found)


@PRIMITIVE.algorithm()
def bidirectional_exchange(exchange: Exchange, send: View | None, receive: View, combine: Combine) -> Steps:
    """Partners exchange partial results and combine them, over doubling distances (F-MPJ, long messages; MPJ/Ibis).
    Ranks beyond a power of two give to a neighbour first and get the result from it at the end."""
    fold = Folding.of(exchange.rank, exchange.size)
    if fold.place < 0:
        yield [exchange.send(receive if send is None else send, fold.other)]
        yield [exchange.receive(receive, fold.other)]
        return
    partial = begin(exchange, send, receive, combine)
    if fold.other >= 0:
        yield [exchange.receive(partial.room(), fold.other)]
        partial.take_higher()
    distance = 1
    while distance < fold.places:
        partner = fold.rank(fold.place ^ distance)
        yield [exchange.receive(partial.room(), partner), exchange.send(partial.value, partner)]
        if fold.place & distance:
            partial.take_lower()
        else:
            partial.take_higher()
        distance *= 2
    partial.store(receive)
    if fold.other >= 0:
        yield [exchange.send(receive, fold.other)]


@PRIMITIVE.algorithm()
def binomial_tree(exchange: Exchange, send: View | None, receive: View, combine: Combine) -> Steps:
    """Reduce, then broadcast, along binomial trees (MPJ Express)."""
    own = receive if send is None and exchange.rank else send
    yield from reduce.binomial_tree(exchange, own, _at_zero(exchange, receive), combine, 0)
    yield from moves.spread_blocking(exchange, receive, trees.binomial(exchange.rank, exchange.size, 0))


@PRIMITIVE.algorithm(primitive.team)
def shared_memory(exchange: Exchange, send: View | None, receive: View, combine: Combine) -> Steps:
    """Through the memory that all ranks share."""
    exchange.team.allreduce(send, receive, *combine.kernel)
    return ()


@PRIMITIVE.algorithm(primitive.hierarchy)
def two_level(exchange: Exchange, send: View | None, receive: View, combine: Combine) -> Steps:
    """Reduce inside each host, allreduce between the hosts' leaders, broadcast inside each host."""
    hierarchy = exchange.hierarchy
    assert hierarchy is not None
    host = exchange.on_host()
    own = receive if send is None and host.rank else send
    yield from reduce.steps(host, own, _at_zero(host, receive), combine, 0)
    if host.rank == 0:
        yield from steps(exchange.among(hierarchy.leaders()), None, receive, combine)
    yield from bcast.steps(host, receive, 0)
