"""The combination of all ranks below one's own: the part that scan and exscan share. None at the first rank."""

from __future__ import annotations

from itertools import pairwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from .exchange import Exchange
    from .protocols import Combine, Request, View

    Prefix = Generator[Sequence[Request], None, View | None]


def flat(exchange: Exchange, own: View, combine: Combine) -> Prefix:
    """Each rank gives its own to all above at the same time."""
    rank = exchange.rank
    rooms = [exchange.scratch(len(own)) for _ in range(rank)]
    requests = [exchange.receive(room, at) for at, room in enumerate(rooms)]
    requests += [exchange.send(own, to) for to in range(rank + 1, exchange.size)]
    yield requests
    for lower, higher in pairwise(rooms):
        combine(lower, higher)
    return rooms[-1] if rooms else None


def from_below(exchange: Exchange, nbytes: int) -> Prefix:
    """The rank below gives it."""
    if exchange.rank == 0:
        return None
    before = exchange.scratch(nbytes)
    yield [exchange.receive(before, exchange.rank - 1)]
    return before


def doubling(exchange: Exchange, own: View, combine: Combine) -> Prefix:
    """In round i each rank sends the combination of the last 2^i ranks up to it to the rank 2^i above."""
    rank, size, distance = exchange.rank, exchange.size, 1
    run = own
    before: View | None = None
    while distance < size:
        requests = []
        if rank + distance < size:
            requests.append(exchange.send(run, rank + distance))
        if rank >= distance:
            room = exchange.scratch(len(own))
            requests.append(exchange.receive(room, rank - distance))
        yield requests
        if rank >= distance:
            if rank + 2 * distance < size:  # this rank will give its run once more
                longer = exchange.scratch(len(own))
                longer[:] = run
                combine(room, longer)
                run = longer
            if before is not None:
                combine(room, before)
            else:
                before = room
        distance *= 2
    return before


def two_level(exchange: Exchange, own: View, combine: Combine) -> Prefix:
    """Inside each host first. Its last rank then knows the host's combination, and learns that of the hosts before."""
    hierarchy = exchange.hierarchy
    assert hierarchy is not None
    host = exchange.on_host()
    before = yield from doubling(host, own, combine)
    last = host.size - 1
    room = exchange.scratch(len(own))
    if host.rank == last:
        total = exchange.scratch(len(own))
        total[:] = own
        if before is not None:
            combine(before, total)
        speakers = exchange.among([group[-1] for group in hierarchy.groups])
        hosts = yield from doubling(speakers, total, combine)
        if hosts is not None:
            room[:] = hosts
            yield [host.send(room, to) for to in range(last)]
    elif hierarchy.mine:
        yield [host.receive(room, last)]
    if hierarchy.mine == 0:
        return before
    if before is None:
        return room
    combine(room, before)
    return before
