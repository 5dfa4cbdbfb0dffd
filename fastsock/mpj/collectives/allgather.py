"""Allgather: all ranks get a block from each."""

from __future__ import annotations

from . import blocks, moves, primitive, shared, trees
from .blocks import AnyBlocks
from .entry_points import entry_points
from .folding import Folding
from .primitive import Primitive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .exchange import Exchange
    from .protocols import Steps, View

PRIMITIVE = Primitive("allgather")


def steps(exchange: Exchange, send: View | None, receive: AnyBlocks, algorithm: str | None = None) -> Steps:
    """The steps that bring the `send` of rank i into block i of every `receive`; None: one's own is there already."""
    nbytes = receive.nbytes(0, exchange.size)
    return PRIMITIVE.choose(exchange, nbytes, algorithm)(exchange, send, receive)  # type: ignore[no-any-return]


run, start = entry_points(steps)


def keep(exchange: Exchange, send: View | None, receive: AnyBlocks) -> None:
    """One's own block."""
    if send is not None:
        receive[exchange.rank][:] = send


@PRIMITIVE.algorithm()
def gather_broadcast(exchange: Exchange, send: View | None, receive: AnyBlocks) -> Steps:
    """Gather, then broadcast, along minimum spanning trees (F-MPJ, short messages)."""
    keep(exchange, send, receive)
    tree = trees.minimum_spanning(exchange.rank, exchange.size, 0)
    yield from moves.gather(exchange, receive, tree)
    yield from moves.spread(exchange, receive.range(0, exchange.size), tree)


@PRIMITIVE.algorithm()
def bucket(exchange: Exchange, send: View | None, receive: AnyBlocks) -> Steps:
    """Each block goes round the ring (F-MPJ, long messages; figure 5.5 left). All receives are posted at once."""
    keep(exchange, send, receive)
    rank, size = exchange.rank, exchange.size
    before, after = (rank - 1) % size, (rank + 1) % size
    coming = [(rank - step) % size for step in range(1, size)]
    receives = [exchange.receive(receive.range(at, at + 1), before) for at in coming]
    sends = []
    at = rank
    for there, request in zip(coming, receives, strict=True):
        sends.append(exchange.send(receive.range(at, at + 1), after))
        yield [request]
        at = there
    yield sends


@PRIMITIVE.algorithm()
def double_ring(exchange: Exchange, send: View | None, receive: AnyBlocks) -> Steps:
    """Each block goes round both ways, and half as far (MPJ/Ibis)."""
    keep(exchange, send, receive)
    rank, size = exchange.rank, exchange.size
    before, after = (rank - 1) % size, (rank + 1) % size
    for step in range(size // 2):
        up, down = (rank - step) % size, (rank + step) % size
        lower, upper = (up - 1) % size, (down + 1) % size
        requests = [
            exchange.receive(receive.range(lower, lower + 1), before),
            exchange.send(receive.range(up, up + 1), after),
        ]
        if lower != upper:  # with an even number of ranks the last block is opposite, and comes one way only
            requests.append(exchange.receive(receive.range(upper, upper + 1), after))
            requests.append(exchange.send(receive.range(down, down + 1), before))
        yield requests


@PRIMITIVE.algorithm()
def bidirectional_exchange(exchange: Exchange, send: View | None, receive: AnyBlocks) -> Steps:
    """Partners exchange all they have. It doubles each time (F-MPJ, long messages; figure 5.5 right). Ranks beyond
    a power of two give to a neighbour first and get everything from it at the end."""
    keep(exchange, send, receive)
    fold = Folding.of(exchange.rank, exchange.size)
    if fold.place < 0:
        yield [exchange.send(receive.range(exchange.rank, exchange.rank + 1), fold.other)]
        yield [exchange.receive(receive.range(0, exchange.size), fold.other)]
        return
    if fold.other >= 0:
        yield [exchange.receive(receive.range(fold.other, fold.other + 1), fold.other)]
    distance = 1
    while distance < fold.places:
        mine = fold.place & -distance
        theirs = mine ^ distance
        partner = fold.rank(fold.place ^ distance)
        yield [
            exchange.receive(receive.range(fold.rank(theirs), fold.rank(theirs + distance)), partner),
            exchange.send(receive.range(fold.rank(mine), fold.rank(mine + distance)), partner),
        ]
        distance *= 2
    if fold.other >= 0:
        yield [exchange.send(receive.range(0, exchange.size), fold.other)]


@PRIMITIVE.algorithm()
def flat_tree(exchange: Exchange, send: View | None, receive: AnyBlocks) -> Steps:
    """All to all at the same time (MPJ Express)."""
    keep(exchange, send, receive)
    rank, size = exchange.rank, exchange.size
    mine = receive.range(rank, rank + 1)
    others = [(rank + step) % size for step in range(1, size)]
    requests = [exchange.receive(receive.range(at, at + 1), at) for at in reversed(others)]
    requests += [exchange.send(mine, to) for to in others]
    yield requests


@PRIMITIVE.algorithm(primitive.team)
def shared_memory(exchange: Exchange, send: View | None, receive: AnyBlocks) -> Steps:
    """Through the memory that all ranks share."""
    shared.write(exchange, receive, lambda *placed: exchange.team.allgather(send, *placed))
    return ()


@PRIMITIVE.algorithm(primitive.hierarchy)
def two_level(exchange: Exchange, send: View | None, receive: AnyBlocks) -> Steps:
    """Gather inside each host, allgather between the hosts' leaders, broadcast inside each host."""
    hierarchy = exchange.hierarchy
    assert hierarchy is not None
    keep(exchange, send, receive)
    host = exchange.on_host()
    tree = trees.minimum_spanning(host.rank, host.size, 0)
    yield from moves.gather(host, blocks.chosen(receive, hierarchy.local), tree)
    if host.rank == 0:
        leaders = exchange.among(hierarchy.leaders())
        yield from steps(leaders, None, blocks.grouped(receive, hierarchy.groups))
    yield from moves.spread(host, receive.range(0, exchange.size), tree)
