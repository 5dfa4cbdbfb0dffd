"""Ranks over sockets whose connections stay TCP: both directions go into memory, or none does."""

from __future__ import annotations

import os

import pytest

from fastsock.testing.ranks import RankMaker

from . import traffic
from .makers import ranks_on

SEED = int(os.environ.get("FASTSOCK_TEST_SEED", "1"))
ROUNDS = int(os.environ.get("FASTSOCK_TEST_ROUNDS") or 2)
COUNT = 60
MEMORY = {"FASTSOCK_TRANSPORTS": "shm,tcp"}


def _carried(device, seeds):
    """Random traffic, each byte checked; what carried it, by rank."""
    came = sum(traffic.take_part(device, seed, COUNT, base=2 * (seed % 1000)) for seed in seeds)
    assert came >= 0
    others = [rank for rank in range(device.job.size) if rank != device.id()]
    for rank in others:
        device.isend(b"at last", rank, 9, 7)
    for rank in others:
        device.recv(None, rank, 9, 7)
    found = [device.explain(rank) for rank in others]
    assert all(one.sent_by == one.received_by for one in found if one.sent_by is not None), found
    return {one.transport for one in found}


def _with(variables):
    """Ranks that find other variables: `variables(rank)`."""
    return RankMaker("iodev", enter=lambda rank: os.environ.update(variables(rank)))


def _seeds():
    return range(SEED, SEED + ROUNDS)


@pytest.mark.parametrize("after", ("0", "1", "3", "1000000"))
def test_memory_is_gained_before_the_hello_is_over_or_behind_it(after):
    maker = _with(lambda rank: MEMORY | {"FASTSOCK_UPGRADE_AFTER": after})
    assert maker.run(3, _carried, _seeds()) == [{"shm"}] * 3


@pytest.mark.parametrize("which", (0, 1))
def test_a_rank_that_takes_no_memory(which):
    maker = _with(lambda rank: {"FASTSOCK_TRANSPORTS": "tcp"} if rank == which else MEMORY)
    assert maker.run(2, _carried, _seeds()) == [{"tcp"}] * 2


def _failing(device, name, which, seeds):
    from fastsock.connection import carriers

    if device.id() == which:
        setattr(carriers, name, lambda *_: False)
    return _carried(device, seeds)


@pytest.mark.parametrize("which", (0, 1))
@pytest.mark.parametrize("name", ("takes_memory", "attach", "is_by_memory"))
@pytest.mark.parametrize("after", ("0", "1000000"))
def test_what_fails_at_one_end_leaves_both_on_tcp(name, which, after):
    """An end does not look for the other one, or does not find it, or a direction is not in memory in time."""
    maker = _with(lambda rank: MEMORY | {"FASTSOCK_UPGRADE_AFTER": after})
    found = maker.run(2, _failing, name, which, _seeds())
    assert found[0] == found[1]
    if name == "attach":  # the others are asked by the end that connects, and that may be either one
        assert found == [{"tcp"}] * 2


def _on_one_core(device, seeds):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    return _carried(device, seeds)


def test_ranks_on_one_core():
    assert ranks_on("shm").run(4, _on_one_core, _seeds()) == [{"shm"}] * 4


def _sleepy(device, other, turns):
    """Each message finds the other rank asleep, and wakes it; most of them are empty, some do not fit the ring."""
    total = 0
    for turn in range(turns):
        length = 3_000_000 if turn % 97 == 0 else turn % 3
        if turn % 2 == device.id():
            device.send(bytes([turn % 251]) * length, other, 1)
        else:
            value = device.recv(None, other, 1).value
            assert value == bytes([turn % 251]) * length
            total += len(value)
    return total


def _sleepy_pair(device, turns):
    return _sleepy(device, 1 - device.id(), turns)


@pytest.mark.parametrize("spin", ("0", "20"))
def test_a_rank_that_sleeps_is_woken_by_each_message(spin):
    maker = _with(lambda rank: MEMORY | {"FASTSOCK_MPJ_SPIN_US": spin})
    first, second = maker.run(2, _sleepy_pair, 400 * ROUNDS)
    assert first + second > 3_000_000


def _explained(device):
    other = 1 - device.id()
    assert device.explain(other) is None
    _carried(device, [SEED])
    from fastsock.reporting import explanation

    listed = [one for one in explanation.connections() if one.state == "open" and one.transport == "shm"]
    found = device.explain(other)
    device.job.fence()
    return found.transport, found.reason, found.role, len(listed)


def test_the_memory_is_told_of_in_reports():
    (*first, role), (*second, other_role) = ((a, b, d, c) for a, b, c, d in ranks_on("shm").run(2, _explained))
    assert first == second == ["shm", "joined", 1]
    assert {role, other_role} == {"connect", "accept"}
