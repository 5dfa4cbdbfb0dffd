"""A rank that is killed at a random moment: the others are told by name, within a second, and none hangs."""

from __future__ import annotations

import os
import random
import select
import signal
import time

import pytest

from fastsock.testing.ranks import RankMaker

from . import traffic
from .makers import PROCESSES, ranks_on

LONG = bool(os.environ.get("FASTSOCK_SOAK"))
ROUNDS = int(os.environ.get("FASTSOCK_TEST_ROUNDS") or (1000 if LONG else 4))
SEED = int(os.environ.get("FASTSOCK_TEST_SEED", "1"))
LIMIT = 10.0  # that a loaded machine's scheduler adds nothing to; what is promised is a second


@pytest.fixture(params=PROCESSES)
def maker(request):
    """Ranks that are processes, on each path."""
    return ranks_on(request.param)


def _for_ever(here, seed):
    """Traffic without end; what ended it, and when."""
    from fastsock.xxdev import XxdevError

    base = 0
    try:
        while True:  # a rank may be a round ahead: that has contexts of its own
            traffic.take_part(here.device, seed, 40, base)
            seed += 1
            base = (base + 2) % 8
    except XxdevError as error:
        when = time.monotonic()
        _end(here)  # so that those who wait for this rank hear of it
        return int(error.code), error.peer, str(error), when


def _end(here):
    here.device.finish()
    here.device.job.finish()


@pytest.mark.timeout(7200 if LONG else 120)
def test_kill_during_traffic(maker):
    from fastsock.xxdev import Code

    choose = random.Random(SEED)
    for each in range(ROUNDS):
        size = choose.choice((2, 3, 4))
        victim = choose.randrange(size)
        with maker.ranks(size) as ranks:
            pending = [ranks.begin(rank, _for_ever, SEED * 100 + each) for rank in range(size)]
            # from the very first connections on
            select.select([], [], [], choose.choice((0, 0.001, 0.01, 0.05)) * choose.random())
            ranks.processes[victim].kill(signal.SIGKILL)
            killed = time.monotonic()
            for rank in range(size):
                if rank == victim:
                    continue
                code, peer, text, when = pending[rank].result()
                assert code == Code.PEER_FAILED, text
                # who needs a rank that left because of the victim hears of that one
                assert f"rank {peer}" in text and peer != rank
                assert when - killed < LIMIT, f"rank {rank} was told after {when - killed:.1f} s"
            ranks.processes[victim].wait()


def _first_use(here, other):
    """Connects, perhaps from both ends at once, while the other dies."""
    from fastsock.xxdev import XxdevError

    try:
        here.device.send(b"x", other, 1)
        here.device.recv(None, other, 1)
        here.device.recv(None, other, 2)
    except XxdevError as error:
        return error.peer, str(error), time.monotonic()


@pytest.mark.timeout(7200 if LONG else 120)
def test_kill_while_connecting(maker):
    choose = random.Random(SEED)
    for _ in range(ROUNDS):
        with maker.ranks(2) as ranks:
            pending = [ranks.begin(rank, _first_use, 1 - rank) for rank in range(2)]
            select.select([], [], [], 0.004 * choose.random())
            victim = choose.randrange(2)
            ranks.processes[victim].kill(signal.SIGKILL)
            killed = time.monotonic()
            peer, text, when = pending[1 - victim].result()
            assert peer == victim and f"rank {victim}" in text
            assert when - killed < LIMIT
            ranks.processes[victim].wait()


def _wait_for(here, source, tag):
    from fastsock.xxdev import XxdevError

    try:
        return here.device.recv(None, source, tag).value
    except XxdevError as error:
        return int(error.code), error.peer, str(error)


def _probe_for(here, source, tag):
    from fastsock.xxdev import XxdevError

    try:
        return here.device.probe(source, tag).length
    except XxdevError as error:
        return int(error.code), error.peer, str(error)


def _send(here, value, to, tag):
    here.device.send(value, to, tag)


@pytest.mark.parametrize("source", [1, -1], ids=["exact", "any"])
@pytest.mark.parametrize("connected", [False, True], ids=["never-connected", "connected"])
def test_a_receive_ends_when_its_sender_dies(maker, source, connected):
    with maker.ranks(3) as ranks:
        if connected:
            ranks.run(1, _send, "hello", 0, 1)
            assert ranks.run(0, _wait_for, 1, 1) == "hello"
        waiting = ranks.begin(0, _wait_for, source, 5)
        ranks.processes[0].until_asleep()
        ranks.processes[1].kill()
        code, peer, text = waiting.result()
        assert (code, peer) == (2, 1) and "rank 1" in text
        ranks.processes[1].wait()
        # the others go on
        sending = ranks.begin(2, _send, "still here", 0, 6)
        assert ranks.run(0, _wait_for, 2, 6) == "still here"
        sending.result()
        # what names the dead one fails at once
        assert ranks.run(0, _wait_for, 1, 7)[:2] == (2, 1)


def test_what_is_received_of_a_dead_rank_is_the_beginning(maker):
    with maker.ranks(2) as ranks:
        for tag in range(20):
            ranks.run(1, _send, tag, 0, tag)
        assert ranks.run(0, _wait_for, 1, 0) == 0
        ranks.processes[1].kill()
        ranks.processes[1].wait()
        got = [ranks.run(0, _wait_for, 1, tag) for tag in range(1, 20)]
        whole = [value for value in got if isinstance(value, int)]
        # a reset, or the news of the death, may overtake what is still under way: the end is missing, and told
        assert whole == list(range(1, len(whole) + 1)), got
        assert all(value[:2] == (2, 1) for value in got[len(whole) :]), got


def _announce(here):
    here.request = here.device.isend(bytes(1 << 20), 0, 1)
    here.device.send("after it", 0, 1)
    here.device.send("known", 0, 2)


@pytest.mark.parametrize("end", ["killed", "finished"])
@pytest.mark.parametrize("source", [1, -1], ids=["exact", "any"])
def test_a_message_is_not_taken_for_one_before_it_that_was_lost(maker, source, end):
    """The first one's bytes were still in the rank that ended: a receive must fail for it, and not skip it."""
    with maker.ranks(2) as ranks:
        ranks.run(1, _announce)
        assert ranks.run(0, _wait_for, 1, 2) == "known"
        if end == "killed":
            ranks.processes[1].kill()
            ranks.processes[1].wait()
        else:
            ranks.run(1, _end)
        assert ranks.run(0, _wait_for, 1, 9)[:2] == (2, 1), "the end is known from here on"
        assert ranks.run(0, _probe_for, source, 1)[:2] == (2, 1)
        assert ranks.run(0, _wait_for, source, 1)[:2] == (2, 1)
        assert ranks.run(0, _wait_for, source, 1) == "after it"


def _close_engine(here):
    """As finish() does first. Connections are accepted still."""
    here.device.engine.close(timeout=0)


def test_who_connects_to_a_rank_that_is_finishing_is_told(maker):
    """The doorbell of a connection that cannot be attached must not stay open: nothing would ever come over it."""
    with maker.ranks(2) as ranks:
        ranks.run(1, _close_engine)
        peer, text, _ = ranks.run(0, _first_use, 1)
        assert peer == 1 and "rank 1" in text


def test_a_rank_that_has_finished_is_told_apart_from_a_dead_one(maker):
    with maker.ranks(2) as ranks:
        ranks.run(1, _send, "last", 0, 1)
        assert ranks.run(0, _wait_for, 1, 1) == "last"
        ranks.run(1, _end)
        code, peer, text = ranks.run(0, _wait_for, 1, 2)
        assert peer == 1 and "finished" in text, (code, text)


@pytest.mark.timeout(7200 if LONG else 120)
def test_killed_ranks_leave_no_segments():
    """System V memory outlives processes: whatever moment a rank is killed at, nothing of it stays."""
    from fastsock.xxdev import sysvdev

    choose = random.Random(SEED)
    for _ in range(5 * ROUNDS):
        with RankMaker("sysvdev").ranks(2) as ranks:
            pids = {process.pid for process in ranks.processes}
            for rank in range(2):
                ranks.begin(rank, _first_use, 1 - rank)
            select.select([], [], [], 0.004 * choose.random())
            for process in ranks.processes:
                process.kill()
            for process in ranks.processes:
                process.wait()
        sysvdev.sweep()
        assert not pids & _makers()


def _makers():
    with open("/proc/sysvipc/shm") as table:
        names = next(table).split()
        return {int(line.split()[names.index("cpid")]) for line in table}
