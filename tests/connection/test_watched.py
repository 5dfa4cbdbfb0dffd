"""Numbers that are registered with a poller before their socket connects: the pollers tell of the connection."""

from __future__ import annotations

import errno
import select
import warnings
from contextlib import ExitStack, closing

import pytest

from fastsock.testing import FarProcess
from fastsock.testing.outcomes import receive

PATIENCE_S = 60


class Watchers:
    """An epoll, a poll and a select for each direction. All of them watch what is registered."""

    def __init__(self, cleaning):
        self.epolls = {flag: cleaning.enter_context(select.epoll()) for flag in (select.EPOLLIN, select.EPOLLOUT)}
        self.polls = {flag: select.poll() for flag in (select.POLLIN, select.POLLOUT)}
        self.watched = None

    def register(self, watched):
        self.watched = watched
        for pollers in self.epolls, self.polls:
            for flag, poller in pollers.items():
                poller.register(watched, flag)

    def expect(self, flag):
        """Waits for one direction. Nothing else may be told of it, above all no error."""
        assert [events for _, events in self.epolls[flag].poll(PATIENCE_S)] == [flag]
        assert [events for _, events in self.polls[flag].poll(PATIENCE_S * 1000)] == [flag]
        asked = [self.watched] if flag == select.EPOLLIN else [], [self.watched] if flag == select.EPOLLOUT else []
        assert select.select(*asked, [self.watched], PATIENCE_S) == (*asked, [])


def _by_the_socket(sockets, register, keep):
    sock = sockets.socket()
    register(sock)
    return sock


def _by_its_number(sockets, register, keep):
    sock = sockets.socket()
    register(sock.fileno())
    return sock


def _by_its_file(sockets, register, keep):
    sock = sockets.socket()
    register(keep(sock.makefile("rb")))
    return sock


def _made_from_a_number(sockets, register, keep):
    number = sockets.socket().detach()
    register(number)
    return sockets.socket(fileno=number)


def _by_its_duplicate(sockets, register, keep):
    sock = sockets.socket()
    register(keep(sock.dup()))
    return sock


def _the_duplicate_connects(sockets, register, keep):
    sock = keep(sockets.socket())
    register(sock)
    return sock.dup()


def _a_copy_from_its_number(sockets, register, keep):
    number = keep(sockets.socket()).fileno()
    register(number)
    return sockets.fromfd(number, sockets.AF_INET, sockets.SOCK_STREAM)


def _by_a_dispatcher(sockets, register, keep):
    """As pyftpdlib does: asyncore asks for the number, and a class of the program's registers it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        asyncore = pytest.importorskip("asyncore")

    class Dispatcher(asyncore.dispatcher):
        def add_channel(self, _=None):
            register(self._fileno)

    dispatcher = Dispatcher(map={})
    dispatcher.set_socket(sockets.socket())
    return dispatcher.socket


WAYS = (
    _by_the_socket,
    _by_its_number,
    _by_its_file,
    _made_from_a_number,
    _by_its_duplicate,
    _the_duplicate_connects,
    _a_copy_from_its_number,
    _by_a_dispatcher,
)


def _listen(here, maker):
    here.listener = maker.listener()
    return here.listener.getsockname()


def _accept(here):
    here.sock, _ = here.listener.accept()


def _send(here, data):
    here.sock.sendall(data)


def _receive(here, size):
    return receive(here.sock, size)


def _answer(here, times):
    for _ in range(times):
        here.sock.sendall(receive(here.sock, 3))


def _close(here):
    here.sock.close()


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__.strip("_"))
def test_what_watches_before_the_connect_is_told_of_the_connection(near, way):
    with FarProcess() as process, ExitStack() as cleaning:
        address = process.run(_listen, near)
        watchers = Watchers(cleaning)
        sock = cleaning.enter_context(
            closing(way(near.sockets, watchers.register, lambda kept: cleaning.enter_context(closing(kept))))
        )
        sock.setblocking(False)
        assert sock.connect_ex(address) in (0, errno.EINPROGRESS)
        watchers.expect(select.EPOLLOUT)
        process.run(_accept)
        for data in b"abc", b"def":
            process.run(_send, data)
            watchers.expect(select.EPOLLIN)
            assert sock.recv(100) == data
            watchers.expect(select.EPOLLOUT)
            assert sock.send(data) == len(data)
            assert process.run(_receive, len(data)) == data
        process.run(_close)
        watchers.expect(select.EPOLLIN)
        assert sock.recv(100) == b""


def test_a_socket_that_was_only_shown_is_not_watched(near):
    with FarProcess() as process:
        address = process.run(_listen, near)
        accepting = process.begin(_accept)
        with closing(near.sockets.socket()) as sock:
            assert str(address[1]) not in repr(sock)
            sock.connect(address)
            accepting.result()
            near.check(sock)


def test_who_watched_a_number_does_not_watch_the_next_file_of_it(near):
    with FarProcess() as process:
        address = process.run(_listen, near)
        accepting = process.begin(_accept)
        first = near.connect(address)
        accepting.result()
        given_away = near.sockets.socket(fileno=first.detach())
        number = given_away.fileno()  # whoever asks may watch it
        given_away.close()
        accepting = process.begin(_accept)
        with closing(near.connect(address)) as sock:
            accepting.result()
            answering = process.begin(_answer, 200)
            for _ in range(200):
                sock.sendall(b"abc")
                assert receive(sock, 3) == b"abc"
            answering.result()
            assert not near.gains_memory(sock) or sock.transport == "shm"
            assert sock.detach() == number
