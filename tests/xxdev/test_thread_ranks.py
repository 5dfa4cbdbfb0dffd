"""Ranks that are threads of one process."""

from __future__ import annotations

import re
import threading

import pytest

from fastsock.xxdev.job import JobError, threads

from .launchers import DEADLINE


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
