"""What the tests of faults do in the processes that a fault meets: connect, exchange, and count how far they are."""

from __future__ import annotations

import mmap
import os
import socket
import struct

from fastsock.testing.outcomes import receive
from fastsock.testing.patterns import Pattern

LONG = bool(os.environ.get("FASTSOCK_SOAK"))
MIB = 1 << 20
SENT, RECEIVED = 0, 1
MESSAGE = Pattern(4).at(0, 30_000)


class Progress:
    """Numbers that processes count up in memory that they share."""

    def __init__(self, count=4):
        self.memory = mmap.mmap(-1, 8 * count)

    def set(self, index, value):
        struct.pack_into("q", self.memory, 8 * index, value)

    def get(self, index):
        return struct.unpack_from("q", self.memory, 8 * index)[0]


def listen(here, maker):
    here.listener = maker.listener()
    return here.listener.getsockname()


def accept(here, maker):
    here.sock, _ = here.listener.accept()
    maker.check(here.sock)


def connect(here, maker, address):
    here.sock = maker.connect(address)
    maker.check(here.sock)


def settle(here, maker):
    """While the other end does, too."""
    maker.settle(here.sock)


def exchange(here, maker, address):
    """Connect, exchange a little and much; the path that it took."""
    with maker.connect(address) as sock:
        sock.sendall(b"hello")
        assert receive(sock, 5) == b"hello"
        transport = getattr(sock, "transport", "plain")
        sock.sendall(MESSAGE)
        sock.shutdown(socket.SHUT_WR)
        assert receive(sock, len(MESSAGE)) == MESSAGE
        assert sock.recv(1) == b""
    return transport


def serve_once(here, maker):
    sock, _ = here.listener.accept()
    with sock:
        transport = getattr(sock, "transport", "plain")
        sock.sendall(receive(sock, 5))
        while data := sock.recv(10_000):
            sock.sendall(data)
    return transport
