"""The same algorithms over the engine, between ranks that are threads: blocking, started, and through shared memory."""

from __future__ import annotations

import importlib
import threading
from itertools import product

import pytest

from .cases import PRIMITIVES, Case, Check
from .operations import NativeSum, Product

pytest.importorskip("fastsock.core.binding._core")

from fastsock import core
from fastsock.mpj.collectives import team
from fastsock.mpj.collectives.exchange import Members


def module(name):
    return importlib.import_module(f"fastsock.mpj.collectives.{name}")


ALGORITHMS = [(name, algorithm) for name in PRIMITIVES for algorithm in module(name).PRIMITIVE.algorithms]
SIZES = (1, 2, 3, 4, 5, 8)


class Ranks:
    """Threads with an engine each."""

    def __init__(self, size):
        self.size = size
        self.hosts = [rank * 2 // size for rank in range(size)]  # as if on two hosts
        self.engines = [core.Engine(rank, size, crowded=True) for rank in range(size)]
        for one, other in product(self.engines, self.engines):
            if one is not other:
                one.attach_local(other.rank, other)
        self.teams = [None] * size
        self.host_teams = [None] * size

        def form(rank):
            self.teams[rank] = team.form(self.engines[rank], 3, range(size), rank, crowded=True)
            near = [other for other in range(size) if self.hosts[other] == self.hosts[rank]]
            self.host_teams[rank] = team.form(self.engines[rank], 7, near, near.index(rank), crowded=True)

        self.run(form)

    def members(self, several_hosts, context=1):
        hosts = self.hosts if several_hosts else [0] * self.size
        made = []
        for rank, engine in enumerate(self.engines):
            teams = (None, self.host_teams[rank]) if several_hosts else (self.teams[rank], None)
            made.append(Members(engine, context, rank, range(self.size), hosts, *teams))
        return made

    def run(self, function):
        """Call it with each rank, each in its thread."""
        errors = []

        def one(rank):
            try:
                function(rank)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=one, args=(rank,), daemon=True) for rank in range(self.size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(5 if errors else 60)
        if errors:
            raise errors[0]
        assert not any(thread.is_alive() for thread in threads), "a rank hangs"

    def close(self):
        for one in self.teams + self.host_teams:
            if one is not None:
                one.close()
        for engine in self.engines:
            engine.close()


@pytest.fixture(scope="module")
def worlds():
    made = {size: Ranks(size) for size in SIZES}
    yield made
    for ranks in made.values():
        ranks.close()


def check(ranks, name, algorithm, seed, blocking=True):
    size = ranks.size
    reduces = name in ("reduce", "allreduce", "scan", "exscan") or name.startswith("reduce_scatter")
    operation = NativeSum() if seed % 2 or algorithm == "shared_memory" else Product()
    case = Case(size, seed % size, (0, 1, 37, 5000, 70001)[seed % 5], seed % 3 == 0, operation, seed)
    outcome = Check(case)
    arguments = PRIMITIVES[name](outcome)
    members = ranks.members(algorithm == "two_level", context=9 + 2 * seed)
    primitive = module(name)

    def one(rank):
        exchange = members[rank].exchange(blocking)
        against = primitive.PRIMITIVE.against(algorithm, exchange, operation if reduces else None)
        chosen = None if against else algorithm
        if blocking:
            primitive.run(exchange, *arguments[rank], algorithm=chosen)
        else:
            primitive.start(exchange, *arguments[rank], algorithm=chosen).wait()

    ranks.run(one)
    outcome.verify()


@pytest.mark.parametrize(("name", "algorithm"), ALGORITHMS, ids=lambda value: value)
def test_blocking(worlds, name, algorithm):
    for seed, size in enumerate(SIZES + SIZES):
        check(worlds[size], name, algorithm, seed)


@pytest.mark.parametrize("name", PRIMITIVES)
def test_started(worlds, name):
    algorithms = list(module(name).PRIMITIVE.algorithms)
    for seed, size in enumerate(SIZES + SIZES):
        check(worlds[size], name, algorithms[seed % len(algorithms)], seed, blocking=False)


def test_a_failure_elsewhere_ends_a_call_that_waits_for_somebody_else():
    """Rank 0 waits for rank 1, which lives but will not go on, since rank 2 is gone."""
    ranks = Ranks(3)
    try:
        (root, *_) = ranks.members(False)
        waiting = threading.Timer(0.05, ranks.engines[0].fail, [2, "its process died"])
        waiting.start()
        with pytest.raises(core.MessageError, match="its process died") as told:
            module("bcast").run(root.exchange(), memoryview(bytearray(1)), 1, algorithm="flat_tree")
        assert told.value.peer == 2
        waiting.join()
    finally:
        ranks.close()
