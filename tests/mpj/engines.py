"""Engines joined in every way, for the tests: in one process, so that threads or forked children are their ranks."""

from __future__ import annotations

import contextlib
import os
import socket

import pytest

pytest.importorskip("fastsock.core.binding._core")

from fastsock import core

PATHS = ("local", "shm", "unix", "tcp")


def join_shm(one, other, ring_bytes=256 * 1024):
    memory = core.create_segment(ring_bytes)
    doorbells = socket.socketpair()
    for engine, peer, doorbell, side in (
        (one, other, doorbells[0], core.CONNECTED),
        (other, one, doorbells[1], core.ACCEPTED),
    ):
        channel = core.Channel(core.Segment(memory), doorbell.detach(), side, peer_pid=os.getpid(), direct_min=1 << 16)
        engine.attach_channel(peer.rank, channel)
    os.close(memory)


def tcp_pair():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        return near, listener.accept()[0]


def join(one, other, path):
    if path == "local":
        one.attach_local(other.rank, other)
        other.attach_local(one.rank, one)
    elif path == "shm":
        join_shm(one, other)
    else:
        near, far = socket.socketpair() if path == "unix" else tcp_pair()
        one.attach_descriptor(other.rank, near.detach())
        other.attach_descriptor(one.rank, far.detach())


@contextlib.contextmanager
def joined(size, path, **options):
    engines = [core.Engine(rank, size, **options) for rank in range(size)]
    for number, one in enumerate(engines):
        for other in engines[number + 1 :]:
            join(one, other, path)
    try:
        yield engines
    finally:
        for engine in engines:
            engine.close(timeout=0)
