"""What is told of a TCP connection whose bytes the kernel alone counts."""

from __future__ import annotations

import socket

from fastsock.connection.registry import counts_of, kernel_counts

WAIT_ALL = socket.MSG_WAITALL


def until_over(sock):
    while sock.recv(100):
        pass


def counts(*ends):
    return [tuple(kernel_counts(end).values()) for end in ends]


def test_the_kernel_s_counts_are_of_the_program_s_bytes():
    """Neither what opens a connection nor what ends it is one of them, at either end."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    with near, far:
        assert counts(near, far) == [(0, 0), (0, 0)]
        near.sendall(b"question")
        far.sendall(b"it")
        assert (far.recv(8, WAIT_ALL), near.recv(2, WAIT_ALL)) == (b"question", b"it")
        assert counts(near, far) == [(8, 2), (2, 8)]
        near.shutdown(socket.SHUT_WR)
        until_over(far)
        assert counts(near, far) == [(8, 2), (2, 8)]
        far.sendall(b"more")
        far.shutdown(socket.SHUT_WR)
        until_over(near)
        assert counts(near, far) == [(8, 6), (6, 8)]


def test_bytes_behind_which_an_end_waits_are_counted_without_it():
    """A far end that reads nothing: this end's bytes, and its end behind them, wait here."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    with near, far:
        near.setblocking(False)
        sent = 0
        try:
            while True:
                sent += near.send(bytes(1 << 16))
        except BlockingIOError:
            near.shutdown(socket.SHUT_WR)
        assert kernel_counts(near)["bytes_sent"] == sent
        got = 0
        while data := far.recv(1 << 20):
            got += len(data)
        assert got == sent == kernel_counts(near)["bytes_sent"] == kernel_counts(far)["bytes_received"]


def test_a_record_of_an_old_kernel_tells_nothing():
    assert counts_of(bytes(192)) == {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        assert kernel_counts(other) == {}
