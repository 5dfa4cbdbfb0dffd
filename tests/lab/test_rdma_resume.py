"""FASTSOCK_FAILOVER=resume: the device goes away at a random moment, and every connection goes on over TCP.

`tests/lab/run -- python -m pytest -n 0 -s tests/lab/test_rdma_resume.py`. Many connections move data both ways. Then
the device is removed. Every byte must arrive once and in order, and each end must say how it went on.
"""

from __future__ import annotations

import os
import random
import select
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from fastsock import config
from fastsock.config import RENDEZVOUS
from fastsock.testing.process import FarProcess

from ..helpers.paths import preferring
from .guest import Guest, only_in_full, only_in_lab
from .test_rdma_faults import PATIENCE, _link, _mend

pytestmark = [only_in_lab, only_in_full]

CONNECTIONS = 8
MOST = 3 << 20  # bytes, each way of each connection
PORT = 7171
ROUNDS = int(os.environ.get("LAB_RESUME_ROUNDS", "6"))

_kept: dict[str, object] = {}


@pytest.fixture(params=RENDEZVOUS)
def _resuming(monkeypatch, request):
    guest = Guest()
    if guest.net != "veth":
        pytest.skip("needs the device on a veth: tests/lab/run without a topology")
    with preferring("rdma"):
        monkeypatch.setenv("FASTSOCK_MEETING_MS", "10000")  # the guest's processor is emulated
        monkeypatch.setenv("FASTSOCK_FAILOVER", "resume")
        monkeypatch.setenv("FASTSOCK_RDMA_RENDEZVOUS", request.param)
        config.reload()
        yield guest


def _data(seed, direction):
    source = random.Random(f"{seed} {direction}")
    return source.randbytes(source.randrange(1, MOST))


class _Mover:
    """Sends one stream and receives the other one, in pieces of any size."""

    def __init__(self, sock, seed, role):
        self.sock, self.out = sock, _data(seed, role)
        self.expected = _data(seed, "accept" if role == "connect" else "connect")
        self.received = 0
        self.random = random.Random(f"{seed} {role} pieces")
        sock.settimeout(PATIENCE)

    def send(self):
        left = memoryview(self.out)
        last = len(left) // 4  # only goes by TCP: so no connection is over before the device is gone
        while left:
            if len(left) <= last:
                self._await_tcp()
            piece = left[: self.random.choice((1, 100, 5000, 70_000, 400_000))]
            self.sock.sendall(piece)
            left = left[len(piece) :]
        self._await_tcp()
        self.sock.shutdown(1)

    def _await_tcp(self):
        deadline = time.monotonic() + PATIENCE
        while self.sock.transport != "tcp":
            assert time.monotonic() < deadline, "it did not go on over TCP"
            select.select([], [], [], 0.01)

    def receive(self):
        while data := self.sock.recv(1 << 16):
            assert data == self.expected[self.received : self.received + len(data)], f"wrong behind {self.received}"
            self.received += len(data)
        assert self.received == len(self.expected)


def _move(movers):
    """How each connection went on, once all have moved everything."""
    from fastsock import explain

    with ThreadPoolExecutor(2 * len(movers)) as pool:
        tasks = [pool.submit(call) for mover in movers for call in (mover.send, mover.receive)]
        for task in tasks:
            task.result()
    told = [explain(mover.sock).reason for mover in movers]
    for mover in movers:
        mover.sock.close()
    return told


def _listen(here, address):
    from fastsock import socket

    _kept["listener"] = socket.create_server((address, PORT), backlog=CONNECTIONS)


def _serve(here, seed):
    listener = _kept["listener"]
    accepted = []
    for _ in range(CONNECTIONS):
        sock = listener.accept()[0]
        accepted.append(_Mover(sock, (seed, sock.recv(1)[0]), "accept"))
    told = _move(accepted)
    listener.close()
    return told


def _connect(here, address, seed, device):
    from fastsock import socket

    movers = []
    for number in range(CONNECTIONS):
        sock = socket.create_connection((address, PORT))
        sock.sendall(bytes([number]))
        assert sock.transport == "rdma"
        movers.append(_Mover(sock, (seed, number), "connect"))
    enough = random.Random(f"{seed} moment").randrange(sum(len(mover.expected) for mover in movers) // 2)
    over = threading.Event()
    packets = []

    def remove():
        while sum(mover.received for mover in movers) < enough and not over.is_set():
            select.select([], [], [], 0.01)
        packets.append(Guest().sent_packets(device))
        subprocess.Popen(["rdma", "link", "delete", device])  # it waits for those who have the device open

    remover = threading.Thread(target=remove)
    remover.start()
    try:
        return _move(movers), packets
    finally:
        over.set()
        remover.join()


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_every_byte_arrives_once(_resuming, seed):
    guest = _resuming
    link = _link()
    device, network_device = link.split()[1].partition("/")[0], link.split()[-1]
    try:
        with FarProcess(fresh=True) as server, FarProcess(fresh=True) as client:
            server.begin(_listen, guest.address).result(PATIENCE)
            serving = server.begin(_serve, seed)
            told, packets = client.begin(_connect, guest.address, seed, device).result(3 * PATIENCE)
            there = serving.result(PATIENCE)
    finally:
        _mend(guest, device, network_device)
    resumed = [ends.count("resumed") for ends in (told, there)]
    print(f"\nseed {seed}: of {CONNECTIONS} connections {resumed} ends resumed; packets: {packets}")
    assert resumed == [CONNECTIONS, CONNECTIONS]
