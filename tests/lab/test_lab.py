"""The lab itself: its device is there, carries data between two processes, and counts its packets.

Runs in a guest: `tests/lab/run --quick`, or any topology: `tests/lab/run --pair -- python -m pytest -n 0 -s tests/lab`.
With --duo both guests run it; h1 serves, h2 connects.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Sequence

import pytest

from .guest import Guest, only_in_lab

pytestmark = only_in_lab


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
    """Runs those of the two programs that belong on this guest, until both have ended well."""
    serving = subprocess.Popen([*guest.at_h1, *server]) if guest.serves else None
    try:
        if guest.connects:
            # Neither program says when it listens: a client that comes too early fails, and comes again.
            while subprocess.run([*guest.at_h2, *client], timeout=60).returncode:
                assert serving is None or serving.poll() is None, f"{server[0]} ended before a client came"
        if serving:
            assert serving.wait(timeout=90) == 0
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
    _serve_and_connect(
        guest,
        ["rping", "-s", "-a", guest.address, "-C", "20"],
        ["rping", "-c", "-a", guest.address, "-C", "20"],
    )
