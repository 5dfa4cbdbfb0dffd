"""How ranks find each other and hear of each other's end: the server of a job and its clients."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import struct
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastsock.xxdev import hello
from fastsock.xxdev.job import JobError, addresses, client, frames, hosting

from .launchers import DEADLINE, SECRET


@pytest.fixture
def server():
    """A server for three ranks, in a thread of this process."""
    hosted = hosting.Hosted(size=3, job="test", secret=SECRET, one_host=False)
    hosted.start()
    yield hosted.server
    for rank in range(1, 3):
        hosted._gone(rank)
    hosted.finish()


def join(server, rank, **changes):
    values = {"rank": rank, "size": 3, "name": "test", "secret": SECRET, "servers": server.addresses[:1]}
    return client.WiredJob(**(values | changes), launcher="test")


@pytest.fixture
def jobs(server):
    joined = [join(server, rank) for rank in range(3)]
    yield joined
    for job in joined:
        job.finish()
        job.close()


# ---- the server and its clients ----


def test_all_know_where_all_are(jobs):
    for job in jobs:
        assert job.local_ranks == [0, 1, 2]
        assert job.pids == [os.getpid()] * 3
        assert job.hostnames == [os.uname().nodename] * 3
        assert job.interface == "127.0.0.1"


def test_what_is_published_is_found_by_whoever_waits(jobs):
    found = []
    thread = threading.Thread(target=lambda: found.append(jobs[2].address_of(0)))
    thread.start()
    jobs[0].announce("10.0.0.1", 4711)
    thread.join()
    assert found == [("10.0.0.1", 4711)] == [jobs[1].address_of(0)]
    jobs[0].publish("big", bytes(3 << 20))
    assert jobs[1].lookup("big") == bytes(3 << 20)


def test_a_lookup_may_end_by_its_time(jobs):
    with pytest.raises(TimeoutError, match="'nothing'"):
        jobs[0].lookup("nothing", timeout=0.05)


def test_nobody_passes_a_fence_before_all_are_there(jobs):
    passed = []

    def go(job):
        job.fence()
        passed.append(job.rank)

    waiting = [threading.Thread(target=go, args=(job,)) for job in jobs[:2]]
    for thread in waiting:
        thread.start()
    jobs[2].publish("order", b"")
    assert jobs[2].lookup("order") == b""  # so the server has served what came before
    assert passed == []
    go(jobs[2])
    for thread in waiting:
        thread.join()
    assert sorted(passed) == [0, 1, 2]


def test_a_rank_that_finished_is_not_waited_for(jobs):
    jobs[2].finish()
    jobs[2].close()
    thread = threading.Thread(target=jobs[0].fence)
    thread.start()
    jobs[1].fence()
    thread.join()
    assert jobs[0].failed == {}


def test_a_death_is_told_to_all_by_name(jobs):
    heard = [threading.Event() for _ in range(2)]
    told = []

    def listen(job, event):
        job.on_failure(lambda rank, reason: (told.append((job.rank, rank, reason)), event.set()))

    for job, event in zip(jobs[:2], heard, strict=True):
        listen(job, event)
    jobs[2].close()
    for event in heard:
        assert event.wait(DEADLINE)
    for by, rank, reason in sorted(told):
        assert by in (0, 1)
        assert rank == 2
        assert re.match(rf"rank 2 \(host \S+, pid {os.getpid()}\) ended", reason)
    with pytest.raises(JobError, match="rank 2"):
        jobs[0].address_of(2)
    late = []
    jobs[1].on_failure(lambda rank, reason: late.append(rank))
    assert late == [2]


def test_a_death_ends_the_waiting_at_a_fence(jobs):
    ended = []

    def wait():
        with pytest.raises(JobError, match="rank 2"):
            jobs[0].fence()
        ended.append(True)

    thread = threading.Thread(target=wait)
    thread.start()
    jobs[2].close()
    thread.join()
    assert ended == [True]


def test_who_joins_late_hears_of_earlier_deaths(server):
    one = join(server, 0)
    died = threading.Event()
    one.on_failure(lambda *_: died.set())
    join(server, 1).close()
    assert died.wait(DEADLINE)
    late = join(server, 2)
    heard = threading.Event()
    late.on_failure(lambda *_: heard.set())
    assert heard.wait(DEADLINE)
    for job in (one, late):
        job.finish()
        job.close()


def test_a_second_rank_of_one_number_hears_why_it_is_refused(server):
    """What it sends before it has heard does not cost it the reply, as a reset would."""
    joined = join(server, 1)
    with contextlib.closing(
        socket.create_connection(addresses.split_host(server.addresses[1][4:], "its address"))
    ) as second:
        hello.connect(second, secret=SECRET, job="test", rank=1, peer=hello.SERVER, role="control")
        second.settimeout(DEADLINE)
        frame = frames.pack(frames.PUT, b"key", bytes(1000))
        for _ in range(500):
            second.sendall(frame)
        told = b""
        while data := second.recv(4096):
            told += data
            second.sendall(frame)
    (found,) = frames.Reader().feed(told)
    assert found == (frames.ABORTED, [b"-1", b"1", b"rank 1 of this job has joined already"])
    joined.finish()
    joined.close()


def test_another_secret_is_refused(server):
    with pytest.raises(addresses.WireupError, match="refused"):
        join(server, 0, secret=b"x" * 32, servers=server.addresses[:1])


def stranger(server):
    return addresses.connect(server.addresses[:1], DEADLINE, retry=False)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=300), max_size=4))
def test_strangers_with_garbage_are_closed_and_disturb_nobody(pieces):
    with contextlib.ExitStack() as stack:
        hosted = hosting.Hosted(size=1, job="test", secret=SECRET, one_host=True)
        hosted.start()
        stack.callback(hosted.finish)
        silent = stranger(hosted.server)
        stack.callback(silent.close)
        loud = stranger(hosted.server)
        stack.callback(loud.close)
        with contextlib.suppress(OSError):
            for piece in pieces:
                loud.send(piece)
            loud.shutdown(socket.SHUT_WR)
            loud.settimeout(DEADLINE)
            while loud.recv(1000):
                pass
        job = client.WiredJob(0, 1, "test", SECRET, hosted.server.addresses, launcher="test")
        job.publish("key", b"value")
        assert job.lookup("key") == b"value"
        job.finish()
        job.close()


@pytest.mark.parametrize(
    "data",
    [
        frames.pack(99),
        frames.pack(frames.PUT, b"one"),
        struct.pack("!IBI", 1 << 31, frames.PUT, 1),
        struct.pack("!IBI", 4, frames.GET, 1) + struct.pack("!I", 99),
        struct.pack("!IBI", 4, frames.GET, 1 << 31) + struct.pack("!I", 0),
        frames.pack(frames.ABORT, b"x", b""),
    ],
)
def test_a_rank_that_sends_nonsense_is_given_up_alone(server, data):
    good = join(server, 0)
    heard = threading.Event()
    good.on_failure(lambda *_: heard.set())
    bad = stranger(server)
    hello.connect(bad, secret=SECRET, job="test", rank=1, peer=hello.SERVER, role="control")
    bad.send(data)
    assert heard.wait(DEADLINE)
    assert "given up" in good.failed[1]
    good.publish("key", b"value")
    assert good.lookup("key") == b"value"
    bad.close()
    good.finish()
    good.close()


@given(st.binary(max_size=400))
def test_frames_of_random_bytes(data):
    reader = frames.Reader()
    try:
        for _, strings in reader.feed(data):
            assert sum(map(len, strings)) <= len(data)
    except frames.FrameError:
        pass


@given(st.lists(st.tuples(st.integers(0, 255), st.lists(st.binary(max_size=50), max_size=4)), max_size=5), st.data())
def test_frames_in_any_pieces(sent, data):
    stream = b"".join(frames.pack(kind, *strings) for kind, strings in sent)
    reader, got = frames.Reader(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        got += reader.feed(stream[:size])
        stream = stream[size:]
    assert [(kind, strings) for kind, strings in got] == sent
