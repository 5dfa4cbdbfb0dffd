"""Ranks that run algorithms in one thread, over messages that move when a random schedule says so.

Stricter than any engine: what is sent is read as late as is allowed, what is received into is overwritten as early as
is allowed, a standstill is found at once, and nothing may be left over at the end.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Hashable, Sequence

from fastsock.mpj.collectives.exchange import Exchange, Members


class Request:
    def __init__(self, data=None):
        self.data, self.done, self.error, self.payload, self.callback = data, False, None, None, None

    def complete(self, error=None):
        self.done, self.error = True, error
        if self.callback is not None:
            self.callback(self)


def views(data):
    return [memoryview(view).cast("B") for view in (data if isinstance(data, (list, tuple)) else [data])]


class Network:
    """Messages on their way, in order per pair of ranks."""

    def __init__(self, synchronous: bool):
        self.synchronous = synchronous
        self.under_way: dict[tuple[int, int], deque] = {}
        self.arrived: dict[tuple, deque] = {}
        self.posted: dict[tuple, deque] = {}
        self.requests: list[Request] = []

    def send(self, source, to, tag, context, data):
        request = Request(views(data))
        self.requests.append(request)
        self.under_way.setdefault((source, to), deque()).append((request, (to, source, tag, context)))
        return request

    def receive(self, to, source, tag, context, data):
        request = Request(None if data is None else views(data))
        for view in request.data or ():
            view[:] = b"\xee" * len(view)
        self.requests.append(request)
        key = (to, source, tag, context)
        self.posted.setdefault(key, deque()).append(request)
        self._match(key)
        return request

    def deliver(self, pair):
        request, key = self.under_way[pair].popleft()
        if not self.under_way[pair]:
            del self.under_way[pair]
        if self.synchronous:
            self.arrived.setdefault(key, deque()).append((request, None))
        else:
            self.arrived.setdefault(key, deque()).append((None, b"".join(request.data)))
            request.complete()
        self._match(key)

    def _match(self, key):
        arrived, posted = self.arrived.get(key), self.posted.get(key)
        while arrived and posted:
            (sent, data), request = arrived.popleft(), posted.popleft()
            if data is None:
                data = b"".join(sent.data)
            if request.data is None:
                request.payload = bytearray(data)
            else:
                assert len(data) <= sum(map(len, request.data)), "message truncated"
                for view in request.data:
                    part, data = data[: len(view)], data[len(view) :]
                    view[: len(part)] = part
            request.complete()
            if sent is not None:
                sent.complete()


class Engine:
    def __init__(self, network: Network, rank: int):
        self.network, self.rank = network, rank

    def isend(self, data, peer, tag, context):
        return self.network.send(self.rank, peer, tag, context, data)

    def irecv(self, data, peer, tag, context):
        return self.network.receive(self.rank, peer, tag, context, data)

    def irecv_new(self, peer, tag, context):
        return self.network.receive(self.rank, peer, tag, context, None)

    def user_request(self):
        request = Request()
        self.network.requests.append(request)
        return request


class World:
    """Some ranks, and a schedule."""

    def __init__(self, size: int, seed: int, synchronous: bool = False):
        self.size, self.random, self.network = size, random.Random(seed), Network(synchronous)
        self.engines = [Engine(self.network, rank) for rank in range(size)]

    def members(self, hosts: Sequence[Hashable] | None = None, ranks: Sequence[int] | None = None, context: int = 1):
        ranks = range(self.size) if ranks is None else ranks
        hosts = [0] * len(ranks) if hosts is None else hosts
        made = [Members(self.engines[rank], context, i, ranks, hosts) for i, rank in enumerate(ranks)]
        for members in made:
            members.schedules = None  # these engines follow no schedules
        return made

    def run(self, programs):
        """Run each rank's steps to their end, in random order; a standstill is an error."""
        running = {rank: (iter(steps), []) for rank, steps in enumerate(programs)}
        while running or self.network.under_way:
            ready = [rank for rank, (_, waiting) in running.items() if all(request.done for request in waiting)]
            choices = [*ready, *self.network.under_way]
            assert choices, f"standstill: ranks {sorted(running)} wait for ever"
            choice = self.random.choice(choices)
            if isinstance(choice, tuple):
                self.network.deliver(choice)
                continue
            steps = running[choice][0]
            try:
                running[choice] = (steps, list(next(steps)))
            except StopIteration:
                del running[choice]
        self.finished()

    def settle(self):
        """Deliver all that is under way, and what follows from it."""
        while self.network.under_way:
            self.network.deliver(self.random.choice(list(self.network.under_way)))
        self.finished()

    def finished(self):
        assert all(request.done for request in self.network.requests), "requests left over"
        assert not any(self.network.arrived.values()), "messages left over"


def play(
    size: int,
    seed: int,
    steps: Callable[[Exchange], object],
    hosts: Sequence[Hashable] | None = None,
    synchronous: bool = False,
) -> None:
    """One collective among so many ranks."""
    world = World(size, seed, synchronous)
    world.run([steps(members.exchange()) for members in world.members(hosts)])
