"""Epoll objects that hear of connections with memory by a bit: what other watchers of the same ones still hear."""

from __future__ import annotations

import os
import random
import select
import socket
import struct
import threading
import time
import types

import pytest

from fastsock.testing import FarProcess

from ..helpers.paths import plain_or_shm
from ..helpers.talking import talk

LONG = 20.0
SEEDS = 300 if os.environ.get("FASTSOCK_SOAK") else 2
OFTEN = 40  # exchanges, after which the poller hears by bits
_UNSEEN = (select.epoll,)  # the standard one: taken before any test installs anything, and nobody finds it here


kind = plain_or_shm


@pytest.fixture
def epoll():
    with select.epoll() as made:
        yield made


def _echo(sock, rounds):
    for _ in range(rounds):
        sock.sendall(sock.recv(100))


def _converse(pair, poll, rounds=OFTEN):
    number = pair.near.fileno()
    echoing = pair.far.begin_run(_echo, rounds)
    for turn in range(rounds):
        pair.near.sendall(b"%6d" % turn)
        told = []
        while not told:  # of that one: others may have something too
            told = [event for event in poll(LONG) if event[0] == number]
        assert told == [(number, select.EPOLLIN)]
        assert pair.near.recv(100) == b"%6d" % turn
    echoing.result()


@pytest.fixture
def heard(installed, installed_pair, epoll):
    """A pair that the poller hears of by a bit, if it has memory."""
    epoll.register(installed_pair.near.fileno(), select.EPOLLIN)
    _converse(installed_pair, epoll.poll)
    if installed == "shm":
        assert installed_pair.near.transport == "shm"
    return installed_pair


def _arrive(pair, data):
    """Until it can be read."""
    pair.far.sendall(data)
    while len(pair.near.recv(len(data), socket.MSG_PEEK)) < len(data):
        pass


def _received_by_tcp(sock):
    return struct.unpack_from("<Q", sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192), 128)[0]


def test_nothing_is_sent_on_tcp_to_wake_it(installed, heard, epoll):
    before = _received_by_tcp(heard.near)
    _converse(heard, epoll.poll, 200)
    grown = _received_by_tcp(heard.near) - before
    assert grown < 50 if installed == "shm" else grown == 200 * 6, grown


def test_what_is_unread_is_told_by_each_poller(heard, epoll):
    for _ in range(20):
        _arrive(heard, b"xy")
        with select.epoll() as late:
            late.register(heard.near, select.EPOLLIN)
            for poll in (epoll.poll, late.poll, epoll.poll, late.poll):
                assert poll(LONG) == [(heard.near.fileno(), select.EPOLLIN)]
            assert heard.near.recv(1) == b"x"
            assert late.poll(LONG)
            assert epoll.poll(LONG)
            assert heard.near.recv(1) == b"y"
            assert late.poll(0) == epoll.poll(0) == []


def _ask(poller, told):
    told.append(poller.poll(LONG))


def _ask_by_threads(heard, pollers):
    """Each is told of the same byte, which nobody reads meanwhile."""
    told = []
    threads = [threading.Thread(target=_ask, args=(poller, told)) for poller in pollers]
    for thread in threads:
        thread.start()
    heard.far.sendall(b"z")
    for thread in threads:
        thread.join(LONG + 5)
    assert told == [[(heard.near.fileno(), select.EPOLLIN)]] * len(pollers)
    assert heard.near.recv(10) == b"z"


def test_two_pollers_sleep_on_one_connection(heard, epoll):
    with select.epoll() as other:
        other.register(heard.near, select.EPOLLIN)
        for _ in range(30):
            _ask_by_threads(heard, (epoll, other))
    _converse(heard, epoll.poll)


def test_two_threads_sleep_in_one_object(heard, epoll):
    """The first to be told does not come back."""
    for _ in range(60):
        _ask_by_threads(heard, (epoll, epoll))
    _converse(heard, epoll.poll)


def _as(package, call, *arguments):
    """Calls it from a module of another package."""
    return types.FunctionType(call.__code__, {"__name__": package})(*arguments)


def _number(sock):
    return sock.fileno()


def _modify(poller, number):
    poller.modify(number, 1)


def test_a_watcher_that_is_not_seen_hears_of_what_is_unread(heard, epoll):
    """No token lies on TCP: the bit has told of it. The other end's program makes no call."""
    for turn in range(20):
        _arrive(heard, b"xy")
        number = _as(f"stranger{turn}", _number, heard.near)
        unseen = _UNSEEN[0]()
        unseen.register(number, select.EPOLLIN)
        for _ in range(2):
            assert unseen.poll(LONG)
            heard.near.recv(1)
        assert unseen.poll(0) == []
        unseen.close()
        _as(f"stranger{turn}", _modify, epoll, number)
        _converse(heard, epoll.poll, 20)


@pytest.mark.parametrize("form", [select.EPOLLIN | select.EPOLLET, select.EPOLLIN | select.EPOLLONESHOT], ids="e1")
def test_it_changes_between_levels_and_what_only_the_kernel_tells(heard, epoll, form):
    number = heard.near.fileno()
    for _ in range(10):
        _arrive(heard, b"x")
        epoll.modify(number, form)
        assert epoll.poll(LONG) == [(number, select.EPOLLIN)]
        assert epoll.poll(0) == []
        epoll.modify(number, select.EPOLLIN)
        for _ in range(3):
            assert epoll.poll(LONG) == [(number, select.EPOLLIN)]
        assert heard.near.recv(10) == b"x"
        _converse(heard, epoll.poll, 3)


def test_it_is_registered_again(heard, epoll):
    for _ in range(10):
        epoll.unregister(heard.near)
        _arrive(heard, b"x")
        assert epoll.poll(0) == []
        epoll.register(heard.near, select.EPOLLIN)
        assert epoll.poll(LONG)
        assert heard.near.recv(10) == b"x"
        epoll.modify(heard.near, 0)
        heard.far.sendall(b"y")
        assert epoll.poll(0) == []
        epoll.modify(heard.near, select.EPOLLIN)
        assert epoll.poll(LONG)
        assert heard.near.recv(10) == b"y"


def test_one_that_comes_back_again_and_again_is_not_woken_on_tcp(installed, heard, epoll):
    """As asyncio has it, where a program reads more slowly than the other end writes."""

    def poll(limit):
        epoll.unregister(heard.near)
        epoll.register(heard.near, select.EPOLLIN)
        return epoll.poll(limit)

    before = _received_by_tcp(heard.near)
    _converse(heard, poll, 200)
    grown = _received_by_tcp(heard.near) - before
    assert grown < 50 if installed == "shm" else grown == 200 * 6, grown


def test_one_comes_back_while_a_thread_sleeps(heard, epoll):
    for _ in range(30):
        epoll.unregister(heard.near)
        _arrive(heard, b"x")
        told = []
        thread = threading.Thread(target=_ask, args=(epoll, told))
        thread.start()
        epoll.register(heard.near, select.EPOLLIN)
        thread.join(LONG + 5)
        assert told == [[(heard.near.fileno(), select.EPOLLIN)]]
        assert heard.near.recv(10) == b"x"


def test_one_is_heard_while_another_one_is_always_ready(installed, epoll):
    """Of so many that no poller remembers all."""
    count = 40
    with FarProcess(fresh=True) as far, socket.create_server(("127.0.0.1", 0), backlog=count) as listener:
        if installed == "shm":
            far.run(_install)
        serving = far.begin(_echo_on_many, listener.getsockname(), count)
        socks = [listener.accept()[0] for _ in range(count)]
        for sock in socks:
            epoll.register(sock, select.EPOLLIN)
        for sock in socks:
            for turn in range(OFTEN):
                sock.sendall(b"%6d" % turn)
                assert epoll.poll(LONG) == [(sock.fileno(), select.EPOLLIN)]
                assert sock.recv(100) == b"%6d" % turn
        forgotten, busy = socks[0], socks[-1]
        for _ in range(5):
            busy.sendall(b"unread")
            assert epoll.poll(LONG)
            forgotten.sendall(b"heard?")
            deadline = time.monotonic() + LONG
            while (forgotten.fileno(), select.EPOLLIN) not in epoll.poll(0):
                assert time.monotonic() < deadline
            assert forgotten.recv(100) == b"heard?"
            assert busy.recv(100) == b"unread"
        for sock in socks:
            sock.close()
        serving.result()


def _echo_on_many(here, address, count):
    socks = [socket.create_connection(address) for _ in range(count)]
    with select.epoll() as poller:
        by_number = {sock.fileno(): sock for sock in socks}
        for number in by_number:
            poller.register(number, select.EPOLLIN)
        while by_number:
            for number, _ in poller.poll():
                data = by_number[number].recv(100)
                by_number[number].sendall(data)
                if not data:
                    poller.unregister(number)
                    by_number.pop(number).close()


def test_its_own_number_is_asked_for(heard, epoll):
    """From then on nothing but what is so shows there, also of what was unread."""
    _arrive(heard, b"x")
    with select.epoll() as outer:
        outer.register(epoll.fileno(), select.EPOLLIN)
        for _ in range(20):
            assert outer.poll(LONG) == [(epoll.fileno(), select.EPOLLIN)]
            assert epoll.poll(0) == [(heard.near.fileno(), select.EPOLLIN)]
            assert heard.near.recv(10) == b"x"
            assert outer.poll(0) == []
            heard.far.sendall(b"x")
    assert heard.near.recv(10) == b"x"


def test_it_is_closed_while_connections_stay(heard, epoll):
    _arrive(heard, b"x")
    epoll.close()
    for _ in range(3):
        with select.epoll() as next_one:
            next_one.register(heard.near, select.EPOLLIN)
            assert next_one.poll(LONG)
            assert heard.near.recv(10) == b"x"
            _converse(heard, next_one.poll)
            _arrive(heard, b"x")
    assert heard.near.recv(10) == b"x"


def test_the_end_and_a_kill_are_told(installed_maker, epoll):
    for how in ("shutdown", "kill", "shutdown"):
        with installed_maker.pair() as pair:
            epoll.register(pair.near.fileno(), select.EPOLLIN)
            _converse(pair, epoll.poll)
            _arrive(pair, b"last")
            if how == "kill":
                pair.far.process.kill()
            else:
                pair.far.shutdown(socket.SHUT_WR)
            assert epoll.poll(LONG)
            assert pair.near.recv(100) == b"last"
            assert epoll.poll(LONG)
            epoll.unregister(pair.near)
            if how == "kill":
                return


def test_the_program_closes_every_pipe_that_it_does_not_know(installed_pair, epoll):
    before = set(_pipes())
    epoll.register(installed_pair.near.fileno(), select.EPOLLIN)
    _converse(installed_pair, epoll.poll)
    for number in set(_pipes()) - before:
        os.close(number)
    _converse(installed_pair, epoll.poll)
    reading, writing = os.pipe()  # perhaps by the same numbers
    epoll.register(reading, select.EPOLLIN)
    assert epoll.poll(0) == []
    os.write(writing, b"x")
    assert epoll.poll(LONG) == [(reading, select.EPOLLIN)]
    epoll.unregister(reading)
    _converse(installed_pair, epoll.poll)
    os.close(reading)
    os.close(writing)


def test_the_program_has_the_number_of_a_closed_pipe(installed_pair, epoll):
    before = set(_pipes())
    epoll.register(installed_pair.near.fileno(), select.EPOLLIN)
    _converse(installed_pair, epoll.poll)
    closed = sorted(set(_pipes()) - before)
    reading, writing = os.pipe()
    for number in closed:
        os.dup2(reading, number)
    numbers = sorted([*closed, reading])
    for number in numbers:
        epoll.register(number, select.EPOLLIN)
    assert epoll.poll(0) == []
    os.write(writing, b"x")
    assert sorted(epoll.poll(LONG)) == [(number, select.EPOLLIN) for number in numbers]
    assert os.read(reading, 1) == b"x"
    _converse(installed_pair, epoll.poll)
    for number in (*numbers, writing):
        os.close(number)
    _converse(installed_pair, epoll.poll)


def _pipes():
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{name}").startswith("pipe:"):
                yield int(name)
        except OSError:
            continue


@pytest.mark.parametrize("first", ["asks", "registers another number", "registers it again"])
def test_a_forked_child_serves_by_its_parents_poller(heard, epoll, first):
    """The parent does not ask meanwhile. What was unread, and what comes, the child hears by itself."""
    _arrive(heard, b"000000")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if first != "asks":
                epoll.unregister(heard.near)
            if first == "registers another number":
                reading, _writing = os.pipe()
                epoll.register(reading, select.EPOLLIN)
            if first != "asks":
                epoll.register(heard.near, select.EPOLLIN)
            for turn in range(20):
                if not epoll.poll(LONG) or heard.near.recv(6) != b"%06d" % turn:
                    break
                heard.near.sendall(b"%06d" % turn)
            else:
                code = 0
        finally:
            os._exit(code)
    for turn in range(20):
        if turn:
            heard.far.sendall(b"%06d" % turn)
        assert heard.far.recv(6) == b"%06d" % turn
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    _converse(heard, epoll.poll)


# ---- many at once ----


class _Served:
    def __init__(self, sock):
        self.sock = sock
        self.number = sock.fileno()
        self.left = b""  # to be sent
        self.poller = None


class _Server:
    """Echoes on many connections. Each is with one of several pollers, a thread each, and moves at random."""

    def __init__(self, listener, count, pollers, seed):
        self.rng = random.Random(seed)
        self.pollers = [select.epoll() for _ in range(pollers)]
        self.spectator = select.epoll()
        self.over, self.ending = os.pipe()
        self.lock = threading.Lock()
        self.served = {}
        self.faults = []
        self.open = count
        for _ in range(count):
            sock = listener.accept()[0]
            sock.setblocking(False)
            served = _Served(sock)
            self.served[served.number] = served
            self.spectator.register(served.number, select.EPOLLIN)
            self.give(served)
        for poller in self.pollers:
            poller.register(self.over, select.EPOLLIN)

    def give(self, served):
        served.poller = self.rng.choice(self.pollers)
        served.poller.register(served.number, self.form(served))

    def form(self, served):
        return (
            select.EPOLLIN
            | (select.EPOLLOUT if served.left else 0)
            | self.rng.choice((0, 0, 0, select.EPOLLONESHOT, select.EPOLLET))
        )

    def run(self):
        threads = [threading.Thread(target=self.serve, args=(poller,)) for poller in self.pollers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for poller in (*self.pollers, self.spectator):
            poller.close()
        os.close(self.over)
        os.close(self.ending)
        return self.faults

    def serve(self, poller):
        try:
            while self.open and not self.faults:
                told = poller.poll(LONG)
                with self.lock:
                    if not told and any(served.poller is poller for served in self.served.values()):
                        self.faults.append("nobody told it of anything")
                    for number, _ in told:
                        if number in self.served:
                            self.echo(poller, self.served[number])
                    if self.rng.random() < 0.1:
                        self.spectator.poll(0)
        except Exception as error:
            self.faults.append(repr(error))
        finally:
            os.write(self.ending, b"x")

    def echo(self, poller, served):
        """Edges and levels alike: until there is nothing more, and then with any poller."""
        ended = False
        try:
            while served.left:
                served.left = served.left[served.sock.send(served.left) :]
            while not served.left and not ended:
                served.left = served.sock.recv(self.rng.choice((1, 7, 4096, 70000)))
                ended = not served.left
                while served.left:
                    served.left = served.left[served.sock.send(served.left) :]
        except BlockingIOError:
            pass
        try:
            if ended or self.rng.random() < 0.1:
                poller.unregister(served.number)
            else:
                poller.modify(served.number, self.form(served))
                return
        except FileNotFoundError:
            return  # told twice: it is with another one already
        if ended:
            del self.served[served.number]
            self.spectator.unregister(served.number)
            served.sock.close()
            self.open -= 1
        else:
            self.give(served)


def _talk_on_all(here, address, seed, count, rounds, largest):
    socks = [socket.create_connection(address) for _ in range(count)]
    threads = [
        threading.Thread(target=talk, args=(sock, seed * 1000 + i, rounds, largest)) for i, sock in enumerate(socks)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for sock in socks:
        sock.close()


def _install(here):
    import fastsock

    fastsock.install()


def serve_at_random(installed, seed, rounds):
    rng = random.Random(seed)
    count, pollers = rng.choice((3, 8, 40)), rng.choice((1, 2, 3))
    with FarProcess(fresh=True) as far, socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        if installed == "shm":
            far.run(_install)
        talking = far.begin(_talk_on_all, listener.getsockname(), seed, count, rounds, rng.choice((3000, 200_000)))
        assert _Server(listener, count, pollers, seed).run() == []
        talking.result()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_connections_that_move_between_pollers(installed, seed):
    serve_at_random(installed, seed, 20)
