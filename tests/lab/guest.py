"""What a test asks of the guest that it runs in. `run` tells it by the environment."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

only_in_lab = pytest.mark.skipif(
    "FASTSOCK_IN_LAB" not in os.environ, reason="needs an RDMA device: tests/lab/run boots a guest with one"
)

IS_QUICK = "LAB_QUICK" in os.environ
only_in_full = pytest.mark.skipif(IS_QUICK, reason="`tests/lab/run --quick` leaves it out")

_DEVICES = Path("/sys/class/infiniband")
# Where the server of each topology listens. Both ends of one host use the same address.
_ADDRESSES = {"lo": "10.77.0.1", "veth": "10.77.0.1", "pair": "10.78.0.1", "wire": "10.79.0.1"}


_CLONE_NEWNET = 0x40000000


def enter_host(number: int) -> None:
    """This thread, and all that it starts from now on, is on host h1 or h2 of `--pair`."""
    with open(f"/run/netns/h{number}", "rb") as namespace:
        _set_network(namespace.fileno())


@contextlib.contextmanager
def on_host(number: int) -> Iterator[None]:
    """This thread is on h1 or h2 inside the block."""
    with open("/proc/thread-self/ns/net", "rb") as before:
        enter_host(number)
        try:
            yield
        finally:
            _set_network(before.fileno())


def _set_network(namespace: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(namespace, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


class Guest:
    """One guest: a host, two hosts (`pair`), or one of two (`wire`)."""

    def __init__(self) -> None:
        self.net = os.environ["LAB_NET"]
        self.address = _ADDRESSES[self.net]
        host = os.environ.get("LAB_HOST")
        self.serves = host in (None, "h1")
        self.connects = host in (None, "h2")
        # This guest's own: with two guests each has one.
        self.own_address = self.address if self.serves else "10.79.0.2"
        namespaces = self.net == "pair"
        # What comes before a command, so that it runs on this host.
        self.at_h1 = ["ip", "netns", "exec", "h1"] if namespaces else []
        self.at_h2 = ["ip", "netns", "exec", "h2"] if namespaces else []

    def meet(self) -> None:
        """Between two guests: the end that connects waits here until the end that serves comes here too."""
        if self.serves and self.connects:
            return
        if self.serves:
            with socket.create_server((self.address, 7070)) as listener:
                listener.accept()[0].close()
            return
        while True:
            with contextlib.suppress(ConnectionRefusedError):
                socket.create_connection((self.address, 7070), timeout=60).close()
                return

    def devices(self) -> list[str]:
        return sorted(device.name for device in _DEVICES.iterdir())

    def state(self, device: str) -> str:
        """As the port tells it: "ACTIVE", "DOWN"."""
        return (_DEVICES / device / "ports/1/state").read_text().split(":")[1].strip()

    def sent_packets(self, device: str) -> int:
        return int(self._counter(device).read_text())

    def counts(self, device: str) -> bool:
        """Whether the device counts its packets: SoftRoCE does, soft iWARP does not."""
        return self._counter(device).exists()

    def _counter(self, device: str) -> Path:
        return _DEVICES / device / "ports/1/hw_counters/sent_pkts"

    def gid(self, device: str) -> int:
        """The index of the GID that is the device's IPv4 address."""
        folder = _DEVICES / device / "ports/1/gids"
        for entry in sorted(folder.iterdir(), key=lambda entry: int(entry.name)):
            if entry.read_text().startswith("0000:0000:0000:0000:0000:ffff:"):
                return int(entry.name)
        raise LookupError(f"{device} has no GID of an IPv4 address")
