"""The sdp path where the kernel has no AF_SMC, and what is read of the kernel's answers. tests/lab has the rest."""

from __future__ import annotations

import os
import socket as plain
import struct
import subprocess
import sys

import pytest

import fastsock
from fastsock import chain, config, sdp, socket
from fastsock.sdp import SdpTransport
from fastsock.system import smc_diag
from fastsock.testing import PairMaker
from fastsock.transport import ADVICE, Reason

without_smc = pytest.mark.skipif(SdpTransport().usable() is None, reason="this kernel has AF_SMC")


@pytest.fixture
def settings():
    yield config.configure
    config.reload()


@pytest.fixture
def listener():
    with plain.create_server(("127.0.0.1", 0)) as made:
        yield made


def test_it_is_taken_by_name_only():
    assert "sdp" not in config.Settings().transports
    assert "sdp" not in config.parse_transports("^shm")


def test_a_rule_may_name_it_where_the_setting_has_its_default():
    rules = config.parse_rules("connect 10.0.0.0/8 * sdp,tcp")
    assert config.Settings(rules=rules).paths_for("connect", "10.0.0.1", 80)[0] == ("sdp", "tcp")
    assert config.Settings(rules=rules).paths_for("connect", "11.0.0.1", 80)[0] == config.DEFAULT_TRANSPORTS


def test_a_rule_does_not_name_what_the_setting_leaves_out():
    rules = config.parse_rules("connect * * sdp,tcp")
    assert config.Settings(transports="rdma,shm", rules=rules).paths_for("connect", "10.0.0.1", 80)[0] == ("tcp",)


@without_smc
@pytest.mark.parametrize("at_once", [True, False])
def test_a_connection_stays_on_tcp_and_says_why(settings, listener, at_once):
    settings(transports="sdp")
    for _ in range(3):  # the first is decided, the next ones are remembered
        with socket.socket() as sock:
            sock.setblocking(at_once)
            sock.connect_ex(listener.getsockname())
            accepted, _ = listener.accept()
            accepted.sendall(b"hello")
            sock.settimeout(10)
            assert sock.recv(5) == b"hello"
            assert sock.transport == "tcp"
            assert fastsock.explain(sock).reason == "no_sockets_direct"
            accepted.close()


@without_smc
def test_an_accepted_connection_says_why(settings):
    settings(transports="sdp")
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        plain.create_connection(listener.getsockname()) as near,
        listener.accept()[0] as far,
    ):
        near.sendall(b"x")
        assert far.recv(1) == b"x"
        assert (far.transport, fastsock.explain(far).reason) == ("tcp", "no_sockets_direct")


@without_smc
def test_the_next_path_is_taken(settings):
    settings(transports="sdp,shm", upgrade_after=0)
    with PairMaker("fastsock.socket", transport="shm").local() as (near, far):
        near.sendall(b"x")
        assert far.recv(1) == b"x"


@without_smc
def test_the_descriptor_and_its_options_stay_what_they_are(settings, listener):
    settings(transports="sdp")
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.bind(("127.0.0.1", 0))
        before = sock.getsockname()
        sock.connect(listener.getsockname())
        assert sock.getsockname() == before
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN) == socket.AF_INET
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) != 0


def test_the_kernel_is_asked_once(monkeypatch):
    path = SdpTransport()
    first = path.usable()
    monkeypatch.setattr(path, "_probe", lambda: pytest.fail("asked twice"))
    assert path.usable() is first


def test_a_module_is_not_loaded_for_it(monkeypatch):
    monkeypatch.setattr("fastsock.sdp._kernel_has", lambda protocol: False)
    monkeypatch.setattr("fastsock.sdp._socket.socket", lambda *arguments: pytest.fail("a socket was asked for"))
    assert SdpTransport().usable() is Reason.NO_SOCKETS_DIRECT
    assert "modprobe" in ADVICE[Reason.NO_SOCKETS_DIRECT]


def test_no_setting_that_leaves_it_out_opens_anything(settings):
    settings(transports="shm")
    assert not chain.may_open()
    assert chain.opener("connect", "10.0.0.1", 80) is None


@pytest.mark.parametrize("paths", ["shm,tcp", "tcp"])
def test_nothing_of_it_is_imported_unless_it_is_named(paths):
    assert _imported(paths) == []


@without_smc  # else the end of each such connection asks
def test_what_asks_the_kernel_who_carries_is_imported_only_for_an_answer():
    imported = _imported("sdp,tcp")
    assert "fastsock.sdp" in imported
    assert "fastsock.system.smc_diag" not in imported


PROGRAM = """
import sys
from fastsock import socket
with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as near:
    with listener.accept()[0], socket.socket(fileno=near.dup().detach()):
        near.sendall(b"x")
print(*sorted({"fastsock.sdp", "fastsock.connection.opening", "fastsock.system.smc_diag"} & set(sys.modules)))
"""


def _imported(paths: str) -> list[str]:
    """The modules for this path that a program has imported after a connection."""
    environment = {**os.environ, "FASTSOCK_TRANSPORTS": paths}
    program = [sys.executable, "-c", PROGRAM]
    return subprocess.run(
        program, env=environment, capture_output=True, text=True, check=True, timeout=60
    ).stdout.split()


@pytest.fixture
def inet_sdp(monkeypatch):
    """A kernel with AF_INET_SDP and without AF_SMC. TCP's own sockets stand in for that family's."""
    path = SdpTransport()
    monkeypatch.setattr(sdp, "_kernel_has", lambda protocol: protocol == b"SDP")
    monkeypatch.setattr(sdp._InetSdp, "domain", socket.AF_INET)
    monkeypatch.setitem(chain._MADE, "sdp", path)
    config.configure(transports="sdp", rules=config.parse_rules("listen 127.0.0.1 * sdp,tcp"))
    monkeypatch.setattr(socket, "socket", socket.chosen().socket)  # which a process chooses when it imports the module
    yield path
    config.reload()


def test_a_kernel_with_inet_sdp_alone_makes_such_sockets(inet_sdp):
    maker = PairMaker("fastsock.socket", transport="sdp")
    with maker.local() as (near, far):
        near.sendall(b"x")
        assert far.recv(1) == b"x"
        assert [fastsock.explain(end).detail for end in (near, far)] == ["AF_INET_SDP"] * 2


def test_a_connect_that_inet_sdp_refuses_is_made_by_tcp(inet_sdp, monkeypatch, listener):
    def one_of_another_family(member, family):
        return plain.socket(plain.AF_INET6).detach()

    monkeypatch.setattr(sdp._InetSdp, "open", one_of_another_family)
    sock = socket.create_connection(listener.getsockname())
    with sock, listener.accept()[0] as accepted:
        sock.sendall(b"x")
        assert accepted.recv(1) == b"x"
        assert (sock.transport, sock.getpeername()) == ("tcp", listener.getsockname())


def test_nobody_is_at_the_other_end_by_either(inet_sdp, listener):
    address = listener.getsockname()
    listener.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)


def test_plain_tcp_goes_on_reaching_a_listener_that_no_rule_names(inet_sdp):
    config.configure(rules=())
    assert chain.opener("connect", "127.0.0.1", 80) is inet_sdp
    assert chain.opener("listen", "127.0.0.1", 80) is None


def test_a_non_blocking_connect_stays_on_tcp_where_inet_sdp_is_all(inet_sdp, monkeypatch, listener):
    monkeypatch.setattr(sdp._InetSdp, "open", lambda *_: pytest.fail("it was opened"))
    with socket.socket() as sock:
        sock.setblocking(False)
        sock.connect_ex(listener.getsockname())
        with listener.accept()[0]:
            assert sock.transport == "tcp"


def test_inet_sdp_has_no_ipv6(inet_sdp):
    assert inet_sdp.usable() is None
    with pytest.raises(OSError, match="IPv6"):
        inet_sdp.open(socket.AF_INET6)


def _told(inode: int, mode: int, reason: int, diagnosis: int) -> bytes:
    body = struct.pack("=BBBB48xIQ", 43, 1, mode, 0, 0, inode) + struct.pack("=HHII", 12, 5, reason, diagnosis)
    return struct.pack("=IHHII", 16 + len(body), 20, 2, 1, 0) + body


DONE = struct.pack("=IHHIIi", 20, 3, 2, 1, 0, 0)


class _Kernel:
    """Answers as the kernel's netlink socket, with these datagrams."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)

    def __call__(self, *arguments: int) -> _Kernel:
        return self

    def settimeout(self, seconds: float) -> None: ...

    def send(self, request: bytes) -> None:
        assert struct.unpack_from("=I", request) == (len(request),)

    def recv(self, size: int) -> bytes:
        return self.answers.pop(0)

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([_told(7, 0, 0, 0), DONE], (1, 0, 0, 0)),
        ([_told(5, 2, 0, 0) + _told(7, 1, 0x03010000, 0x03030000), DONE], (1, 1, 0x03010000, 0x03030000)),
        ([_told(5, 2, 0, 0), _told(7, 2, 0, 0) + DONE], (1, 2, 0, 0)),
        ([_told(5, 2, 0, 0), DONE], None),
        ([DONE], None),
        ([b"\0" * 16, b"short", DONE], None),  # no message at all
    ],
)
def test_the_kernels_answer_is_read(monkeypatch, answers, expected):
    monkeypatch.setattr(smc_diag._socket, "socket", _Kernel(*answers))
    assert smc_diag.look_up(7) == expected


def test_a_kernel_without_smc_diag_is_an_error(monkeypatch):
    monkeypatch.setattr(smc_diag._socket, "socket", _Kernel(struct.pack("=IHHIIi", 20, 2, 0, 1, 0, -2)))
    with pytest.raises(FileNotFoundError, match="smc_diag"):
        smc_diag.look_up(7)


def test_each_fallback_reason_is_told_in_words_with_its_number():
    assert smc_diag.describe(0x03010000) == "the other end does not speak SMC (0x03010000)"
    assert smc_diag.describe(0x1234) == "a reason without a name here (0x00001234)"
