"""Devices and the paths of their ranks' connections, for tests that hold on each."""

from __future__ import annotations

import pytest

from fastsock.testing.ranks import RankMaker

_DEVICES = {"sysv": "sysvdev", "threads": "smpdev"}
PROCESSES = ("shm", "tcp", "sysv")  # ranks that are processes, and can be killed one by one
ALL = (*PROCESSES, "threads")


def device_on(path: str) -> tuple[str, dict[str, str]]:
    """The device, and the variables by which its ranks take that path."""
    device = _DEVICES.get(path, "iodev")
    if device == "sysvdev":
        pytest.importorskip("sysv_ipc")
    return device, {"FASTSOCK_TRANSPORTS": path if device == "iodev" else "tcp"}


def ranks_on(path: str) -> RankMaker:
    device, environment = device_on(path)
    return RankMaker(device, tuple(environment.items()))
