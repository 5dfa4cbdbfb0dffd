"""The rdma path: the whole stream contract over verbs, on the kernel's software devices.

`tests/lab/run -- python -m pytest -n 0 -s tests/lab/test_rdma.py` on SoftRoCE; with `--pair` between two hosts.

The device's own counter of packets proves how the bytes travelled.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace

import pytest

from fastsock import config, testing
from fastsock.rdma import RdmaTransport

from ..helpers.paths import preferring
from .guest import IS_QUICK, Guest, enter_host, on_host, only_in_lab


def _maker() -> testing.PairMaker:
    """Both ends at this guest's address; or the near end on h1, and the far end on h2."""
    if "LAB_NET" not in os.environ:
        return testing.PairMaker("fastsock.socket", transport="rdma")
    guest = Guest()
    host = os.environ.get("LAB_ADDRESS", guest.own_address)
    maker = testing.PairMaker("fastsock.socket", transport="rdma", host=host, fresh=True)
    return replace(maker, far_host="10.78.0.2", enter=_enter) if guest.net == "pair" else maker


def _enter() -> None:
    enter_host(2)


MAKER = _maker()

QUICK = ("addresses.names_agree", "ending.half_close_after_much", "forks.both_keep_using_it")
# Between two hosts nothing connects to a loopback address, nor from one: such a connect waits for minutes.
BY_LOOPBACK = {name for name in RdmaTransport.differs if name.startswith("addresses.")} if MAKER.far_host else set()
CHECKS = [
    check
    for check in testing.checks()
    if testing.name(check) not in BY_LOOPBACK and (not IS_QUICK or testing.name(check) in QUICK)
]

pytestmark = [
    only_in_lab,
    pytest.mark.timeout(300),  # some checks start ten processes, and the guest's processor is emulated
    pytest.mark.skipif(RdmaTransport().usable() is not None, reason=f"no RDMA here: {RdmaTransport().usable()}"),
]


@pytest.fixture(autouse=True)
def _by_rdma(monkeypatch):
    with preferring("rdma"):
        monkeypatch.setenv("FASTSOCK_MEETING_MS", "10000")  # the guest's processor is emulated
        config.reload()
        yield


@pytest.fixture(scope="module", autouse=True)
def _on_the_near_host() -> Iterator[None]:
    guest = Guest()
    if guest.net == "lo":
        pytest.skip("the connection manager finds no SoftRoCE device by an address of lo")
    if not guest.counts(guest.devices()[0]):
        pytest.skip("the rdma path does not take soft iWARP")
    with on_host(1) if guest.net == "pair" else contextlib.nullcontext():
        yield


@pytest.fixture(scope="module", autouse=True)
def _count_packets(_on_the_near_host):
    guest = Guest()
    devices = guest.devices()
    before = {device: guest.sent_packets(device) for device in devices}
    yield
    for device in devices:
        print(f"\n{device}: {guest.sent_packets(device) - before[device]} packets sent")


@pytest.mark.parametrize("role", ["connects", "accepts"])
@pytest.mark.parametrize("check", CHECKS, ids=testing.name)
def test_the_stream_contract(check, role, request):
    maker = MAKER if role == "connects" else MAKER.turned()
    differs, depends = testing.difference(maker, check), testing.dependence(maker, check)
    if differs or depends:
        request.applymarker(pytest.mark.xfail(reason=differs or depends, strict=bool(differs)))
    check(maker)
