"""Ranks that are threads of one process."""

from __future__ import annotations

import re
import threading

import pytest

from fastsock.xxdev import XxdevError, smpdev
from fastsock.xxdev.job import JobError, threads

from .launchers import DEADLINE

ROUNDS = 20
LONG = 1 << 20


def test_thread_ranks():
    seen = []

    def rank(job):
        job.publish(f"key{job.rank}", b"%d" % job.rank)
        seen.append(job.lookup(f"key{(job.rank + 1) % 4}"))
        job.fence()
        assert job.local_ranks == [0, 1, 2, 3]

    assert threads.run(4, rank) == [None] * 4
    assert sorted(seen) == [b"0", b"1", b"2", b"3"]


def test_a_thread_rank_that_fails_is_named():
    reasons = []

    def rank(job):
        if job.rank == 1:
            raise ValueError("wrong")
        heard = threading.Event()
        job.on_failure(lambda rank, reason: (reasons.append(reason), heard.set()))
        heard.wait(DEADLINE)
        with pytest.raises(JobError, match="rank 1"):
            job.lookup("never", of=1)

    errors = threads.run(3, rank)
    assert [type(error) for error in errors] == [type(None), ValueError, type(None)]
    assert all(
        re.match(r"rank 1 \(a thread of pid \d+\) ended by an uncaught ValueError: wrong", each) for each in reasons
    )
    assert len(reasons) == 2


def test_thread_ranks_have_an_exit_of_their_own():
    order = []

    def rank(job):
        job.at_exit(lambda: order.append("first registered"))
        job.at_exit(lambda: order.append("last registered"))

    threads.run(1, rank)
    assert order == ["last registered", "first registered"]


def test_a_rank_that_finished_before_another_began_is_known_to_that_one():
    finished = threading.Event()

    def first(device, job):
        device.init(job)
        device.finish()
        finished.set()

    def second(device, job):
        finished.wait()
        device.init(job)
        for call in (device.ssend, device.recv):
            with pytest.raises(XxdevError, match="it has finished"):
                call(None, 0, 1)
        with pytest.raises(XxdevError, match="it has finished"):
            device.send(bytes(LONG), 0, 1)
        device.send(None, 0, 1)  # nobody takes it
        assert device.iprobe(0, 1) is None
        device.send("to itself", 1, 1)
        assert device.recv(None, -1, 1).value == "to itself"
        device.finish()

    assert threads.run(2, lambda job: (first, second)[job.rank](smpdev.Smpdev(), job)) == [None, None]


def test_what_was_sent_to_a_rank_before_it_began_arrives():
    """Its sender has finished meanwhile, or is about to."""
    sent = threading.Event()

    def first(device, job):
        device.init(job)
        request = device.isend("early", 1, 1)
        sent.set()
        device.finish()
        request.iwait()

    def second(device, job):
        sent.wait()
        device.init(job)
        assert device.recv(None, 0, 1).value == "early"
        device.finish()

    for _ in range(ROUNDS):
        sent.clear()
        assert threads.run(2, lambda job: (first, second)[job.rank](smpdev.Smpdev(), job)) == [None, None]


@pytest.mark.parametrize("order", ["ends first", "ends last"])
def test_a_rank_that_never_begins_holds_nobody(order):
    turn = threading.Event()

    def first(job):
        if order == "ends first":
            turn.wait()
        device = smpdev.Smpdev()
        device.init(job)
        short, long = (device.isend(bytes(length), 1, 1) for length in (10, LONG))
        turn.set()
        device.finish()
        short.iwait()
        with pytest.raises(XxdevError, match="it has finished"):
            long.iwait()

    def second(job):
        if order == "ends first":
            job.at_exit(turn.set)
        else:
            turn.wait()

    assert threads.run(2, lambda job: (first, second)[job.rank](job)) == [None, None]


def test_thread_ranks_may_begin_again():
    over = threading.Barrier(2)

    def rank(job):
        device = smpdev.Smpdev()
        for number in range(3):
            device.init(job)
            device.send(number, 1 - job.rank, 1)
            assert device.recv(None, 1 - job.rank, 1).value == number
            device.finish()
            over.wait()

    assert threads.run(2, rank) == [None, None]


def test_thread_ranks_that_cannot_start():
    before = threading.stack_size(1 << 46)  # no process has room for one
    try:
        errors = threads.run(2, lambda job: None)
        with pytest.raises(RuntimeError, match="thread"):
            smpdev.run(2, lambda device: None)
    finally:
        threading.stack_size(before)
    assert [type(error) for error in errors] == [RuntimeError] * 2
