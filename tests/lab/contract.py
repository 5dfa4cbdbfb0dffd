"""The stream contract over a path between hosts: what the tests of the rdma and the rsockets path share."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from fastsock import config, testing
from fastsock.transport import Transport

from ..helpers.paths import preferring
from .guest import IS_QUICK, Guest, enter_host, on_host

QUICK = ("addresses.names_agree", "ending.half_close_after_much", "forks.both_keep_using_it")
LIMIT = pytest.mark.timeout(300)  # some checks start ten processes, and the guest's processor is emulated


def maker_of(path: str) -> testing.PairMaker:
    """Both ends at this guest's address; or the near end on h1, and the far end on h2."""
    if "LAB_NET" not in os.environ:
        return testing.PairMaker("fastsock.socket", transport=path)
    guest = Guest()
    host = os.environ.get("LAB_ADDRESS", guest.own_address)
    maker = testing.PairMaker("fastsock.socket", transport=path, host=host, fresh=True)
    return replace(maker, far_host="10.78.0.2", enter=_enter) if guest.net == "pair" else maker


def _enter() -> None:
    enter_host(2)


def checks_of(transport: type[Transport], maker: testing.PairMaker) -> list[Any]:
    """Those that this guest can run."""
    # Between two hosts nothing connects to a loopback address, nor from one: such a connect waits for minutes.
    left_out = {name for name in transport.differs if name.startswith("addresses.")} if maker.far_host else set()
    return [
        check
        for check in testing.checks()
        if testing.name(check) not in left_out and (not IS_QUICK or testing.name(check) in QUICK)
    ]


@contextlib.contextmanager
def taking(path: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Connections take that path, and its meetings have time."""
    with preferring(path):
        monkeypatch.setenv("FASTSOCK_MEETING_MS", "10000")  # the guest's processor is emulated
        config.reload()
        yield


@contextlib.contextmanager
def on_the_near_host(path: str) -> Iterator[None]:
    """Where the near end belongs. Prints how many packets the devices sent meanwhile. Skips where they do not serve."""
    guest = Guest()
    devices = guest.devices()
    if guest.net == "lo":
        pytest.skip("the connection manager finds no SoftRoCE device by an address of lo")
    if not guest.counts(devices[0]):
        pytest.skip(f"the {path} path does not take soft iWARP")
    with on_host(1) if guest.net == "pair" else contextlib.nullcontext():
        before = {device: guest.sent_packets(device) for device in devices}
        yield
        for device in devices:
            print(f"\n{device}: {guest.sent_packets(device) - before[device]} packets sent")


def hold(check: Any, maker: testing.PairMaker, role: str, request: pytest.FixtureRequest) -> None:
    """Runs one check, with the near end in that role. What the path names as different is expected to fail."""
    if role == "accepts":
        maker = maker.turned()
    differs, depends = testing.difference(maker, check), testing.dependence(maker, check)
    if differs or depends:
        request.applymarker(pytest.mark.xfail(reason=differs or depends, strict=bool(differs)))
    check(maker)
