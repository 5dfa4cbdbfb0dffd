"""Ranks on several hosts, which are network namespaces here: shm inside each, tcp between; a cut link is an error."""

from __future__ import annotations

import functools
import os
import time

import pytest

from fastsock.testing.ranks import RankMaker

from ..helpers import hosts
from . import traffic

LONG = bool(os.environ.get("FASTSOCK_SOAK"))
SEED = int(os.environ.get("FASTSOCK_TEST_SEED", "1"))
ROUNDS = int(os.environ.get("FASTSOCK_TEST_ROUNDS") or (100 if LONG else 1))
SILENCE = ("FASTSOCK_MPJ_SILENCE_MS", "2000")


@pytest.fixture(scope="module", autouse=True)
def _possible():
    reason = hosts.why_not()
    if reason:
        pytest.skip(reason)


def _enter(lab, each, rank):
    """`each` ranks on every host; the job's server is on the first."""
    lab.enter(max(rank, 0) // each)


def _maker(lab, each, *environment):
    return RankMaker("iodev", environment, enter=functools.partial(_enter, lab, each), server=lab.ip(0))


def _paths(device):
    """Everybody speaks with everybody; by which path."""
    me, size = device.id(), device.job.size
    others = [rank for rank in range(size) if rank != me]
    sends = [device.isend(bytes(300_000), rank, 1) for rank in others]
    for rank in others:
        assert device.recv(None, rank, 1).length == 300_000
    for each in sends:
        each.iwait()
    return {rank: device.explain(rank).transport for rank in others}


@pytest.mark.parametrize(("count", "each"), [(2, 1), (2, 2), (2, 4), (4, 1), (4, 2)])
def test_shm_inside_and_tcp_between(count, each):
    with hosts.Hosts(count) as lab:
        found = _maker(lab, each).run(count * each, _paths)
    for rank, paths in enumerate(found):
        assert paths == {other: "shm" if other // each == rank // each else "tcp" for other in paths}


@pytest.mark.timeout(7200 if LONG else 120)
@pytest.mark.parametrize(("count", "each"), [(2, 2), (4, 1)])
def test_random_traffic(count, each):
    with hosts.Hosts(count) as lab:
        for round_ in range(ROUNDS):
            assert sum(_maker(lab, each).run(count * each, traffic.take_part, SEED + round_, 100)) == count * each * 100


def _send(here, to, value):
    here.device.send(value, to, 1)


def _receive(here, source):
    from fastsock.xxdev import XxdevError

    try:
        return here.device.recv(None, source, 1).value
    except XxdevError as error:
        return int(error.code), error.peer, str(error), time.monotonic()


def _send_much(here, to):
    from fastsock.xxdev import XxdevError

    try:
        while True:
            here.device.send(bytes(100_000), to, 1)
    except XxdevError as error:
        return int(error.code), error.peer, str(error), time.monotonic()


@pytest.mark.parametrize("role", ["receiver", "sender"])
def test_a_cut_link_is_an_error(role):
    """Both ranks live on, and nobody tells either: silence alone must end what waits."""
    with hosts.Hosts(2) as lab, _maker(lab, 1, SILENCE).ranks(2) as ranks:
        ranks.begin(1, _send, 0, "hello").result()
        assert ranks.run(0, _receive, 1) == "hello"
        if role == "receiver":
            waiting = ranks.begin(0, _receive, 1)
            ranks.processes[0].until_asleep()
        else:
            other = ranks.begin(1, _receive, 0)
            waiting = ranks.begin(0, _send_much, 1)
            assert len(other.result()) == 100_000
        lab.cut(1)
        cut = time.monotonic()
        code, peer, text, when = waiting.result()
        assert (code, peer) == (2, 1) and "rank 1" in text, text
        assert when - cut < 15, f"told after {when - cut:.1f} s of silence"


def test_an_unreachable_host_is_an_error():
    with hosts.Hosts(2) as lab, _maker(lab, 1, ("FASTSOCK_MPJ_CONNECT_MS", "500")).ranks(2) as ranks:
        lab.cut(1)
        began = time.monotonic()
        code, peer, text, when = ranks.run(0, _send_much, 1)
        assert (code, peer) == (2, 1) and "cannot be reached" in text and lab.ip(1) in text, text
        assert when - began < 10
