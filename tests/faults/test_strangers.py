"""Faults: another user, squatted and disturbed names, nonsense in the shared memory.

FASTSOCK_SOAK=1 runs the long forms (a thousand rounds of nonsense).
"""

from __future__ import annotations

import encodings.idna  # noqa: F401  (another user may not be able to load it later)
import os
import random
import select
import socket
import struct

import pytest

from fastsock.testing import FarProcess
from fastsock.testing.names import names_of
from fastsock.testing.outcomes import outcome, receive

from ..helpers.paths import carriers_of
from .processes import LONG, RECEIVED, Progress, accept, connect, exchange, listen, serve_once, settle

HOSTILE = 1000 if LONG else 10
NOBODY = 65534
TURNS = 40  # both ends have looked for each other by then
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def _become_nobody(here):
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


@needs_root
@pytest.mark.parametrize("foreign", ["server", "client"])
def test_another_user(near, foreign):
    """Two users do not share memory: TCP carries the bytes, and the reason is told."""
    with FarProcess() as server, FarProcess() as client:
        (server if foreign == "server" else client).run(_become_nobody)
        address = server.run(listen, near)
        for _ in range(3):
            serving = server.begin(serve_once, near)
            took = client.run(exchange, near, address)
            assert serving.result() == took == ("plain" if carriers_of(near) == ("plain",) else "tcp")
        if near.transport == "shm":
            serving = server.begin(_serve_long, near)
            assert client.run(_reason, near, address, TURNS) == "other_user"
            assert serving.result() == "other_user"


def _reason(here, maker, address, turns=1):
    import fastsock

    with maker.connect(address) as sock:
        for _ in range(turns):
            sock.sendall(b"hello")
            assert receive(sock, 5) == b"hello"
        return str(fastsock.explain(sock).reason)


def _serve_long(here, maker):
    import fastsock

    sock, _ = here.listener.accept()
    with sock:
        while data := sock.recv(5):
            sock.sendall(data)
        return str(fastsock.explain(sock).reason)


def _disturb(here, names, count):
    """Connect to every name and say nonsense, with a descriptor now and then."""
    chooser = random.Random(5)
    for _ in range(count):
        for name, kind in names.items():
            with socket.socket(socket.AF_UNIX, kind) as sock:
                sock.setblocking(False)
                try:
                    sock.connect(name)
                except OSError:
                    continue
                data = chooser.randbytes(chooser.choice((0, 1, 16, 100, 4096)))
                if chooser.random() < 0.3:
                    outcome(socket.send_fds, sock, [data or b"x"], [0, 1, 2][: chooser.randrange(4)])
                else:
                    outcome(sock.send, data)


@pytest.mark.parametrize("who", ["another user", "the same user"])
def test_nonsense_at_the_names(near, who):
    """Strangers connect to every name that a listener and waiting clients have bound: all are served."""
    if who == "another user" and os.geteuid() != 0:
        pytest.skip("only root can become another user")
    with FarProcess() as stranger, FarProcess() as server, FarProcess() as client:
        if who == "another user":
            stranger.run(_become_nobody)
        address = server.run(listen, near)
        for _ in range(5):
            connecting = client.begin(exchange, near, address)
            client.until_blocked()
            names = names_of(server.pid) | names_of(client.pid)
            stranger.run(_disturb, names, 3)
            serving = server.begin(serve_once, near)
            took = connecting.result()
            assert serving.result() == took
        # Left alone again, the path is taken.
        serving = server.begin(serve_once, near)
        server.until_blocked()
        assert client.run(exchange, near, address) in (*carriers_of(near), "tcp")
        serving.result()


def _scribble_for_ever(here, seed):
    """Write nonsense all over what this process can reach of the shared memory, and use the socket in between."""
    chooser = random.Random(seed)
    with open("/proc/self/maps") as file:
        starts = [int(line.partition("-")[0], 16) for line in file if "memfd:fastsock" in line]
    here.sock.settimeout(0)
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        while True:
            for _ in range(chooser.randrange(1, 20)):
                value = chooser.choice((0, 1, 2, os.getpid(), chooser.getrandbits(16), chooser.getrandbits(64)))
                memory.seek(chooser.choice(starts) + 8 * chooser.randrange(2048 // 8))
                memory.write(struct.pack("Q", value))
            outcome(here.sock.send, bytes(chooser.choice((1, 5000))))
            outcome(here.sock.recv, 5000)
            here.progress.set(RECEIVED, here.progress.get(RECEIVED) + 1)


def _endure(here):
    """Use the socket in every way until it ends; each call must come back."""
    here.sock.settimeout(0.05)
    buffer = bytearray(300_000)
    calls = (
        lambda: here.sock.recv_into(buffer),
        lambda: here.sock.send(buffer),
        lambda: here.sock.recv(10, socket.MSG_PEEK),
        lambda: here.sock.recv(70_000),
        lambda: here.sock.send(b"x"),
        lambda: select.select([here.sock], [here.sock], [], 0),
    )
    ends = 0
    while ends < 10:
        for call in calls:
            found = outcome(call)
            ends += found == b"" or str(found).startswith(("ConnectionReset", "BrokenPipe", "ProtocolViolation"))
    here.sock.close()


def test_hostile_memory(near):
    """What the other end writes into the shared memory can end its own connection; it crashes and hangs nobody."""
    if near.transport != "shm":
        pytest.skip("no shared memory")
    for seed in range(HOSTILE):
        progress = Progress()
        with FarProcess() as server, FarProcess(progress=progress) as client:
            address = server.run(listen, near)
            accepting = server.begin(accept, near)
            client.run(connect, near, address)
            accepting.result()
            settling = server.begin(settle, near)
            client.run(settle, near)
            settling.result()
            enduring = server.begin(_endure)
            client.begin(_scribble_for_ever, seed)
            while progress.get(RECEIVED) < 50:
                os.sched_yield()
            client.kill()
            client.wait()
            enduring.result()
            accepting = server.begin(accept, near)  # others are served as ever
            with near.connect(address) as sock:
                accepting.result()
                near.check(sock)
