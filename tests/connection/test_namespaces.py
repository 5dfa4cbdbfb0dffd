"""Containers that share a network: process numbers and user numbers of one mean nothing, or something else, in another.

FASTSOCK_SOAK=1 runs the long form of the reconnects.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from ..faults.processes import LONG
from ..helpers.paths import environment
from ..xxdev.launchers import SHARED, by_hand, start_ranks

DEADLINE = 60
OWN_PROCESSES = ("unshare", "--pid", "--fork", "--kill-child")
HERE: tuple[str, ...] = ()


def _is_permitted(*command):
    return shutil.which(command[0]) and subprocess.run([*command, "true"], capture_output=True).returncode == 0


needs_pid_namespaces = pytest.mark.skipif(
    not _is_permitted(*OWN_PROCESSES), reason="needs util-linux and the right to make a PID namespace (root)"
)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

SERVER = """
import fastsock, socket, sys, threading
listener = socket.create_server(("127.0.0.1", 0), backlog=100)
print(listener.getsockname()[1], flush=True)
def serve(connection):
    with connection:
        fastsock.attach(connection, 20)
        while data := connection.recv(1 << 20):
            connection.sendall(data)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""
CLIENT = """
import socket, sys, fastsock
for size in [int(text) for text in sys.argv[2:]]:
    data = bytes(range(251)) * (size // 251 + 1)
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as sock:
        fastsock.attach(sock, 20)
        for _ in range(2):
            sock.sendall(data)
            received = b""
            while len(received) < len(data):
                received += sock.recv(1 << 20)
            assert received == data
        told = fastsock.explain(sock)
    print(told.transport, told.reason, flush=True)
"""


def _command(within, kind, text, *arguments):
    launcher = [] if kind == "plain" else ["-m", "fastsock.launcher"]
    return [*within, sys.executable, *launcher, "-c", text, *map(str, arguments)]


@pytest.fixture
def served(request):
    """The port of a server that runs within `request.param`, and the path that it takes."""
    within, kind = request.param
    variables = os.environ | environment(kind)
    with subprocess.Popen(_command(within, kind, SERVER), stdout=subprocess.PIPE, text=True, env=variables) as process:
        try:
            yield int(process.stdout.readline()), kind, variables
        finally:
            process.kill()


@needs_pid_namespaces
@pytest.mark.parametrize("client_within", [HERE, OWN_PROCESSES], ids=["client-here", "client-apart"])
@pytest.mark.parametrize(
    "served",
    [(within, kind) for within in (HERE, OWN_PROCESSES) for kind in ("shm",)],
    ids=["here", "apart"],
    indirect=True,
)
def test_connections_between_pid_namespaces(served, client_within):
    """Every one of many, from several processes one after the other, gains memory and carries its bytes."""
    port, kind, variables = served
    sizes = [1, 100_000, 3_000_000, *[1000] * 8] * (20 if LONG else 1)
    for _ in range(2):
        command = _command(client_within, kind, CLIENT, port, *sizes)
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, env=variables)
        assert done.returncode == 0, done.stderr
        told = [line.split() for line in done.stdout.splitlines()]
        assert told == [[kind, "joined"]] * len(sizes)


RANKS = """
import sys
import numpy
from fastsock.mpj import MPI
world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
for count in (1, 1000, 2_000_000):
    mine = numpy.full(count, rank + 1, dtype="i8")
    total = numpy.empty_like(mine)
    world.Allreduce(mine, total)
    assert (total == size * (size + 1) // 2).all()
    other = numpy.empty_like(mine)
    world.Sendrecv(mine, (rank + 1) % size, recvbuf=other, source=(rank - 1) % size)
    assert (other == (rank - 1) % size + 1).all()
    world.Barrier()
print(sorted(world.allgather({"rank": rank}), key=str)[0]["rank"], flush=True)
"""


@needs_pid_namespaces
@pytest.mark.parametrize("on_one_host", [True, False])
def test_ranks_in_pid_namespaces_of_their_own(on_one_host):
    """Each counts processes from one: numbers that all of them have must not be taken for one process."""
    pytest.importorskip("numpy")
    from ..helpers.programs import free_port

    port = free_port()
    each = [by_hand(rank, 3, port) | SHARED for rank in range(3)]
    if on_one_host:
        numbers = {"WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        each = [numbers | {"RANK": str(rank), "TORCHELASTIC_RUN_ID": f"apart-{port}"} for rank in range(3)]
    for status, output, errors in start_ranks(each, RANKS, OWN_PROCESSES):
        assert (status, output) == (0, "0\n"), errors


UNMAPPED = """
import ctypes, os, socket, sys, encodings.idna
import dataclasses, fastsock.reporting.explanation, fastsock.socket
from fastsock.meeting import unix_calls
os.setgroups([]); os.setgid(1002); os.setuid(1002)
if ctypes.CDLL(None).unshare(0x10000000):  # CLONE_NEWUSER, and no map
    sys.exit("refused")
fallback = unix_calls._is_own_user(os.geteuid())
listener = fastsock.socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], os.geteuid(), unix_calls.is_own_user(os.geteuid()), fallback, flush=True)
for _ in range(2):
    connection, _ = listener.accept()
    fastsock.attach(connection, 1)
    connection.sendall(connection.recv(10))
    told = fastsock.explain(connection)
    print(told.transport, told.reason, flush=True)
    connection.close()
"""
STRANGER = """
import os, sys, encodings.idna
import fastsock
import fastsock.socket
from fastsock import config
os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
config.configure(peers="any")  # a hostile one does not ask
with fastsock.socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as sock:
    fastsock.attach(sock, 1)
    sock.sendall(b"hi")
    assert sock.recv(10) == b"hi"
    print(sock.transport)
"""


@needs_root
def test_nobody_is_the_same_user_in_a_user_namespace_without_a_map():
    """There everybody has the number of this process, the overflow one: also who is not the same user."""
    variables = os.environ | environment("shm")
    started = [sys.executable, "-c", UNMAPPED]
    with subprocess.Popen(started, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables) as server:
        try:
            words = server.stdout.readline().split()
            if not words and "refused" in server.stderr.read():
                pytest.skip("another user may not make a user namespace here")
            assert words[1:] == ["65534", "False", "False"], server.stderr.read()
            for user in (1001, 1002):
                command = [sys.executable, "-c", STRANGER, words[0], str(user)]
                done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, env=variables)
                assert done.stdout == "tcp\n", done.stderr
                assert server.stdout.readline() == "tcp other_user\n"
        finally:
            server.kill()


@needs_root
def test_who_has_the_overflow_number_by_right_is_the_same_user():
    """In the first user namespace it is a number like any other: programs run as nobody."""
    text = "import os\nfrom fastsock.meeting import unix_calls\nos.setuid(65534)\n"
    text += "print(unix_calls.is_own_user(65534), unix_calls._is_own_user(65534), unix_calls.is_own_user(0))"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=DEADLINE)
    with open("/proc/self/uid_map") as file:
        by_right = file.readline().split()[2:] == ["4294967295"]
    assert done.stdout == f"{by_right} {by_right} False\n", done.stderr
