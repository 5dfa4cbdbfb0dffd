"""Addresses of another host that look like this host's own: every connection ends where plain TCP would end."""

from __future__ import annotations

from ..helpers.hosts import Hosts
from ..helpers.scripts import Script

SHARED = "172.17.0.1"  # as the bridge of a container engine, which every host has
SERVE = """
import fastsock, socket, sys
with socket.create_server(("", int(sys.argv[1]))) as listener:
    tell(listener.getsockname()[1])
    while True:
        with listener.accept()[0] as connection:
            fastsock.attach(connection, 2)
            asked = connection.recv(1)
            connection.sendall(sys.argv[2].encode())
            connection.recv(1)
        if asked == b"e":
            break
"""
ASK = """
import fastsock, socket, sys
for address in sys.argv[3:]:
    try:
        with socket.create_connection((address, int(sys.argv[1]))) as sock:
            fastsock.attach(sock, 2)
            sock.sendall(sys.argv[2].encode())
            tell([sock.recv(1).decode(), fastsock.explain(sock).transport])
    except OSError as error:
        tell(type(error).__name__)
"""


def _serve(network: Hosts, host: int, port: int = 0) -> Script:
    return Script("shm", SERVE, str(port), str(host), within=network.inside(host))


def _ask(network: Hosts, host: int, port: int, *addresses: str, last: bool = False) -> list[object]:
    words = [str(port), "e" if last else "a", *addresses]
    with Script("shm", ASK, *words, within=network.inside(host)) as script:
        return [script.hear() for _ in addresses]


def test_listeners_with_one_port_on_both_hosts(network: Hosts) -> None:
    """Whoever listens on this host at the peer's port is not the peer."""
    with _serve(network, 0) as first:
        port = first.hear()
        with _serve(network, 1, port) as second:
            assert second.hear() == port
            assert _ask(network, 1, port, network.ip(0), network.ip(1)) == [["0", "tcp"], ["1", "shm"]]
            assert _ask(network, 0, port, network.ip(0), network.ip(1)) == [["0", "shm"], ["1", "tcp"]]
            assert _ask(network, 1, port, network.ip(1), last=True) == [["1", "shm"]]
        assert _ask(network, 0, port, network.ip(0), last=True) == [["0", "shm"]]


def test_an_address_that_both_hosts_have(network: Hosts) -> None:
    """It is each host's own: whoever listens there on the other host is out of reach, as for plain TCP."""
    for host in range(2):
        network.add_address(host, SHARED)
    with _serve(network, 0) as server:
        port = server.hear()
        assert _ask(network, 1, port, SHARED, network.ip(0)) == ["ConnectionRefusedError", ["0", "tcp"]]
        assert _ask(network, 0, port, SHARED, last=True) == [["0", "shm"]]


def test_the_peers_address_on_this_hosts_loopback(network: Hosts) -> None:
    """The rules of routing decide whose it is, and not the list of this host's addresses."""
    network.add_address(1, network.ip(0))
    with _serve(network, 0) as first:
        port = first.hear()
        with _serve(network, 1, port) as second:
            assert second.hear() == port
            assert _ask(network, 1, port, network.ip(0)) == [["1", "shm"]]
            network.send_out(1, network.ip(0))
            assert _ask(network, 1, port, network.ip(0), last=True) == [["0", "tcp"]]
            assert _ask(network, 1, port, network.ip(1), last=True) == [["1", "shm"]]
