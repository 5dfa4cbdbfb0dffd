"""System V segments: marked for removal as soon as they are made, checked when attached, swept where a maker died."""

from __future__ import annotations

import os
import select
import signal
import threading

import pytest

from fastsock.testing.ranks import RankMaker, finish

sysv_ipc = pytest.importorskip("sysv_ipc")

from fastsock import core  # noqa: E402
from fastsock.xxdev import sysvdev  # noqa: E402

RING = 4096


def rows():
    """The kernel's table: number -> fields."""
    with open("/proc/sysvipc/shm") as table:
        names = next(table).split()
        found = [dict(zip(names, map(int, line.split()), strict=False)) for line in table]
    return {row["shmid"]: row for row in found}


def test_a_segment_goes_with_its_last_user():
    number, token, segment = sysvdev.make(RING)
    assert rows()[number]["key"] == 0, "it is marked for removal"
    assert rows()[number]["nattch"] == 1
    second = core.Segment.of_system_v(number, token)
    assert rows()[number]["nattch"] == 2
    del segment, second
    assert number not in rows()


def test_most_of_a_segment_is_never_touched():
    number, _, segment = sysvdev.make(1 << 20)
    row = rows()[number]
    assert row["size"] > 16 << 20 and row["rss"] < 1 << 20
    del segment


def test_another_token_is_refused():
    number, token, segment = sysvdev.make(RING)
    with pytest.raises(core.ProtocolViolation, match="IPC namespace"):
        core.Segment.of_system_v(number, token + 1)
    assert rows()[number]["nattch"] == 1
    del segment


def _left_behind():
    memory = sysv_ipc.SharedMemory(0x46530007, sysv_ipc.IPC_CREAT, mode=0o600, size=8192)
    memory.detach()
    return memory.id


def test_what_a_killed_maker_left_is_swept():
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, b"%d" % _left_behind())
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    number = int(os.read(reading, 20))
    os.close(reading)
    os.close(writing)
    assert number in rows()
    assert sysvdev.sweep() >= 1
    assert number not in rows()


def test_what_belongs_to_the_living_or_to_others_is_not_swept():
    mine = _left_behind()
    other = sysv_ipc.SharedMemory(0x12340007, sysv_ipc.IPC_CREAT, mode=0o600, size=8192)
    other.detach()
    try:
        sysvdev.sweep()
        assert mine in rows() and other.id in rows()
    finally:
        sysv_ipc.remove_shared_memory(mine)
        other.remove()


def _connect_in_vain(here):
    """Needs rank 1, then not any more. The last step of the connection comes late: when rank 1 is gone, if it goes."""
    settle, reached = here.device.connections.settle, threading.Event()

    def held(peer, sock, *arguments):
        reached.set()
        gone = select.poll()
        gone.register(os.pidfd_open(here.device.job.pids[1]), select.POLLIN)
        gone.poll(500)
        settle(peer, sock, *arguments)

    here.device.connections.settle = held
    assert here.device.isend("never", 1, 9).cancel()
    reached.wait()


def _send_and_finish(here):
    here.device.send("last", 0, 1)
    finish(here)
    os._exit(0)


def _receive(here):
    return here.device.recv(None, 1, 1).value


def test_a_rank_does_not_finish_before_the_other_has_attached_what_it_wrote_into():
    """The segment goes with its last user, and what lies in it too."""
    with RankMaker("sysvdev").ranks(2) as ranks:
        ranks.run(0, _connect_in_vain)
        ranks.begin(1, _send_and_finish)
        assert ranks.run(0, _receive) == "last"
        assert ranks.processes[1].wait() == 0
