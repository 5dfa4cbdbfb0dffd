"""Collectives over an intercommunicator, between two groups of ranks: each group gets the other's data.

With a root, its group passes ROOT (the root itself) or PROC_NULL (the others), the other group the root's rank.
"""

from __future__ import annotations

from . import barrier as barriers
from . import bcast as bcasts
from . import reduce as reduces
from . import schedule
from .blocks import Blocks
from .exchange import drive
from .neighbourhood import receives

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from .blocks import AnyBlocks
    from .exchange import InterExchange
    from .protocols import Combine, Request, Steps, View

PROC_NULL = -2
ROOT = -3


class Collective:
    """A collective over an intercommunicator: `run` returns when this rank's part is done, `start` at once."""

    def __init__(self, steps: Callable[..., Steps]) -> None:
        self.steps = steps

    def run(self, exchange: InterExchange, *args: Any) -> None:
        """Do it."""
        drive(exchange.local, self.steps(exchange, *args))

    def start(self, exchange: InterExchange, *args: Any) -> Request:
        """Begin it."""
        return schedule.follow(exchange, self.steps, args)


@Collective
def barrier(exchange: InterExchange) -> Steps:
    """No rank leaves before all of the other group have come."""
    yield from barriers.steps(exchange.local)
    if exchange.rank == 0:
        yield [exchange.remote.receive(barriers.NOTHING, 0), exchange.remote.send(barriers.NOTHING, 0)]
    yield from barriers.steps(exchange.local)


@Collective
def bcast(exchange: InterExchange, data: View, root: int) -> Steps:
    """From the root to the first rank of the other group, and from there to its other ranks."""
    if root == ROOT:
        yield [exchange.remote.send(data, 0)]
    elif root >= 0:
        if exchange.rank == 0:
            yield [exchange.remote.receive(data, root)]
        yield from bcasts.steps(exchange.local, data, 0)


@Collective
def gather(exchange: InterExchange, send: View | None, receive: AnyBlocks | None, root: int) -> Steps:
    """From all of the other group to the root."""
    if root == ROOT:
        assert receive is not None
        yield receives(exchange.remote, receive, range(len(receive)))
    elif root >= 0:
        assert send is not None
        yield [exchange.remote.send(send, root)]


@Collective
def scatter(exchange: InterExchange, send: AnyBlocks | None, receive: View | None, root: int) -> Steps:
    """From the root to all of the other group."""
    if root == ROOT:
        assert send is not None
        yield [exchange.remote.send(send.range(to, to + 1), to) for to in range(len(send))]
    elif root >= 0:
        assert receive is not None
        yield [exchange.remote.receive(receive, root)]


@Collective
def allgather(exchange: InterExchange, send: View, receive: AnyBlocks) -> Steps:
    """From all of the other group to all of this one."""
    remote = exchange.remote
    requests = receives(remote, receive, range(remote.size))
    requests += [remote.send(send, to) for to in range(remote.size)]
    yield requests


@Collective
def alltoall(exchange: InterExchange, send: AnyBlocks, receive: AnyBlocks) -> Steps:
    """From all of the other group to all of this one, each its own block."""
    remote = exchange.remote
    requests = receives(remote, receive, range(remote.size))
    requests += [remote.send(send.range(to, to + 1), to) for to in range(remote.size)]
    yield requests


@Collective
def reduce(exchange: InterExchange, send: View | None, receive: View | None, combine: Combine, root: int) -> Steps:
    """The other group's vectors, combined, to the root."""
    if root == ROOT:
        assert receive is not None
        yield [exchange.remote.receive(receive, 0)]
    elif root >= 0:
        assert send is not None
        total = exchange.local.scratch(len(send)) if exchange.rank == 0 else None
        yield from reduces.steps(exchange.local, send, total, combine, 0)
        if total is not None:
            yield [exchange.remote.send(total, root)]


def _swapped(exchange: InterExchange, send: View, receive: View | None, combine: Combine) -> Steps:
    """Rank 0 of each group gets the combination of the other group's vectors."""
    total = exchange.local.scratch(len(send)) if exchange.rank == 0 else None
    yield from reduces.steps(exchange.local, send, total, combine, 0)
    if total is not None:
        assert receive is not None
        yield [exchange.remote.receive(receive, 0), exchange.remote.send(total, 0)]


@Collective
def allreduce(exchange: InterExchange, send: View, receive: View, combine: Combine) -> Steps:
    """The other group's vectors, combined, to all of this one."""
    yield from _swapped(exchange, send, receive, combine)
    yield from bcasts.steps(exchange.local, receive, 0)


@Collective
def reduce_scatter(
    exchange: InterExchange, send: View, receive: View, bounds: Sequence[int], combine: Combine
) -> Steps:
    """The other group's vectors, combined, to each rank its block: `bounds` cut the vector for this group."""
    if exchange.rank:
        yield from _swapped(exchange, send, None, combine)
        yield [exchange.local.receive(receive, 0)]
        return
    whole = exchange.local.scratch(len(send))
    yield from _swapped(exchange, send, whole, combine)
    found = Blocks(whole, bounds)
    requests = [exchange.local.send(found[to], to) for to in range(1, exchange.local.size)]
    receive[:] = found[0]
    yield requests
