"""send_array and recv_array between two hosts."""

from __future__ import annotations

import pytest

from ..helpers.hosts import Hosts
from ..helpers.scripts import Script

pytest.importorskip("numpy")

BACK = """
import socket, sys, fastsock
from fastsock.arrays import recv_array, send_array
with socket.create_server((sys.argv[1], 0)) as listener:
    tell(listener.getsockname()[1])
    with listener.accept()[0] as connection:
        while (array := recv_array(connection)).size:
            send_array(connection, array)
        told = fastsock.explain(connection)
tell([told.transport, told.reason])
"""
SHAPES = """
import socket, sys, numpy, fastsock
from fastsock.arrays import recv_array, recv_array_into, send_array
with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as sock:
    for count in (1, 7, 1000, 65_536, 1_000_003):
        for dtype in ("f8", "i2", ">u4", "c16", "?"):
            flat = (numpy.arange(count) % 251).astype(dtype)
            for array in (flat, flat[::-1], flat.reshape(1, -1, 1)):
                send_array(sock, array)
                if dtype == "f8":
                    into = numpy.empty(array.shape, array.dtype)
                    recv_array_into(sock, into)
                else:
                    into = recv_array(sock)
                assert into.dtype == array.dtype and into.shape == array.shape, (into.dtype, into.shape)
                assert (into == array).all(), (count, dtype)
    send_array(sock, numpy.empty(0))
    told = fastsock.explain(sock)
tell([told.transport, told.reason])
"""
ROUNDS = 40
# just above what goes in one call: the rest is a short segment
SLICES = """
import socket, sys, numpy, fastsock
from fastsock.arrays import recv_array, send_array
slices = numpy.arange(65_544, dtype="u1")[::-1]
with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as sock:
    for _ in range(int(sys.argv[3])):
        send_array(sock, slices)
        assert (recv_array(sock) == slices).all()
    assert not sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CORK)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    send_array(sock, slices)
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CORK), "the program's own setting is gone"
    recv_array(sock)
    send_array(sock, numpy.empty(0))
"""


@pytest.mark.parametrize("kind", ["shm", "plain"])
def test_no_end_waits_for_a_late_acknowledgement(network: Hosts, kind: str) -> None:
    """Nagle's algorithm holds a short segment back until the one before it is acknowledged, and that may be late."""
    with (
        Script(kind, BACK, network.ip(0), within=network.inside(0)) as there,
        Script(kind, SLICES, network.ip(0), str(there.hear()), str(ROUNDS), within=network.inside(1)) as here,
    ):
        assert here.finish() == there.finish() == 0
    assert sum(map(network.delayed_acknowledgements, range(2))) < ROUNDS / 2


@pytest.mark.parametrize("kinds", [("shm", "shm"), ("shm", "plain"), ("plain", "shm")], ids="-".join)
def test_arrays_between_hosts(network: Hosts, kinds: tuple[str, str]) -> None:
    """A plain end speaks the same format. It has the functions, but its sockets are the standard library's."""
    with (
        Script(kinds[0], BACK, network.ip(0), within=network.inside(0)) as there,
        Script(kinds[1], SHAPES, network.ip(0), str(there.hear()), within=network.inside(1)) as here,
    ):
        ends = zip(kinds, (there.hear(), here.hear()), strict=True)
        for kind, told in ends:
            assert told == (["tcp", "peer_not_local"] if kind == "shm" else ["plain", "not_a_tcp_stream"])
        assert here.finish() == there.finish() == 0
