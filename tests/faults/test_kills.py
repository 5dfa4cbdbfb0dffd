"""SIGKILL of either end at random moments of everything that a connection may be doing.

Two processes make one connection after the other and talk: requests and answers of random sizes, half-closes,
descriptors that are detached and taken up again (with bytes unread or not: release and bridge), duplicates, forked
children that go on talking. One of them dies. Whoever is left must see what plain TCP shows, never hang, and never
receive a wrong byte. FASTSOCK_SOAK=1 runs thousands of deaths, FASTSOCK_TEST_ROUNDS and FASTSOCK_TEST_SEED others.
"""

from __future__ import annotations

import mmap
import os
import random
import signal
import socket
import struct
import threading

import pytest

from fastsock.testing import PLAIN, FarProcess, PairMaker
from fastsock.testing.outcomes import describe, receive, receive_all
from fastsock.testing.patterns import Pattern

ROUNDS = int(os.environ.get("FASTSOCK_TEST_ROUNDS") or (2500 if os.environ.get("FASTSOCK_SOAK") else 20))
SEED = int(os.environ.get("FASTSOCK_TEST_SEED", "1"))  # which moments
HEADER = struct.Struct("!QII")  # seed, length of the request, length of the answer
SIZES = (1, 100, 4096, 5000, 65_536, 300_000, 3 << 20)
PATTERNS = [Pattern(seed) for seed in range(5)]
ENDS = ("ConnectionResetError ECONNRESET", "BrokenPipeError EPIPE")


class Ended(Exception):
    """The stream ended early: the other end is dead."""


class Counter:
    """A number that processes share."""

    def __init__(self):
        self.memory = mmap.mmap(-1, 8)

    @property
    def value(self):
        return struct.unpack("q", self.memory)[0]

    @value.setter
    def value(self, number):
        struct.pack_into("q", self.memory, 0, number)


def _exactly(sock, count):
    data = receive(sock, count)
    if len(data) < count:
        raise Ended
    return data


def _verified(sock, seed, count):
    data = _exactly(sock, count)
    PATTERNS[seed % len(PATTERNS)].verify(seed, data)


def _content(seed, count):
    return PATTERNS[seed % len(PATTERNS)].at(seed, count)


def _retaken(maker, sock):
    """The descriptor leaves the socket object and comes back: from here on it carries the bytes itself."""
    timeout = sock.gettimeout()
    sock = maker.sockets.socket(fileno=sock.detach())
    sock.settimeout(timeout)
    return sock


def _handed_to_a_child(sock):
    """A forked child ends the conversation, and the parent's copy is closed."""
    pid = os.fork()
    if pid == 0:
        try:
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(1 << 16):
                pass
        except OSError:
            pass
        finally:
            os._exit(0)
    sock.close()
    return pid


def _changed(maker, sock, chooser):
    """Sometimes another socket object, over the same connection."""
    what = chooser.random()
    if what < 0.1:
        return _retaken(maker, sock)
    if what < 0.2:
        other = sock.dup()
        sock.close()
        return other
    if what < 0.3:
        sock.settimeout(chooser.choice((None, 60)))
    elif what < 0.4:
        sock.fileno()  # it may be polled from now on
    return sock


def _converse(maker, sock, chooser, progress):
    """The connecting end's half of one connection."""
    for _ in range(chooser.randrange(1, 6)):
        seed, up, down = chooser.getrandbits(16), chooser.choice(SIZES), chooser.choice(SIZES)
        sock.sendall(HEADER.pack(seed, up, down))
        sock = _changed(maker, sock, chooser)
        sock.sendall(_content(seed, up))
        sock = _changed(maker, sock, chooser)  # the answer may be unread, or on its way
        _verified(sock, seed + 1, down)
        progress.value += 1
    if chooser.random() < 0.5:
        sock.shutdown(socket.SHUT_WR)
        assert receive_all(sock) == b""
    sock.close()


def _connect_for_ever(here, maker, address, seed):
    chooser = random.Random(seed)
    while True:
        sock = None
        try:
            sock = maker.connect(address, timeout=60)
            _converse(maker, sock, chooser, here.progress)
        except Ended:
            return "EOF"
        except ConnectionRefusedError:
            return "refused"
        except OSError as error:
            return describe(error)


def _answer(maker, sock, chooser):
    """The accepting end's half, until the other end closes."""
    sock.settimeout(60)
    while header := receive(sock, HEADER.size):
        if len(header) < HEADER.size:
            raise Ended
        seed, up, down = HEADER.unpack(header)
        sock = _changed(maker, sock, chooser)
        _verified(sock, seed, up)
        sock = _changed(maker, sock, chooser)
        sock.sendall(_content(seed + 1, down))
    return sock


def _serve_one(here, maker, sock, seed):
    try:
        chooser = random.Random(seed)
        sock = _answer(maker, sock, chooser)
        if chooser.random() < 0.2:
            here.children.append(_handed_to_a_child(sock))
        sock.close()
    except Ended:
        pass
    except OSError as error:
        if describe(error) not in ENDS:
            here.problems.append(repr(error))
    except BaseException as error:
        here.problems.append(repr(error))


def _listen(here, maker):
    here.problems, here.threads, here.children = [], [], []
    here.listener = maker.listener()
    threading.Thread(target=_serve_for_ever, args=(here, maker), daemon=True).start()
    return here.listener.getsockname()


def _serve_for_ever(here, maker):
    seed = 0
    while True:
        sock, _ = here.listener.accept()
        thread = threading.Thread(target=_serve_one, args=(here, maker, sock, seed), daemon=True)
        thread.start()
        here.threads.append(thread)
        seed += 1


def _all_served(here):
    """What went wrong, once nobody is served any more."""
    for thread in here.threads:
        thread.join(25)
        if thread.is_alive():
            here.problems.append("a connection whose other end is dead is still served")
    for pid in here.children:
        os.waitpid(pid, 0)
    here.threads, here.children = [], []
    return here.problems


@pytest.fixture
def near(kind) -> PairMaker:
    return PLAIN if kind == "plain" else PairMaker("fastsock.socket", transport=kind)


def _random_moment(chooser, progress):
    wanted = progress.value + chooser.choice((0, 1, 1, 2, 5))
    while progress.value < wanted:
        os.sched_yield()
    for _ in range(chooser.randrange(20_000)):
        pass


@pytest.mark.timeout(60 + ROUNDS)
def test_clients_are_killed(near):
    """One server outlives all its clients, and serves the next one."""
    chooser = random.Random(SEED)
    with FarProcess() as server:
        address = server.run(_listen, near)
        for seed in range(ROUNDS):
            progress = Counter()
            with FarProcess(progress=progress) as client:
                client.begin(_connect_for_ever, near, address, SEED * ROUNDS + seed)
                _random_moment(chooser, progress)
                client.kill()
                client.wait()
            if seed % 10 == 9:
                assert server.run(_all_served) == []
        assert server.run(_all_served) == []


@pytest.mark.timeout(60 + ROUNDS)
def test_servers_are_killed(near):
    """The client is told at whatever it is doing."""
    chooser = random.Random(-SEED)
    for seed in range(ROUNDS):
        progress = Counter()
        with FarProcess() as server, FarProcess(progress=progress) as client:
            address = server.run(_listen, near)
            connecting = client.begin(_connect_for_ever, near, address, SEED * ROUNDS + seed)
            _random_moment(chooser, progress)
            server.kill(signal.SIGKILL)
            server.wait()
            assert connecting.result() in ("EOF", "refused", *ENDS), f"seed {seed}"
