"""The rsockets path: the whole stream contract over librdmacm's rsockets, on the kernel's software devices.

`tests/lab/run -- python -m pytest -n 0 -s tests/lab/test_rsockets.py` on SoftRoCE; with `--pair` between two hosts.

The guest has Debian's librdmacm. Where that is older than 53, only its refusal is tested here; a newer one is found by
LD_LIBRARY_PATH. The device's own counter of packets proves how the bytes travelled.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import fastsock
from fastsock import config, socket, testing
from fastsock.rdma import RdmaTransport, RsocketsTransport
from fastsock.transport import Reason

from ..helpers.paths import preferring
from .guest import IS_QUICK, Guest, enter_host, on_host, only_in_lab


def _maker() -> testing.PairMaker:
    """Both ends at this guest's address; or the near end on h1, and the far end on h2."""
    if "LAB_NET" not in os.environ:
        return testing.PairMaker("fastsock.socket", transport="rsockets")
    guest = Guest()
    maker = testing.PairMaker("fastsock.socket", transport="rsockets", host=guest.own_address, fresh=True)
    return replace(maker, far_host="10.78.0.2", enter=_enter) if guest.net == "pair" else maker


def _enter() -> None:
    enter_host(2)


MAKER = _maker()
STRANGER = str(Path(__file__).with_name("stranger_rsocket.py"))
REFUSED = RsocketsTransport().usable()

QUICK = ("addresses.names_agree", "ending.half_close_after_much", "forks.both_keep_using_it")
# Between two hosts nothing connects to a loopback address, nor from one: such a connect waits for minutes.
BY_LOOPBACK = {name for name in RsocketsTransport.differs if name.startswith("addresses.")} if MAKER.far_host else set()
CHECKS = [
    check
    for check in testing.checks()
    if testing.name(check) not in BY_LOOPBACK and (not IS_QUICK or testing.name(check) in QUICK)
]

pytestmark = [only_in_lab, pytest.mark.timeout(300)]  # as in test_rdma.py
with_rsockets = pytest.mark.skipif(REFUSED is not None, reason=f"no rsockets here: {REFUSED}")


@pytest.fixture(autouse=True)
def _by_rsockets(monkeypatch):
    with preferring("rsockets"):
        monkeypatch.setenv("FASTSOCK_MEETING_MS", "10000")  # the guest's processor is emulated
        config.reload()
        yield


@pytest.fixture(scope="module", autouse=True)
def _on_the_near_host() -> Iterator[None]:
    guest = Guest()
    if guest.net == "lo":
        pytest.skip("the connection manager finds no SoftRoCE device by an address of lo")
    if not guest.counts(guest.devices()[0]):
        pytest.skip("the rsockets path does not take soft iWARP")
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


def _packets() -> int:
    guest = Guest()
    return sum(map(guest.sent_packets, guest.devices()))


@pytest.mark.skipif(REFUSED is not Reason.OLD_RDMA_LIBRARY, reason="librdmacm is new enough, or not there")
def test_an_old_library_is_refused_with_its_reason_and_rdma_is_not():
    assert RdmaTransport().usable() is None
    with pytest.raises(AssertionError, match="old_rdma_library"), MAKER.pair():
        pass


@with_rsockets
@pytest.mark.parametrize("role", ["connects", "accepts"])
@pytest.mark.parametrize("check", CHECKS, ids=testing.name)
def test_the_stream_contract(check, role, request):
    maker = MAKER if role == "connects" else MAKER.turned()
    differs, depends = testing.difference(maker, check), testing.dependence(maker, check)
    if differs or depends:
        request.applymarker(pytest.mark.xfail(reason=differs or depends, strict=bool(differs)))
    check(maker)


@with_rsockets
def test_many_bytes_arrive_and_the_device_counts_them():
    before = _packets()
    data = os.urandom(1 << 20) * 4
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
    assert found.digest() == hashlib.sha256(data).digest()
    assert (_packets() - before) * 4096 >= len(data)


@with_rsockets
def test_an_idle_connection_wakes_its_reader_at_once():
    """rpoll() by itself looks again only after seconds (its wake_up_interval is five)."""
    with MAKER.pair() as pair:
        pair.far.sendall(b"x")
        assert pair.near.recv(1) == b"x"
        assert not select.select([pair.near], [], [], 2)[0]
        begun = time.monotonic()
        pair.far.sendall(b"y")
        assert select.select([pair.near], [], [], 30)[0]
        assert time.monotonic() - begun < 2
        assert pair.near.recv(1) == b"y"


@with_rsockets
def test_more_connections_at_once_than_an_old_library_bears():
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server((MAKER.host, 0)))
        accepted: list[socket.socket] = []
        many = 12
        thread = threading.Thread(target=lambda: accepted.extend(listener.accept()[0] for _ in range(many)))
        thread.start()
        connected = [stack.enter_context(socket.create_connection(listener.getsockname())) for _ in range(many)]
        thread.join()
        for one, other in zip(connected, accepted, strict=True):
            stack.enter_context(other)
            assert fastsock.explain(one).transport == fastsock.explain(other).transport == "rsockets"
            one.sendall(b"hello")
            assert other.recv(5) == b"hello"


@with_rsockets
def test_a_strangers_rsocket_is_not_taken_for_ours():
    """Whoever connects by rsockets and does not know the greeting is closed; the listener goes on."""
    with socket.create_server((MAKER.host, 0)) as listener:
        host, port = listener.getsockname()
        told = subprocess.run([sys.executable, STRANGER, host, str(port)], capture_output=True, text=True, timeout=60)
        assert told.stdout.endswith("bytes, then the end\n"), told.stderr
        thread = threading.Thread(target=lambda: listener.accept()[0].close())
        thread.start()
        with socket.create_connection(listener.getsockname()) as sock:
            assert fastsock.explain(sock).transport == "rsockets"
            assert sock.recv(1) == b""
        thread.join()


@with_rsockets
def test_a_killed_peer_is_a_reset_in_bounded_time():
    with MAKER.pair() as pair:
        pair.far.sendall(b"x")
        assert pair.near.recv(1) == b"x"
        pair.far.process.kill()
        pair.near.settimeout(10)
        with pytest.raises(ConnectionResetError):
            pair.near.recv(1)
