"""Reduce_scatter: all ranks' vectors are combined, and each rank gets its block of the result."""

from __future__ import annotations

from fastsock.core.binding._team import type_size

from . import blocks, buckets, moves, primitive, reduce, trees
from .accumulator import Accumulator
from .blocks import Blocks
from .entry_points import entry_points
from .folding import Folding
from .primitive import Primitive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .exchange import Exchange
    from .protocols import Combine, Steps, View

PRIMITIVE = Primitive("reduce_scatter")


def steps(exchange: Exchange, send: Blocks, receive: View, combine: Combine, algorithm: str | None = None) -> Steps:
    """The steps that combine block i of all ranks' `send` in the `receive` of rank i. The two may overlap."""
    function = PRIMITIVE.choose(exchange, send.nbytes(0, exchange.size), algorithm, combine)
    return function(exchange, send, receive, combine)  # type: ignore[no-any-return]


run, start = entry_points(steps)


def handed_out(exchange: Exchange, whole: View | None, send: Blocks, receive: View) -> Steps:
    """Rank 0 gives each rank its block of the result, all at the same time."""
    if whole is None:
        yield [exchange.receive(receive, 0)]
        return
    found = Blocks(whole, send.bounds)
    yield [exchange.send(found[to], to) for to in range(1, exchange.size)]
    receive[:] = found[0]


@PRIMITIVE.algorithm()
def reduce_scatterv(exchange: Exchange, send: Blocks, receive: View, combine: Combine) -> Steps:
    """Reduce, then scatter, along minimum spanning trees (F-MPJ, short messages)."""
    tree = trees.minimum_spanning(exchange.rank, exchange.size, 0)
    whole = send.fresh(exchange, tree.first, tree.end)
    yield from reduce.minimum_spanning_tree(exchange, send.data, whole.data if tree.parent < 0 else None, combine, 0)
    yield from moves.scatter(exchange, whole, tree)
    receive[:] = whole[exchange.rank]


@PRIMITIVE.algorithm()
def bucket(exchange: Exchange, send: Blocks, receive: View, combine: Combine) -> Steps:
    """Round a ring (F-MPJ, long messages)."""
    return buckets.reduce(exchange, send, receive, combine)


@PRIMITIVE.algorithm()
def bidirectional_exchange(exchange: Exchange, send: Blocks, receive: View, combine: Combine) -> Steps:
    """Partners exchange the half that the other goes on with. It halves each time (F-MPJ, long messages).

    Ranks beyond a power of two give to a neighbour first and get their block from it at the end. Where the operation
    does not commute, neighbours come first, so that partial results are of runs of ranks; the halves then are those
    places whose bits, from the lowest, agree, and the blocks stand in that order.
    """
    fold = Folding.of(exchange.rank, exchange.size)
    if fold.place < 0:
        yield [exchange.send(send.data, fold.other)]
        yield [exchange.receive(receive, fold.other)]
        return
    partial = Accumulator(exchange, combine, send.data)
    if fold.other >= 0:
        yield [exchange.receive(partial.room(), fold.other)]
        partial.take_higher()
    bits = fold.places.bit_length() - 1
    natural = combine.commutative
    order = range(fold.places) if natural else [_reversed(place, bits) for place in range(fold.places)]
    found = Blocks(partial.value, send.bounds)
    starts = [0]
    for place in order:
        starts.append(starts[-1] + send.nbytes(fold.rank(place), fold.rank(place + 1)))
    vector = found.data
    if not natural:
        vector = exchange.scratch(len(found.data))
        for at, place in enumerate(order):
            vector[starts[at] : starts[at + 1]] = found.range(fold.rank(place), fold.rank(place + 1))  # type: ignore[assignment]
    first, end = 0, fold.places
    for bit in range(bits - 1, -1, -1) if natural else range(bits):
        distance = 1 << bit
        partner = fold.rank(fold.place ^ distance)
        middle = (first + end) // 2
        lower = not fold.place & distance
        low, high = vector[: starts[middle] - starts[first]], vector[starts[middle] - starts[first] :]
        kept, given = (low, high) if lower else (high, low)
        partial = Accumulator(exchange, combine, kept)
        yield [exchange.receive(partial.room(), partner), exchange.send(given, partner)]
        if lower:
            partial.take_higher()
        else:
            partial.take_lower()
        vector = partial.value
        first, end = (first, middle) if lower else (middle, end)
    mine = send.nbytes(exchange.rank, exchange.rank + 1)
    if fold.other >= 0:
        yield [exchange.send(vector[mine:], fold.other)]
    receive[:] = vector[:mine]


@PRIMITIVE.algorithm()
def flat_reduce_scatterv(exchange: Exchange, send: Blocks, receive: View, combine: Combine) -> Steps:
    """One rank takes from one after the other, then serves all at the same time (MPJ Express)."""
    whole = exchange.scratch(len(send.data)) if exchange.rank == 0 else None
    yield from reduce.flat_tree_blocking(exchange, send.data, whole, combine, 0)
    yield from handed_out(exchange, whole, send, receive)


@PRIMITIVE.algorithm()
def binomial_reduce_scatterv(exchange: Exchange, send: Blocks, receive: View, combine: Combine) -> Steps:
    """Reduce along a binomial tree, or from one after the other where the operation does not commute; then rank 0
    serves one after the other (MPJ/Ibis)."""
    whole = exchange.scratch(len(send.data)) if exchange.rank == 0 else None
    reduced = reduce.binomial_tree if combine.commutative else reduce.flat_tree_blocking
    yield from reduced(exchange, send.data, whole, combine, 0)
    if whole is None:
        yield [exchange.receive(receive, 0)]
        return
    found = Blocks(whole, send.bounds)
    for to in range(1, exchange.size):
        yield [exchange.send(found[to], to)]
    receive[:] = found[0]


@PRIMITIVE.algorithm(primitive.team)
def shared_memory(exchange: Exchange, send: Blocks, receive: View, combine: Combine) -> Steps:
    """Through the memory that all ranks share."""
    element = type_size(combine.kernel[0])  # which may be a part of an item
    counts = [size // element for size in send.placed()[1]]
    exchange.team.reduce_scatter(send.data, receive, counts, *combine.kernel)
    return ()


@PRIMITIVE.algorithm(primitive.hierarchy)
def two_level(exchange: Exchange, send: Blocks, receive: View, combine: Combine) -> Steps:
    """Reduce inside each host, reduce_scatter between the hosts' leaders, scatter inside each host."""
    hierarchy = exchange.hierarchy
    assert hierarchy is not None
    host = exchange.on_host()
    if host.rank:
        yield from reduce.steps(host, send.data, None, combine, 0)
        yield [host.receive(receive, 0)]
        return
    whole = exchange.scratch(len(send.data))
    yield from reduce.steps(host, send.data, whole, combine, 0)
    by_host = blocks.arranged(exchange, Blocks(whole, send.bounds), hierarchy.groups)
    mine = exchange.scratch(by_host.nbytes(hierarchy.mine, hierarchy.mine + 1))
    yield from steps(exchange.among(hierarchy.leaders()), by_host, mine, combine)
    given, at = [], 0
    for to, rank in enumerate(hierarchy.local):
        part = mine[at : at + send.nbytes(rank, rank + 1)]
        at += len(part)
        if to:
            given.append(host.send(part, to))
        else:
            receive[:] = part
    yield given


def _reversed(place: int, bits: int) -> int:
    return int(f"{place:0{bits}b}"[::-1], 2) if bits else 0
