"""The address that a program chose to connect from is the one that both ends see, however late its port is chosen."""

from __future__ import annotations

import _socket
import ctypes
import fcntl
import socket as standard
import struct
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from fastsock.testing import FarProcess

IP_BIND_ADDRESS_NO_PORT = 24
CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 0x1
ADDRESSES = {  # where it listens, and where the connecting end is bound
    "IPv4": (standard.AF_INET, "127.0.0.1", "127.0.0.2"),
    "unbound": (standard.AF_INET, "127.0.0.1", None),
    "IPv6": (standard.AF_INET6, "::1", "::1"),
    "IPv6 unbound": (standard.AF_INET6, "::1", None),
    "mapped": (standard.AF_INET6, "::ffff:127.0.0.1", "::ffff:127.0.0.3"),
}


def _listen(here, maker, family, ip):
    here.listener = maker.sockets.socket(family)
    here.listener.bind((ip, 0))
    here.listener.listen()
    return here.listener.getsockname()


def _echo(here):
    sock, address = here.listener.accept()
    with closing(sock):
        sock.sendall(sock.recv(100))
    return address[:2]


@pytest.mark.parametrize("without_port", (0, 1))
@pytest.mark.parametrize("reuse", (0, 1))
@pytest.mark.parametrize("where", ADDRESSES)
def test_connected_from_the_address_that_was_bound(near, where, without_port, reuse):
    family, listens, bound = ADDRESSES[where]
    with FarProcess() as far:
        address = far.run(_listen, near, family, listens)
        pending = far.begin(_echo)
        with closing(near.sockets.socket(family)) as sock:
            sock.setsockopt(standard.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, without_port)
            sock.setsockopt(standard.SOL_SOCKET, standard.SO_REUSEADDR, reuse)
            if bound:
                sock.bind((bound, 0))
            sock.connect(address)
            near.check(sock)
            sock.sendall(b"x")
            assert sock.recv(10) == b"x"
            seen, own = pending.result(), sock.getsockname()
            assert seen == own[:2]
            assert own[0] == (bound or listens)
            assert sock.getsockopt(standard.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT) == without_port


def _in_a_network_with_two_ports(here):
    """Enters a network namespace of its own, where connections choose from two ports; whether that is permitted."""
    if ctypes.CDLL(None).unshare(CLONE_NEWNET):
        return False
    with closing(standard.socket()) as sock:
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
    Path("/proc/sys/net/ipv4/ip_local_port_range").write_text("40000 40001")
    return True


def _connect_where_all_ports_are_taken(here, maker):
    """The addresses that the accepting end sees and that the connecting end has."""
    kind = maker.sockets.socket
    with closing(standard.socket()) as others, closing(kind()) as listener, ExitStack() as taken:
        for each, port in (others, 5000), (listener, 5001):
            each.bind(("127.0.0.1", port))
            each.listen()
        for _ in range(2):
            sock = taken.enter_context(closing(_socket.socket()))
            sock.setsockopt(standard.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
            sock.bind(("127.0.0.2", 0))
            sock.connect(others.getsockname())
        with closing(kind()) as sock:
            sock.setsockopt(standard.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
            sock.bind(("127.0.0.2", 0))
            sock.connect(listener.getsockname())
            accepted, seen = listener.accept()
            accepted.close()
            return seen, sock.getsockname()


def test_where_no_port_is_free_the_address_stays(near):
    """Then a port serves that connections to different ends share, as on TCP."""
    with FarProcess() as far:
        if not far.run(_in_a_network_with_two_ports):
            pytest.skip("no network namespace can be made here")
        seen, own = far.run(_connect_where_all_ports_are_taken, near)
        assert seen == own
        assert own[0] == "127.0.0.2"
