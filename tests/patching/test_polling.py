"""The pollers of the module `select`, and what stands on them, watch connections that gain memory while they live."""

from __future__ import annotations

import asyncio
import os
import queue
import select
import selectors
import signal
import socket
import threading
import types

import pytest

from fastsock.testing import FarProcess

from ..helpers.paths import plain_or_shm
from ..helpers.talking import talk

LONG = 20.0


kind = plain_or_shm


def _select(sock):
    return lambda seconds: bool(select.select([sock], [], [], seconds)[0])


def _select_number(sock):
    return lambda seconds: bool(select.select([sock.fileno()], [], [], seconds)[0])


def _poll(sock):
    poller = select.poll()
    poller.register(sock, select.POLLIN)
    return lambda seconds: bool(poller.poll(seconds * 1000))


def _fresh_poll(sock):
    """As urllib3: another object for each wait."""

    def wait(seconds):
        poller = select.poll()
        poller.register(sock, select.POLLIN)
        return bool(poller.poll(seconds * 1000))

    return wait


def _epoll(sock):
    poller = select.epoll()
    poller.register(sock.fileno(), select.EPOLLIN)
    return lambda seconds: bool(poller.poll(seconds))


def _one_shot(sock):
    """As trio: armed again before each wait."""
    poller = select.epoll()
    poller.register(sock.fileno(), 0)

    def wait(seconds):
        poller.modify(sock.fileno(), select.EPOLLIN | select.EPOLLONESHOT)
        return bool(poller.poll(seconds))

    return wait


def _selector(kind):
    def begin(sock):
        selector = kind()
        selector.register(sock, selectors.EVENT_READ)
        return lambda seconds: bool(selector.select(seconds))

    begin.__name__ = kind.__name__
    return begin


LEVEL = [
    _select,
    _select_number,
    _poll,
    _fresh_poll,
    _epoll,
    _one_shot,
    *map(_selector, (selectors.SelectSelector, selectors.PollSelector, selectors.EpollSelector)),
]


@pytest.fixture(params=LEVEL, ids=lambda begin: begin.__name__)
def waiting(request, installed_pair):
    """Waits until the near end is readable, or the seconds are over. Tells whether it is."""
    return request.param(installed_pair.near)


def _echo(sock, rounds):
    for _ in range(rounds):
        sock.sendall(sock.recv(100))


def _converse(pair, waiting, rounds=30):
    echoing = pair.far.begin_run(_echo, rounds)
    for number in range(rounds):
        pair.near.sendall(b"%6d" % number)
        assert waiting(LONG)
        assert pair.near.recv(100) == b"%6d" % number
    echoing.result()


def _has_memory(pair):
    return getattr(pair.near, "transport", "plain") == "shm"


def test_a_watched_connection_gains_memory(installed, installed_pair, waiting):
    _converse(installed_pair, waiting)
    assert _has_memory(installed_pair) == (installed == "shm")


def test_what_was_read_is_not_told_again(installed_pair, waiting):
    """Sent when nothing waits, so that a token may be left over."""
    _converse(installed_pair, waiting)
    for size in range(1, 40):
        for _ in range(size % 4 + 1):
            installed_pair.far.sendall(b"x" * size)
        left = size * (size % 4 + 1)
        while left:
            assert waiting(LONG)
            left -= len(installed_pair.near.recv(left))
        assert not waiting(0)
        assert not waiting(0.001)


def test_what_is_left_is_told_again(installed_pair, waiting):
    _converse(installed_pair, waiting)
    installed_pair.far.sendall(b"abc")
    for letter in (b"a", b"b", b"c"):
        for _ in range(3):
            assert waiting(LONG)
        assert installed_pair.near.recv(1) == letter
    assert not waiting(0)


def test_the_end_is_told_behind_the_bytes(installed_pair, waiting):
    _converse(installed_pair, waiting)
    installed_pair.far.sendall(b"last")
    installed_pair.far.shutdown(socket.SHUT_WR)
    assert waiting(LONG)
    assert installed_pair.near.recv(100) == b"last"
    assert waiting(LONG)
    assert installed_pair.near.recv(100) == b""


def test_the_death_of_the_other_end_is_told(installed_pair, waiting):
    _converse(installed_pair, waiting)
    installed_pair.far.process.kill()
    assert waiting(LONG)


def test_another_thread_reads_meanwhile(installed_pair, waiting):
    """It blocks in recv(), and takes what it can get; the poller must neither hang nor hear for ever."""
    _converse(installed_pair, waiting)
    total, taken = 400, []

    def read():
        while data := installed_pair.near.recv(7):
            taken.append(data)

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(total):
        installed_pair.far.sendall(b"0123456")
        waiting(0)
    installed_pair.far.shutdown(socket.SHUT_WR)
    reader.join(LONG)
    assert not reader.is_alive()
    assert b"".join(taken) == b"0123456" * total
    assert waiting(LONG)


def _told_by_select(sock):
    def tell():
        readers, writers, _ = select.select([sock], [sock], [], LONG)
        return bool(readers), bool(writers)

    return tell


def _told_by(kind):
    def begin(sock):
        poller = getattr(select, kind)()
        poller.register(sock, select.POLLIN | select.POLLOUT | select.POLLRDHUP)

        def tell():
            (told,) = poller.poll()
            return bool(told[1] & select.POLLIN), bool(told[1] & select.POLLOUT)

        return tell

    return begin


TELLING = {"select": _told_by_select, "poll": _told_by("poll"), "epoll": _told_by("epoll")}


@pytest.mark.parametrize("way", TELLING)
def test_both_directions_are_told_at_once(installed_pair, way):
    """A program may send first whatever there is to read: it would never hear that it can."""
    _converse(installed_pair, _poll(installed_pair.near))
    tell = TELLING[way](installed_pair.near)
    installed_pair.far.sendall(b"unread")
    while tell() != (True, True):  # the byte may be on its way
        assert tell()[1]
    assert {tell() for _ in range(50)} == {(True, True)}


@pytest.mark.parametrize("way", ["poll", "epoll"])
def test_the_end_is_told_while_bytes_are_unread(installed_pair, way):
    _converse(installed_pair, _poll(installed_pair.near))
    poller = getattr(select, way)()
    poller.register(installed_pair.near, select.POLLIN | select.POLLRDHUP)
    installed_pair.far.sendall(b"unread")
    installed_pair.far.shutdown(socket.SHUT_WR)
    for _ in range(100):
        if poller.poll(LONG)[0][1] & select.POLLRDHUP:
            break
    else:
        pytest.fail("only the bytes were told")
    assert installed_pair.near.recv(100) == b"unread"


def test_a_poll_object_is_made_by_no_other_way(installed):
    """As of the standard one. What lies below its class must not be called either."""
    kind = type(select.poll())
    for make in kind, lambda: kind.__new__(kind), lambda: object.__new__(kind):
        with pytest.raises(TypeError):
            make()


# ---- what one poller has that others have not ----


@pytest.fixture
def epoll():
    with select.epoll() as made:
        yield made


def test_every_arrival_has_an_edge(installed_pair, epoll):
    _converse(installed_pair, _epoll(installed_pair.near))
    epoll.register(installed_pair.near, select.EPOLLIN | select.EPOLLET)
    for read in (False, True) * 20:
        installed_pair.far.sendall(b"x")
        assert epoll.poll(LONG)
        if read:
            assert installed_pair.near.recv(100)
    assert epoll.poll(0) == []


def test_one_shot_is_told_once(installed_pair, epoll):
    _converse(installed_pair, _epoll(installed_pair.near))
    number = installed_pair.near.fileno()
    epoll.register(number, select.EPOLLIN | select.EPOLLONESHOT)
    for _ in range(20):
        installed_pair.far.sendall(b"xy")
        assert epoll.poll(LONG) == [(number, select.EPOLLIN)]
        assert epoll.poll(0) == []
        installed_pair.near.recv(1)
        epoll.modify(number, select.EPOLLIN | select.EPOLLONESHOT)
        assert epoll.poll(LONG) == [(number, select.EPOLLIN)]
        installed_pair.near.recv(1)
        epoll.modify(number, select.EPOLLIN | select.EPOLLONESHOT)
        assert epoll.poll(0) == []


def test_who_arms_a_number_anew_is_told_while_another_thread_hears_of_what_was_read(installed_pair, epoll):
    near, far = installed_pair.near, installed_pair.far
    _converse(installed_pair, _epoll(near))
    number, told = near.fileno(), queue.SimpleQueue()
    epoll.register(number, select.EPOLLONESHOT)

    def hear():
        while not is_over.is_set():
            for _, events in epoll.poll(0.1):
                told.put(events)

    is_over, thread = threading.Event(), threading.Thread(target=hear)
    thread.start()
    try:
        for _ in range(3000):
            epoll.modify(number, select.EPOLLIN | select.EPOLLONESHOT)
            far.sendall(b"x")
            assert near.recv(1) == b"x"
            epoll.modify(number, select.EPOLLIN | select.EPOLLOUT | select.EPOLLONESHOT)
            while not told.get(timeout=LONG) & select.EPOLLOUT:
                pass
    finally:
        is_over.set()
        thread.join()


def test_a_forked_child_registers_while_a_thread_of_its_parent_does(installed_pair, epoll):
    number = installed_pair.near.fileno()
    epoll.register(number, select.EPOLLIN)

    def register():
        while not is_over.is_set():
            epoll.modify(number, select.EPOLLIN)

    is_over, thread = threading.Event(), threading.Thread(target=register)
    thread.start()
    try:
        for _ in range(100):
            child = os.fork()
            if child == 0:
                signal.alarm(int(LONG))
                with select.epoll() as own:
                    own.register(number, select.EPOLLIN)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        is_over.set()
        thread.join()


def test_no_more_than_asked_for_are_told(installed_maker, epoll):
    with installed_maker.pair() as one, installed_maker.pair() as other:
        for pair in (one, other):
            _converse(pair, _epoll(pair.near))
            epoll.register(pair.near, select.EPOLLIN)
            pair.far.sendall(b"x")
            assert pair.near.recv(1, socket.MSG_PEEK) == b"x"
        told = [epoll.poll(LONG, 1) for _ in range(40)]
        assert all(len(events) == 1 for events in told)
        assert {events[0][0] for events in told} == {one.near.fileno(), other.near.fileno()}


def test_a_poller_that_is_watched_itself(installed_pair, epoll):
    _converse(installed_pair, _epoll(installed_pair.near))
    epoll.register(installed_pair.near, select.EPOLLIN)
    with select.epoll() as outer:
        outer.register(epoll, select.EPOLLIN)
        for _ in range(20):
            assert outer.poll(0) == []
            installed_pair.far.sendall(b"x")
            assert outer.poll(LONG) == [(epoll.fileno(), select.EPOLLIN)]
            assert epoll.poll(0) == [(installed_pair.near.fileno(), select.EPOLLIN)]
            assert installed_pair.near.recv(10) == b"x"


def test_two_objects_of_one_poller(installed_pair, epoll):
    other = select.epoll.fromfd(os.dup(epoll.fileno()))
    with other:
        epoll.register(installed_pair.near, select.EPOLLIN)
        _converse(installed_pair, other.poll)
        assert other.poll(0) == []


def test_a_duplicate_number_is_registered(installed_pair, epoll):
    number = os.dup(installed_pair.near.fileno())
    epoll.register(number, select.EPOLLIN)
    _converse(installed_pair, epoll.poll)
    epoll.unregister(number)
    os.close(number)
    _converse(installed_pair, _epoll(installed_pair.near))


def test_a_number_that_means_another_connection(installed_maker, epoll):
    with installed_maker.pair() as pair:
        epoll.register(pair.near, select.EPOLLIN)
        _converse(pair, epoll.poll)
    for _ in range(3):
        with installed_maker.pair() as pair:
            epoll.register(pair.near, select.EPOLLIN)
            _converse(pair, epoll.poll)


def test_a_forked_child_waits_by_its_parents_poller(installed_pair, epoll):
    epoll.register(installed_pair.near, select.EPOLLIN)
    _converse(installed_pair, epoll.poll)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        found = b"?"
        try:
            if epoll.poll(LONG):
                found = installed_pair.near.recv(100)
        finally:
            os.write(writing, found)
            os._exit(0)
    installed_pair.far.sendall(b"for the child")
    assert os.read(reading, 100) == b"for the child"
    os.waitpid(child, 0)
    os.close(reading)
    os.close(writing)
    installed_pair.far.sendall(b"x")
    assert epoll.poll(LONG)
    assert installed_pair.near.recv(100) == b"x"


def test_several_threads_wait_by_one_poller(installed_pair, epoll):
    epoll.register(installed_pair.near, select.EPOLLIN)
    _converse(installed_pair, epoll.poll)
    installed_pair.near.setblocking(False)
    taken, lock, over = [], threading.Lock(), threading.Event()

    def serve():
        while not over.is_set():
            if epoll.poll(0.05):
                with lock:
                    try:
                        taken.append(installed_pair.near.recv(3))
                    except BlockingIOError:
                        continue
                    if sum(map(len, taken)) >= 900:
                        over.set()

    threads = [threading.Thread(target=serve) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(300):
        installed_pair.far.sendall(b"abc")
    for thread in threads:
        thread.join(LONG)
    assert b"".join(taken) == b"abc" * 300


# ---- who asks for a number ----


def _as(package, call, *arguments):
    """Calls it from a module of another package."""
    function = types.FunctionType(call.__code__, {"__name__": package, "select": select, "selectors": selectors})
    return function(*arguments)


def _number(sock):
    return sock.fileno()


def _register(poller, number):
    poller.register(number, 1)


def test_a_package_that_asks_and_does_not_register_may_watch_unseen(installed, installed_pair, epoll):
    number = _as("stranger.loops", _number, installed_pair.near)
    _as("others", _register, epoll, number)
    _converse(installed_pair, epoll.poll)
    assert not _has_memory(installed_pair)


def test_a_package_that_asks_and_registers_is_seen(installed, installed_pair, epoll):
    number = _as("known.streams", _number, installed_pair.near)
    _as("known.loops", _register, epoll, number)
    _converse(installed_pair, epoll.poll, 100)
    assert _has_memory(installed_pair) == (installed == "shm")


def test_a_package_may_begin_to_watch_what_has_memory(installed, installed_pair, epoll):
    """What the kernel shows is exact from then on, and both ends still understand each other."""
    _converse(installed_pair, _epoll(installed_pair.near))
    number = _as("stranger", _number, installed_pair.near)
    unseen = _UNSEEN[0]()
    unseen.register(number, select.EPOLLIN)
    for _ in range(20):
        assert unseen.poll(0) == []
        installed_pair.far.sendall(b"xy")
        for _ in range(2):
            assert unseen.poll(LONG)
            installed_pair.near.recv(1)
    unseen.close()
    _as("stranger", _register, epoll, number)
    _converse(installed_pair, epoll.poll)
    assert _has_memory(installed_pair) == (installed == "shm")


_UNSEEN = (select.epoll,)  # the standard one: taken before any test installs anything, and nobody finds it here


# ---- whole loops, and races ----


def _talk(sock, seed, rounds, largest):
    talk(sock, seed, rounds, largest)
    sock.shutdown(socket.SHUT_WR)


def _talk_on_all(here, address, seeds, rounds, largest):
    socks = [socket.create_connection(address) for _ in seeds]
    threads = [
        threading.Thread(target=_talk, args=(sock, seed, rounds, largest))
        for sock, seed in zip(socks, seeds, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for sock in socks:
        sock.close()


async def _echo_all(listener, count):
    loop, ended = asyncio.get_running_loop(), []

    async def serve(sock):
        sock.setblocking(False)
        while data := await loop.sock_recv(sock, 65536):
            await loop.sock_sendall(sock, data)
        ended.append(getattr(sock, "transport", "plain"))
        sock.close()

    listener.setblocking(False)
    tasks = [asyncio.ensure_future(serve((await loop.sock_accept(listener))[0])) for _ in range(count)]
    await asyncio.wait_for(asyncio.gather(*tasks), 60)
    return ended


@pytest.mark.parametrize("selector", [selectors.SelectSelector, selectors.PollSelector, selectors.EpollSelector])
def test_loops_while_connections_gain_memory_and_spill(installed, selector):
    """The blocks are larger than a ring: its direction goes to TCP and back, while the loop sleeps."""
    loop = asyncio.SelectorEventLoop(selector())
    with FarProcess(fresh=True) as far, socket.create_server(("127.0.0.1", 0)) as listener:
        if installed == "shm":
            far.run(_install)
        talking = far.begin(_talk_on_all, listener.getsockname(), range(6), 60, 3_000_000)
        ended = loop.run_until_complete(_echo_all(listener, 6))
        talking.result()
    loop.close()
    assert ended == ["shm" if installed == "shm" else "plain"] * 6


def _install(here):
    import fastsock

    fastsock.install()
