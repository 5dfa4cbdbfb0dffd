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
from pathlib import Path

import pytest

import fastsock
from fastsock import socket, testing
from fastsock.rdma import RdmaTransport, RsocketsTransport
from fastsock.transport import Reason

from . import contract
from .guest import Guest, only_in_lab

MAKER = contract.maker_of("rsockets")
STRANGER = str(Path(__file__).with_name("stranger_rsocket.py"))
HALF_CONNECTING = str(Path(__file__).with_name("half_connecting.py"))
ANSWERED = "5\n"
REFUSED = RsocketsTransport().usable()

pytestmark = [only_in_lab, contract.LIMIT]
with_rsockets = pytest.mark.skipif(REFUSED is not None, reason=f"no rsockets here: {REFUSED}")


@pytest.fixture(autouse=True)
def _by_rsockets(monkeypatch):
    with contract.taking("rsockets", monkeypatch):
        yield


@pytest.fixture(scope="module", autouse=True)
def _on_the_near_host():
    with contract.on_the_near_host("rsockets"):
        yield


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
@pytest.mark.parametrize("check", contract.checks_of(RsocketsTransport, MAKER), ids=testing.name)
def test_the_stream_contract(check, role, request):
    contract.hold(check, MAKER, role, request)


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
        pair.far.sendall(b"y")
        assert select.select([pair.near], [], [], 4)[0]
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
def test_a_host_that_dies_while_it_connects_stops_nobody():
    """Until the connection manager gives it up, librdmacm's rlisten() and rclose() wait too."""
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(socket.create_server((MAKER.host, 0)))
        dying = stack.enter_context(
            subprocess.Popen(
                [sys.executable, HALF_CONNECTING, MAKER.host, str(first.getsockname()[1])],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        assert dying.stdout is not None
        assert ANSWERED in dying.stdout  # reads on until it is there
        for listener in (first, stack.enter_context(socket.create_server((MAKER.host, 0)))):
            with socket.create_connection(listener.getsockname(), timeout=20) as sock:
                accepted = stack.enter_context(listener.accept()[0])
                sock.sendall(b"hello")
                assert accepted.recv(5) == b"hello"
                print("beside a host that died while it connected:", fastsock.explain(sock))
        assert dying.poll() is None


@with_rsockets
def test_a_killed_peer_is_a_reset_in_bounded_time():
    with MAKER.pair() as pair:
        pair.far.sendall(b"x")
        assert pair.near.recv(1) == b"x"
        pair.far.process.kill()
        pair.near.settimeout(10)
        with pytest.raises(ConnectionResetError):
            pair.near.recv(1)
