"""Large data over the rdma path, moved by the device that the sender chose: FASTSOCK_RDMA_RENDEZVOUS.

`tests/lab/run -- python -m pytest -n 0 -s tests/lab/test_rdma_large.py`. Both ends are processes of one host.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import random
import threading

import pytest

from fastsock import config
from fastsock.config import RENDEZVOUS
from fastsock.testing.process import FarProcess

from ..helpers.paths import preferring
from .guest import IS_QUICK, Guest, only_in_lab

pytestmark = only_in_lab

BYTES = (4 if IS_QUICK else 16) << 20
CHOICES = [("read", "write")] if IS_QUICK else [*itertools.product(RENDEZVOUS, RENDEZVOUS)]
PORT = 7172
PATIENCE = 100  # seconds: the guest's processor is emulated

_kept: dict[str, object] = {}


@pytest.fixture
def _address(monkeypatch):
    guest = Guest()
    if guest.net != "veth":
        pytest.skip("needs the device on a veth: tests/lab/run without a topology")
    with preferring("rdma"):
        monkeypatch.setenv("FASTSOCK_MEETING_MS", "10000")
        config.reload()
        yield guest.address


def _data(role):
    return random.Random(role).randbytes(BYTES)


def _choose(rendezvous):
    os.environ["FASTSOCK_RDMA_RENDEZVOUS"] = rendezvous
    config.reload()


def _listen(here, address, rendezvous):
    from fastsock import socket

    _choose(rendezvous)
    _kept["listener"] = socket.create_server((address, PORT))


def _accept(here):
    with _kept.pop("listener") as listener:
        return _exchange(listener.accept()[0], "accepts")


def _connect(here, address, rendezvous):
    from fastsock import socket

    _choose(rendezvous)
    return _exchange(socket.create_connection((address, PORT)), "connects")


def _exchange(sock, role):
    """Both ways at once: the path, the digest of what came, and what the device did for this end."""
    digest = hashlib.sha256()
    with sock:
        sock.settimeout(PATIENCE)
        sender = threading.Thread(target=lambda: (sock.sendall(_data(role)), sock.shutdown(1)))
        sender.start()
        while data := sock.recv(1 << 18):
            digest.update(data)
        sender.join()
        return sock.transport, digest.hexdigest(), sock._fast_channel.carried()


@pytest.mark.parametrize(("near", "far"), CHOICES)
def test_the_sender_chooses(_address, near, far):
    with FarProcess(fresh=True) as server, FarProcess(fresh=True) as client:
        server.begin(_listen, _address, far).result(PATIENCE)
        accepting = server.begin(_accept)
        here = client.begin(_connect, _address, near).result(2 * PATIENCE)
        there = accepting.result(PATIENCE)
    print(f"\n{near}, {far}: {here[2]}, {there[2]}")
    for end, sent in ((here, "accepts"), (there, "connects")):
        assert end[:2] == ("rdma", hashlib.sha256(_data(sent)).hexdigest())
    for end, other, chosen in ((here, there, near), (there, here, far)):
        written, taken = end[2]["written"], other[2]["taken"]
        assert (written if chosen == "write" else taken) > BYTES // 2
        assert (taken if chosen == "write" else written) == 0
