"""System V segments: marked for removal as soon as they are made, checked when attached, swept where a maker died."""

from __future__ import annotations

import os
import signal

import pytest

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
