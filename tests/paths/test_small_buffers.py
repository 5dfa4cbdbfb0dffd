"""Programs at both ends that ask for small buffers, so as to see how fast the other one takes what they send."""

from __future__ import annotations

import socket as standard
from contextlib import closing

import pytest

from fastsock.testing import FarProcess
from fastsock.testing.outcomes import fill, receive

from ..helpers.paths import plain_or_shm

ASKED = 4096
MOST_ROUNDS = 1000
SEGMENT = 64 << 10  # what TCP sends at once within a host


kind = plain_or_shm


def _listen(here, near):
    here.listener = near.listener()
    here.listener.setsockopt(standard.SOL_SOCKET, standard.SO_RCVBUF, ASKED)
    return here.listener.getsockname()


def _accept(here):
    here.sock, _ = here.listener.accept()


def _receive(here, count):
    return receive(here.sock, count)


def _answer(here):
    """Until the other end has all that it may gain."""
    while (asked := receive(here.sock, 1)) == b"?":
        here.sock.sendall(asked)


def _ask_for(here, size):
    here.sock.setsockopt(standard.SOL_SOCKET, standard.SO_RCVBUF, size)


def _close(here):
    here.sock.close()


@pytest.fixture(params=("before", "later"))
def when(request):
    return request.param


@pytest.fixture
def ends(kind, near, when):
    """A connection from here to a process, whose buffers are small: before the first byte, or later."""
    with FarProcess() as far:
        address = far.run(_listen, near)
        accepting = far.begin(_accept)
        with closing(near.sockets.create_connection(address, timeout=60)) as sock:
            accepting.result()
            if when == "before":
                sock.setsockopt(standard.SOL_SOCKET, standard.SO_SNDBUF, ASKED)
            answering = far.begin(_answer)  # a connection may gain memory meanwhile
            for _ in range(MOST_ROUNDS):
                sock.sendall(b"?")
                receive(sock, 1)
                if kind == "plain" or sock.transport == "shm":
                    break
            sock.sendall(b".")
            answering.result()
            if when == "later":
                sock.setsockopt(standard.SOL_SOCKET, standard.SO_SNDBUF, ASKED)
            assert kind == "plain" or sock.transport == "shm"
            yield sock, far


def test_no_more_is_under_way_than_both_buffers_hold(ends):
    sock, far = ends
    for _ in range(3):
        count = fill(sock)
        assert 0 < count <= 2 * SEGMENT
        assert len(far.run(_receive, count)) == count


def test_a_sender_that_waits_goes_on_when_the_receiver_asks_for_more(ends):
    sock, far = ends
    count = fill(sock)
    far.run(_ask_for, 4 << 20)
    sock.settimeout(60)
    sock.sendall(b"there is room")  # nobody has read
    assert far.run(_receive, count + 13)[-13:] == b"there is room"


def test_who_has_closed_takes_no_more_than_the_buffers(ends):
    """A sender of much is told soon."""
    sock, far = ends
    sock.sendall(b"all that it reads")
    far.run(_receive, 17)
    far.run(_close)
    sock.settimeout(60)
    taken = 0
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        while True:
            taken += sock.send(bytes(1 << 20))
    assert 0 < taken <= 2 * SEGMENT
