"""Order and fairness under random traffic: real ranks, every message known beforehand."""

from __future__ import annotations

import os
import threading

import pytest

from fastsock.testing.memory import PeakGrowth

from . import traffic
from .makers import ALL, ranks_on

LONG = bool(os.environ.get("FASTSOCK_SOAK"))
SEED = int(os.environ.get("FASTSOCK_TEST_SEED", "1"))
ROUNDS = int(os.environ.get("FASTSOCK_TEST_ROUNDS") or (300 if LONG else 2))
COUNT = 1000 if LONG else 150
ANY = -1


@pytest.fixture(params=ALL)
def maker(request):
    """Ranks on each device and path."""
    return ranks_on(request.param)


def _traffic(device, seeds, count):
    return sum(traffic.take_part(device, seed, count, base=2 * (seed % 1000)) for seed in seeds)


@pytest.mark.timeout(3600 if LONG else 120)
@pytest.mark.parametrize("size", [2, 3, 5])
def test_random_traffic(maker, size):
    for each in range(ROUNDS if LONG else 1):
        seeds = range(SEED + 1000 * size + each * ROUNDS, SEED + 1000 * size + (each + 1) * ROUNDS)
        assert sum(maker.run(size, _traffic, seeds, COUNT)) == size * COUNT * ROUNDS


def _by_threads(device, count):
    """Each thread of a rank has traffic of its own with the same thread of the others."""
    came, failures = [], []

    def body(thread):
        try:
            came.append(traffic.take_part(device, SEED + thread, count, base=2 * thread))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=body, args=(thread,)) for thread in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    if failures:
        raise failures[0]
    return sum(came)


@pytest.mark.timeout(3600 if LONG else 120)
def test_several_threads_with_traffic_of_their_own(maker):
    for _ in range(ROUNDS if LONG else 1):
        assert sum(maker.run(2, _by_threads, COUNT // 3)) == 2 * 4 * (COUNT // 3)


FLOOD = 1500  # messages of 16 KiB: many times the 4 MiB of credit that a rank has at another


def _fairness(device):
    """Rank 0 is flooded by rank 1; what rank 2 sent is received before more than what had already come."""
    me = device.id()
    if me == 1:
        block = bytes(16 << 10)
        for _ in range(FLOOD):
            device.send(block, 0, 1)
        return
    if me == 2:
        device.recv(None, 0, 2)
        device.send("one", 0, 1)
        return
    device.recv(None, 1, 1)
    device.send(b"", 2, 2)
    while device.iprobe(2, 1) is None:
        pass
    before = 0
    while device.recv(None, ANY, 1).source != 2:
        before += 1
    assert before < FLOOD // 2, "a wildcard receive took much more of one rank before the other's one message"
    for _ in range(FLOOD - 1 - before):
        device.recv(None, 1, 1)


def test_a_flood_does_not_starve_another_rank(maker):
    maker.run(3, _fairness)


def _many_to_one(device, count):
    """All flood one rank, which receives in wild order: memory stays bounded, each sender's order holds."""
    me, size = device.id(), device.job.size
    if me:
        block = bytes(30_000)
        sends = [device.isend(b"%08d" % number + block, 0, 1) for number in range(count)]
        for each in sends:
            each.iwait()
        return 0
    memory = PeakGrowth()
    seen = [0] * size
    for _ in range(count * (size - 1)):
        status = device.recv(None, ANY, ANY)
        assert int(status.value[:8]) == seen[status.source]
        seen[status.source] += 1
    return memory.kib()


def test_many_floods_at_once_use_bounded_memory(maker):
    count = 8000 if LONG else 500
    grown = max(maker.run(4, _many_to_one, count))
    if not maker.threads:  # there what the senders hold is the same process's
        assert grown < 36_000, f"{grown} KiB more resident"
