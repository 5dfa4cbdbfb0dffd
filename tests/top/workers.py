"""Two ranks, and a daemon with a client, that work until they are told to end."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

RANKS = [sys.executable, "-m", "fastsock", "ranks", "-n", "2"]
# each round: 50 messages of 100 bytes each way, 50 barriers and a broadcast
RANK = """
import sys, threading
from fastsock.mpj import MPI
world = MPI.COMM_WORLD
rank, other = world.Get_rank(), 1 - world.Get_rank()
ended = threading.Event()
def listen():
    sys.stdin.readline()
    ended.set()
if rank == 0:
    threading.Thread(target=listen, daemon=True).start()
data = bytearray(100)
rounds = 0
while not world.bcast(ended.is_set() if rank == 0 else None):
    for _ in range(50):
        world.Sendrecv(b"x" * 100, other, recvbuf=data, source=other)
        world.Barrier()
    rounds += 1
    if rank == 0 and rounds == 2:
        print("ready", flush=True)
"""
DAEMON = """
import sys
from fastsock import rmi

@rmi.expose
class Store:
    def add(self, a: int, b: int) -> int:
        return a + b
    def fail(self) -> None:
        raise ValueError("no")

with rmi.Daemon() as daemon:
    daemon.register(Store(), "store", local=False)
    daemon.start()
    print(*daemon.address, flush=True)
    sys.stdin.readline()
"""
# 20 times nine calls and one that fails, then 10 calls in a batch; then more of the former, until a line comes
CLIENT = """
import contextlib, select, sys
from fastsock import rmi
store = rmi.connect("rmi://{}:{}/store")
def work():
    for _ in range(9):
        store.add(1, 2)
    with contextlib.suppress(ValueError):
        store.fail()
for _ in range(20):
    work()
with rmi.batch(store) as together:
    for _ in range(10):
        together.add(1, 2)
print("ready", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    work()
sys.stdin.readline()
rmi.close(store)
print("left", flush=True)
sys.stdin.readline()
"""
_PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}


@contextlib.contextmanager
def ranks(*before: str, device: str = "iodev") -> Iterator[subprocess.Popen]:
    """What started them, once both have worked for a while."""
    with subprocess.Popen([*before, *RANKS, "--device", device, "-c", RANK], **_PIPES) as runner:
        try:
            assert runner.stdout.readline() == "ready\n"
            yield runner
        finally:
            runner.communicate("\n")


@contextlib.contextmanager
def daemon(*before: str) -> Iterator[tuple[subprocess.Popen, subprocess.Popen, str]]:
    """The daemon, its client, once that has called for a while, and the daemon's host:port."""
    with subprocess.Popen([*before, sys.executable, "-c", DAEMON], **_PIPES) as server:
        host, port = server.stdout.readline().split()
        with subprocess.Popen([sys.executable, "-c", CLIENT.format(host, port)], **_PIPES) as client:
            try:
                assert client.stdout.readline() == "ready\n"
                yield server, client, f"{host}:{port}"
            finally:
                client.communicate("\n\n")
                server.communicate("\n")


def tell(process: subprocess.Popen) -> None:
    """It may go on."""
    process.stdin.write("\n")
    process.stdin.flush()


def children(process: subprocess.Popen) -> set[int]:
    """The process and those that it started, of any depth."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                parents[int(name)] = int(file.read().rpartition(") ")[2].split()[1])
        except OSError:
            continue
    found = {process.pid}
    for pid in sorted(parents):
        if parents[pid] in found:
            found.add(pid)
    return found
