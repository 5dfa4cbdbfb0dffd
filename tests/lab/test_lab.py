"""The lab itself: its device is there, carries data between two processes, and counts its packets; SMC is not TCP.

Runs in a guest: `tests/lab/run --quick`, or any topology: `tests/lab/run --pair -- python -m pytest -n 0 -s tests/lab`.
With --duo both guests run it; h1 serves, h2 connects.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence

import pytest

from .guest import Guest, only_in_lab
from .smc_diag import smc_modes

pytestmark = only_in_lab

# What says LISTEN when the server of this name listens.
_LISTENS = {
    "ibv_rc_pingpong": ["ss", "-Hltn", "sport = :18515"],
    "rping": ["rdma", "resource", "show", "cm_id"],
}


@pytest.fixture
def guest() -> Guest:
    return Guest()


@contextlib.contextmanager
def _counted(guest: Guest) -> Iterator[None]:
    """The devices of this guest have sent packets meanwhile; prints how many."""
    before = {device: guest.sent_packets(device) for device in guest.devices()}
    yield
    for device, packets in before.items():
        sent = guest.sent_packets(device) - packets
        print(f"{device}: {sent} packets sent")
        assert sent > 0


def _serve_and_connect(guest: Guest, server: Sequence[str], client: Sequence[str]) -> None:
    """Runs those of the two programs that belong on this guest. Both must end well."""
    serving = subprocess.Popen([*guest.at_h1, *server]) if guest.serves else None
    try:
        if serving:
            # An early client fails. On soft iWARP rping then hangs, so nothing is tried twice.
            asking = [*guest.at_h1, *_LISTENS[server[0]]]
            while "LISTEN" not in subprocess.run(asking, capture_output=True, text=True).stdout:
                assert serving.poll() is None, f"{server[0]} ended before a client came"
        guest.meet()
        if guest.connects:
            assert subprocess.run([*guest.at_h2, *client], timeout=60).returncode == 0
        if serving:
            assert serving.wait(timeout=60) == 0
    finally:
        if serving:
            serving.kill()


def test_the_device_is_active(guest):
    assert guest.devices()
    for device in guest.devices():
        print(f"{device}: {guest.state(device)}")
        assert guest.state(device) == "ACTIVE"


def test_a_reliable_connection_carries_messages_and_the_device_counts_them(guest):
    if not all(map(guest.counts, guest.devices())):
        pytest.skip("soft iWARP counts no packets, and ibv_rc_pingpong does not know iWARP")
    with _counted(guest):
        near, far = guest.devices()[0], guest.devices()[-1]
        _serve_and_connect(
            guest,
            ["ibv_rc_pingpong", "-d", near, "-g", str(guest.gid(near)), "-n", "200"],
            ["ibv_rc_pingpong", "-d", far, "-g", str(guest.gid(far)), "-n", "200", guest.address],
        )


def test_the_connection_manager_connects_by_address(guest):
    if guest.net == "lo":
        pytest.skip("the connection manager finds no SoftRoCE device by an address of lo")
    _serve_and_connect(
        guest,
        ["rping", "-s", "-v", "-a", guest.address, "-C", "5"],
        ["rping", "-c", "-a", guest.address, "-C", "5"],
    )


def _smc_socket() -> socket.socket:
    """A socket of AF_SMC, which takes the addresses of AF_INET."""
    made = socket.socket(43, socket.SOCK_STREAM, 0)
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, fileno=made.detach())


def _echo(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        while data := connection.recv(65536):
            connection.sendall(data)


def test_smc_carries_a_stream_and_does_not_fall_back_to_tcp(guest):
    wanted = {"r": "SMC-R", "d": "SMC-D"}.get(os.environ["LAB_SMC"])
    if wanted is None:
        pytest.skip("no SMC in this guest: tests/lab/run --smc r")
    counted = _counted(guest) if wanted == "SMC-R" else contextlib.nullcontext()
    with _smc_socket() as listener, _smc_socket() as client, counted:
        if guest.serves:
            listener.bind((guest.address, 18700))
            listener.listen()
        guest.meet()
        serving = threading.Thread(target=_echo, args=(listener,))
        if guest.serves:
            serving.start()
        if guest.connects:
            client.settimeout(60)
            client.connect((guest.address, 18700))
            for number in range(50):
                message = b"%d" % number * 100
                client.sendall(message)
                assert client.recv(len(message), socket.MSG_WAITALL) == message
            modes = smc_modes(18700)
            print("SMC's own account:", modes)
            assert set(modes) == {wanted}
            client.close()
        if guest.serves:
            serving.join(60)
            assert not serving.is_alive()
