"""A server that has accepted, and whose thread waits for the interpreter's lock: whatever becomes of it, as with TCP.

In each test the server's first connection is accepted by the kernel while another thread of the server holds the lock.
The client has gone ahead by then, since the listener has the sign.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket as standard
import sys
import threading
import time
from contextlib import closing, contextmanager, suppress

import pytest

from fastsock import config, core, explain
from fastsock.meeting import history
from fastsock.testing import PLAIN, FarProcess
from fastsock.testing.outcomes import receive
from fastsock.testing.process import until_asleep, until_stopped

from ..helpers.paths import preferring

QUESTION = b"question" * 50
BULK = bytes(range(256)) * (16 << 10)
NO_SWITCH = 1000.0
FOREIGN = """
import os, socket, sys
listener = socket.socket(fileno=int(sys.argv[1]))
os.write(int(sys.argv[2]), b"x")
while True:
    sock, _ = listener.accept()
    if not os.fork():
        while data := sock.recv(65536):
            sock.sendall(data)
        os._exit(0)
    sock.close()
"""

pytestmark = pytest.mark.skipif(not core.available, reason="the native core is not built")


@pytest.fixture(params=("plain", "shm", "unix"))
def kind(request):
    if request.param == "plain":
        yield "plain"
        return
    with preferring(request.param):
        config.configure(meeting_ms=10, short_lived="path")
        history.forget()
        yield request.param


# ---- in the server's process ----


def _echo(sock):
    with closing(sock), suppress(ConnectionError):
        while data := sock.recv(1 << 16):
            sock.sendall(data)


def _take(here, listener):
    here.taker = threading.get_native_id()
    here.taking.set()
    with suppress(OSError):  # it was closed
        while True:
            sock, _ = listener.accept()
            here.paths.append(getattr(sock, "transport", "plain"))
            threading.Thread(target=_echo, args=(sock,), daemon=True).start()


def _take_plainly(here):
    """As _take(), in foreign code: it knows the descriptor alone."""
    kind = standard.socket.__mro__[-2]
    borrowed = kind(standard.AF_INET, standard.SOCK_STREAM, 0, os.dup(here.listener.fileno()))
    while True:
        number, _ = borrowed._accept()
        sock = kind(standard.AF_INET, standard.SOCK_STREAM, 0, number)
        threading.Thread(target=_echo_plainly, args=(sock,), daemon=True).start()


def _echo_plainly(sock):
    with suppress(ConnectionError):
        while data := sock.recv(1 << 16):
            sock.sendall(data)
    sock.close()


def _listen(here, maker):
    here.listener = maker.listener()
    _begin(here)
    return here.listener.getsockname()


def _listen_beside(here, maker, address, plainly):
    """Another listener at the same address (SO_REUSEPORT); address None: the first one."""
    here.listener = maker.sockets.socket()
    here.listener.setsockopt(standard.SOL_SOCKET, standard.SO_REUSEPORT, 1)
    here.listener.bind(address or ("127.0.0.1", 0))
    here.listener.listen(128)
    if plainly:
        threading.Thread(target=_take_plainly, args=(here,), daemon=True).start()
    else:
        _begin(here)
    return here.listener.getsockname()


def _begin(here):
    here.paths, here.taking = [], threading.Event()
    threading.Thread(target=_take, args=(here, here.listener), daemon=True).start()
    assert here.taking.wait(30)


def _hold(here, told, awaited, then=None, *arguments):
    """Holds the interpreter's lock until told; no other thread runs before `then` has."""
    until_asleep(os.getpid(), here.taker)  # in the kernel's accept()
    library, byte = ctypes.PyDLL(None), ctypes.create_string_buffer(1)
    before = sys.getswitchinterval()
    sys.setswitchinterval(NO_SWITCH)
    library.write(told, b"x", 1)
    library.read(awaited, byte, 1)
    result = then(here, *arguments) if then is not None else None
    sys.setswitchinterval(before)
    return result


def _paths(here):
    return here.paths


# ---- in this process ----


class Held:
    def __init__(self, near, listen=_listen, *arguments):
        self._told, told = os.pipe()
        awaited, self._awaited = os.pipe()
        self._numbers = self._told, told, awaited, self._awaited
        self._theirs = told, awaited
        self._near = near
        self.server = FarProcess()
        self.address = self.server.run(listen, near.away, *arguments)

    def hold(self, then=None, *arguments):
        self._holding = self.server.begin(_hold, *self._theirs, then, *arguments)
        assert os.read(self._told, 1)

    def connect(self):
        return self._near.connect(self.address, 30)

    def connect_held(self):
        """A connection that the server's kernel has accepted, and its program has not."""
        sock = self.connect()
        ends = sock.getsockname(), sock.getpeername()
        until = time.monotonic() + 30
        while core.accepted(*ends)[0] is not True:
            assert time.monotonic() < until
        assert core.accepted(*ends)[1] == (self._near.transport is not None)
        return sock

    def let_go(self):
        self.tell()
        return self._holding.result()

    def tell(self):
        os.write(self._awaited, b"x")

    def close(self):
        for number in self._numbers:
            os.close(number)


@contextmanager
def _held(near, *arguments):
    held = Held(near, *arguments)
    with closing(held), held.server:
        yield held


def _ask(sock, question=QUESTION):
    sender = threading.Thread(target=sock.sendall, args=(question,))
    sender.start()
    assert receive(sock, len(question)) == question
    sender.join()


def _until_told(sock, detail):
    """Custody looks from time to time."""
    until = time.monotonic() + 30
    while not explain(sock).detail.startswith(detail):
        assert time.monotonic() < until, explain(sock).detail


def _ends(sock):
    """Nothing comes but the end, which a reset is too, and sending fails before long."""
    with suppress(ConnectionError):
        assert sock.recv(1) == b""
    with pytest.raises(ConnectionError):
        for _ in range(64):
            sock.sendall(bytes(1 << 20))


@pytest.mark.parametrize("speaks_first", (False, True))
def test_the_lock_is_let_go(near, speaks_first):
    with _held(near) as held:
        held.hold()
        with closing(held.connect_held()) as sock:
            if speaks_first:
                sock.sendall(QUESTION)
            if near.transport == "shm":
                _until_told(sock, "the server has accepted it, and not connected back after")
                assert (explain(sock).transport, explain(sock).reason) == ("tcp", "not_accepted_yet")
            held.let_go()
            if speaks_first:
                assert receive(sock, len(QUESTION)) == QUESTION
            _ask(sock)
            _ask(sock, BULK)
            if near.transport == "shm":
                assert held.server.run(_paths) == ["shm"]
                assert (explain(sock).transport, explain(sock).reason) == ("shm", "joined")


def test_more_than_every_buffer_meanwhile(near):
    with _held(near) as held:
        held.hold()
        with closing(held.connect_held()) as sock:
            sender = threading.Thread(target=sock.sendall, args=(BULK * 4,))
            sender.start()
            held.let_go()
            assert receive(sock, len(BULK) * 4) == BULK * 4
            sender.join()


@pytest.mark.parametrize("used", (False, True))
def test_killed(near, used):
    with _held(near) as held:
        held.hold()
        with closing(held.connect_held()) as sock:
            if used:
                sock.sendall(QUESTION)
            held.server.kill()
            held.server.wait()
            _ends(sock)


def test_stopped(near):
    """A short send returns meanwhile. All of it is answered once."""
    with _held(near) as held:
        held.hold()
        with closing(held.connect_held()) as sock:
            held.server.kill(signal.SIGSTOP)
            until_stopped(held.server.pid)
            sock.sendall(QUESTION)
            held.server.kill(signal.SIGCONT)
            held.let_go()
            assert receive(sock, len(QUESTION)) == QUESTION
            _ask(sock, BULK)


def test_stopped_and_killed(near):
    with _held(near) as held:
        held.hold()
        with closing(held.connect_held()) as sock:
            held.server.kill(signal.SIGSTOP)
            until_stopped(held.server.pid)
            sock.sendall(QUESTION)
            held.server.kill()
            held.server.wait()
            _ends(sock)


def _become_foreign(here, told):
    number = here.listener.fileno()
    for each in number, told:
        os.set_inheritable(each, True)
    os.execv(sys.executable, [sys.executable, "-S", "-E", "-c", FOREIGN, str(number), str(told)])


def test_replaced_by_a_foreign_program(near):
    """It has the same listener at the same number: who was accepted hears of the end, who waited is served."""
    with _held(near) as held:
        held.hold(_become_foreign, held._theirs[0])
        with closing(held.connect_held()) as accepted, closing(held.connect()) as waiting:
            accepted.sendall(QUESTION)
            waiting.sendall(QUESTION)
            held.tell()
            assert os.read(held._told, 1)
            assert receive(waiting, len(QUESTION)) == QUESTION
            _ask(waiting, BULK)
            _ends(accepted)
            with closing(held.connect()) as later:
                _ask(later)
        held.server.kill()


def test_another_program_gets_the_port(near):
    with _held(near) as held:
        held.hold()
        with closing(held.connect_held()) as sock:
            sock.sendall(QUESTION)
            held.server.kill()
            held.server.wait()
            with FarProcess() as other:
                assert other.run(_listen_beside, PLAIN, held.address, True) == held.address
                _ends(sock)
                with closing(held.connect()) as later:
                    _ask(later)


def _fork(here):
    pid = os.fork()
    if pid:
        return pid
    sys.setswitchinterval(5e-3)
    here.paths, here.taking = [], threading.Event()
    _take(here, here.listener)
    os._exit(0)


@pytest.mark.parametrize("killed", (False, True))
def test_forks_with_the_listener(near, killed):
    """The child accepts as well. It has no thread that would serve what its parent had accepted."""
    with _held(near) as held:
        held.hold(_fork)
        with closing(held.connect_held()) as sock:
            sock.sendall(QUESTION)
            child = held.let_go()
            try:
                assert receive(sock, len(QUESTION)) == QUESTION
                if killed:
                    held.server.kill()
                    held.server.wait()
                else:
                    _ask(sock, BULK)
                for _ in range(8):
                    with closing(held.connect()) as later:
                        _ask(later)
            finally:
                os.kill(child, signal.SIGKILL)


def _close_listener(here):
    here.listener.close()


def test_closes_the_listener(near):
    """One connection was accepted, another waits in the backlog: the first is served, the other is reset."""
    with _held(near) as held:
        held.hold(_close_listener)
        with closing(held.connect_held()) as accepted, closing(held.connect()) as waiting:
            accepted.sendall(QUESTION)
            waiting.sendall(QUESTION)
            held.let_go()
            assert receive(accepted, len(QUESTION)) == QUESTION
            _ask(accepted, BULK)


def _pass_listener(here, path):
    with standard.socket(standard.AF_UNIX) as stream:
        stream.connect(path)
        standard.send_fds(stream, [b"x"], [here.listener.fileno()])


def _take_passed(here, path, told):
    with standard.socket(standard.AF_UNIX) as door:
        door.bind(path)
        door.listen()
        os.write(told, b"x")
        stream, _ = door.accept()
        _, (number,), _, _ = standard.recv_fds(stream, 1, 1)
        stream.close()
    here.listener = standard.socket(fileno=number)
    threading.Thread(target=_take_plainly, args=(here,), daemon=True).start()


def test_passes_the_listener_to_a_foreign_program(near, tmp_path):
    """Both accept. Foreign code is found by what it reads, also where the client only sends."""
    path = str(tmp_path / "door")
    with _held(near) as held, FarProcess() as other:
        taken = other.begin(_take_passed, path, held._theirs[0])
        assert os.read(held._told, 1)
        held.hold()
        with closing(held.connect_held()) as accepted:
            held.let_go()
            _ask(accepted)
            held.server.run(_pass_listener, path)
            taken.result()
            held.hold()
            socks = []
            with contextlib.ExitStack() as stack:
                for _ in range(8):
                    sock = stack.enter_context(closing(held.connect()))
                    sock.sendall(QUESTION)
                    socks.append(sock)
                held.let_go()
                for sock in socks:
                    assert receive(sock, len(QUESTION)) == QUESTION
                    _ask(sock, BULK)


def _work(here, count):
    """Forks workers that share the listener."""
    here.workers = []
    for _ in range(count):
        pid = os.fork()
        if not pid:
            here.paths, here.taking = [], threading.Event()
            _take(here, here.listener)
            os._exit(0)
        here.workers.append(pid)
    return here.workers


def test_several_processes_accept_on_one_listener(near):
    """One of them is held. What it accepted waits for it, and the others serve the rest."""
    with _held(near) as held:
        workers = held.server.run(_work, 2)
        try:
            held.hold()
            with contextlib.ExitStack() as stack:
                socks = [stack.enter_context(closing(held.connect())) for _ in range(12)]
                for sock in socks:
                    sock.sendall(QUESTION)
                ready = _readable(socks, len(socks) - 1)
                held.let_go()
                for sock in [*ready, *(each for each in socks if each not in ready)]:
                    assert receive(sock, len(QUESTION)) == QUESTION
                    _ask(sock, BULK)
        finally:
            for pid in workers:
                os.kill(pid, signal.SIGKILL)


def _readable(socks, count):
    """As many of the sockets as have something to read, at least so many."""
    poller, found = select.poll(), set()
    for sock in socks:
        poller.register(sock, select.POLLIN)
    by_number = {sock.fileno(): sock for sock in socks}
    while len(found) < count:
        came = poller.poll(30000)
        assert came
        for number, _ in came:
            found.add(number)
            poller.unregister(number)
    return [by_number[number] for number in found]


@pytest.mark.parametrize("foreign", (False, True))
def test_several_listeners_at_one_port(near, foreign):
    with _held(near, _listen_beside, None, False) as held, FarProcess() as other:
        other.run(_listen_beside, PLAIN if foreign else near.away, held.address, foreign)
        held.hold()
        with contextlib.ExitStack() as stack:
            socks = [stack.enter_context(closing(held.connect())) for _ in range(16)]
            for sock in socks:
                sock.sendall(QUESTION)
            held.let_go()
            for sock in socks:
                assert receive(sock, len(QUESTION)) == QUESTION
                _ask(sock, BULK)
