"""The sdp path on the kernel's AF_SMC.

Over SMC-R: `tests/lab/run --smc r -- python -m pytest -n 0 -s tests/lab/test_sdp.py`. Over SMC-D: `--smc d`.

smc_diag proves how the bytes travelled, and over RDMA the device's own counter does.
"""

from __future__ import annotations

import hashlib
import os
import select
import socket as plain
import threading

import pytest

import fastsock
from fastsock import config, socket
from fastsock.sdp import AF_SMC, SdpTransport
from fastsock.testing import PairMaker

from ..helpers.paths import preferring
from .guest import Guest, only_in_lab

HOST = "10.77.0.1"
OTHER_HOST = "127.0.0.2"
MODE = {"r": "SMC-R", "d": "SMC-D"}.get(os.environ.get("LAB_SMC", ""))
MAKER = PairMaker("fastsock.socket", transport="sdp", host=HOST)
FELL_BACK = "AF_SMC fell back: the other end does not speak SMC (0x03010000)"

pytestmark = [
    only_in_lab,
    pytest.mark.skipif(MODE is None, reason="this guest was booted without --smc"),
    pytest.mark.skipif(SdpTransport().usable() is not None, reason="the kernel of this guest has no AF_SMC"),
]


@pytest.fixture(autouse=True)
def _by_sdp():
    with preferring("sdp"):
        yield


@pytest.fixture
def plain_listener():
    with plain.create_server((HOST, 0)) as made:
        yield made


def _meet(listener, connect):
    """The accepted end and the connected one."""
    accepted = []
    thread = threading.Thread(target=lambda: accepted.append(listener.accept()[0]))
    thread.start()
    connected = connect(listener.getsockname())
    thread.join()
    return accepted[0], connected


def _is_how(sock, transport, reason, detail):
    told = fastsock.explain(sock)
    assert (told.transport, told.reason, told.detail) == (transport, reason, detail)
    assert sock.transport == transport


def test_both_ends_are_carried_by_smc():
    with MAKER.pair() as pair:
        _is_how(pair.near, "sdp", "joined", MODE)
        with plain.socket(fileno=os.dup(pair.near.fileno())) as kernels:
            assert kernels.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN) == AF_SMC
        assert pair.near.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN) == socket.AF_INET


def test_many_bytes_arrive_and_the_device_counts_them():
    guest = Guest()
    before = sum(map(guest.sent_packets, guest.devices()))
    data = os.urandom(1 << 20) * 8
    with MAKER.pair() as pair:
        sending = pair.far.begin("sendall", data)
        found = hashlib.sha256()
        left = len(data)
        while left:
            part = pair.near.recv(min(left, 1 << 16))
            assert part
            found.update(part)
            left -= len(part)
        sending.result()
        _is_how(pair.near, "sdp", "joined", MODE)
    assert found.digest() == hashlib.sha256(data).digest()
    sent = sum(map(guest.sent_packets, guest.devices())) - before
    print(f"{MODE}: {len(data)} bytes, {sent} packets of the device")
    assert MODE == "SMC-D" or sent * 4096 >= len(data)


def test_a_plain_server_is_met_on_tcp(plain_listener):
    accepted, connected = _meet(plain_listener, socket.create_connection)
    with accepted, connected:
        connected.sendall(b"hello")
        assert accepted.recv(5) == b"hello"
        _is_how(connected, "tcp", "kernel_fell_back", FELL_BACK)


def test_a_plain_client_is_met_on_tcp():
    with socket.create_server((HOST, 0)) as listener:
        accepted, connected = _meet(listener, plain.create_connection)
        with accepted, connected:
            connected.sendall(b"hello")
            assert accepted.recv(5) == b"hello"
            _is_how(accepted, "tcp", "kernel_fell_back", FELL_BACK)


def test_a_closed_connection_keeps_what_carried_it():
    with socket.create_server((HOST, 0)) as listener:
        accepted, connected = _meet(listener, plain.create_connection)
        peer = accepted.getpeername()
        accepted.close()
        connected.close()
    told = [each for each in fastsock.connections() if each.peer == peer]
    assert [(each.transport, each.reason, each.state) for each in told] == [("tcp", "kernel_fell_back", "closed")]


def test_a_non_blocking_connect_becomes_writable():
    with socket.create_server((HOST, 0)) as listener, socket.socket() as sock:
        sock.setblocking(False)
        sock.connect_ex(listener.getsockname())
        with listener.accept()[0]:
            assert select.select([], [sock], [], 30)[1]
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
            _is_how(sock, "sdp", "joined", MODE)


def test_a_bound_socket_keeps_its_address(plain_listener):
    with socket.socket() as sock:
        sock.bind((HOST, 0))
        before = sock.getsockname()
        sock.connect(plain_listener.getsockname())
        accepted, address = plain_listener.accept()
        accepted.close()
        assert sock.getsockname() == before == address


def test_a_refused_connect_may_be_tried_again():
    with plain.socket() as listener, socket.socket() as sock:
        listener.bind((HOST, 0))
        with pytest.raises(ConnectionRefusedError):
            sock.connect(listener.getsockname())
        listener.listen()
        sock.connect(listener.getsockname())


def test_a_rule_chooses_by_destination():
    rules = config.parse_rules(f"connect {HOST} * sdp,tcp\nlisten {HOST} * sdp,tcp\nconnect * * tcp\nlisten * * tcp")
    config.configure(transports=config.DEFAULT_TRANSPORTS, rules=rules)
    for host, transport in ((HOST, "sdp"), (OTHER_HOST, "tcp")):
        with PairMaker("fastsock.socket", transport=transport, host=host).local():
            pass


def test_shared_memory_comes_first_within_the_host():
    config.configure(transports="shm,sdp,tcp")
    with PairMaker("fastsock.socket", transport="shm", host=HOST).local() as (near, far):
        near.sendall(b"x")
        assert far.recv(1) == b"x"


def test_a_duplicate_has_the_family_of_its_addresses():
    with MAKER.local() as (near, _), socket.socket(fileno=near.dup().detach()) as again:
        assert (again.family, again.proto) == (socket.AF_INET, socket.IPPROTO_TCP)
        assert again.getpeername() == near.getpeername()
