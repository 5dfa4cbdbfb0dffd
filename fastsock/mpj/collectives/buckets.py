"""Reduction round a ring, in buckets: one block of the vectors each."""

from __future__ import annotations

from .blocks import AnyBlocks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .exchange import Exchange
    from .protocols import Combine, Steps, View


def reduce(exchange: Exchange, send: AnyBlocks, receive: View, combine: Combine) -> Steps:
    """Combine block i of all ranks' `send` in the `receive` of rank i. It is written last: it may overlap `send`."""
    if exchange.size == 1:
        receive[:] = send[0]
        return ()
    return (
        _commuting(exchange, send, receive, combine)
        if combine.commutative
        else _ordered(exchange, send, receive, combine)
    )


def _commuting(exchange: Exchange, send: AnyBlocks, receive: View, combine: Combine) -> Steps:
    """Block i starts at rank i + 1, goes up the ring, gains each rank's contribution, and ends at rank i."""
    rank, size = exchange.rank, exchange.size
    before, after = (rank - 1) % size, (rank + 1) % size
    widest = max(send.nbytes(block, block + 1) for block in range(size))
    spare, used = exchange.scratch(widest), exchange.scratch(widest)
    partial = send[before]
    for step in range(2, size + 1):
        block = (rank - step) % size
        own = send[block]
        room = spare[: len(own)]
        yield [exchange.receive(room, before), exchange.send(partial, after)]
        combine(own, room)
        partial = room
        spare, used = used, spare
    receive[:] = partial


def _ordered(exchange: Exchange, send: AnyBlocks, receive: View, combine: Combine) -> Steps:
    """The same in the order of the ranks: what the ranks above i give and what those below give travel side by side
    from where the ring closes (rank 0) on, and meet at rank i."""
    rank, size = exchange.rank, exchange.size
    before, after = (rank - 1) % size, (rank + 1) % size
    upper = lower = exchange.scratch(0)  # of block `before`, which starts here
    if rank == 0:
        lower = send[before]
    else:
        upper = send[before]
    for step in range(2, size + 1):
        block = (rank - step) % size
        own = send[block]
        room = exchange.scratch(2 * len(own))
        high, low = room[: len(own)], room[len(own) :]
        # at its start and up to rank size - 1 a block has an upper part, from rank 0 on a lower one
        if before > block:
            coming = [high]
        elif block == size - 1:
            coming = [low]
        else:
            coming = [high, low]
        sent = (rank - step + 1) % size
        going = [upper] if rank > sent else [lower] if sent == size - 1 else [upper, lower]
        yield [exchange.receive(coming, before), exchange.send(going, after)]
        upper, lower = high, low
        if rank > block:
            upper = _appended(exchange, combine, high, own)
        elif rank == 0:
            lower = own
        else:
            lower = _appended(exchange, combine, low, own)
    if rank < size - 1:
        combine(lower, upper)
        receive[:] = upper
    else:
        receive[:] = lower


def _appended(exchange: Exchange, combine: Combine, partial: View, own: View) -> View:
    copy = exchange.scratch(len(own))
    copy[:] = own
    combine(partial, copy)
    return copy
