"""Many threads that wait with a timeout: the program's other threads go on, and a fork changes nothing."""

from __future__ import annotations

import os
import threading
import time

import pytest

from fastsock import attach, core, socket
from fastsock.testing import FarProcess

ROUNDS = 40
KEPT = 300_000  # numbers added up in one call, which keeps the interpreter's lock for some milliseconds
MOST = 1 / 20  # of the time, for the looks of all threads together
AT_ONCE = 0.001  # seconds of it that may come at any moment


def _looked():
    return core.looked() if core.available else 0.0


def _serve(here, count):
    here.accepted = []
    here.listener = socket.create_server(("127.0.0.1", 0), backlog=count)

    def accept():
        while len(here.accepted) < count:
            here.accepted.append(here.listener.accept()[0])
            attach(here.accepted[-1], 30)

    here.accepting = threading.Thread(target=accept)
    here.accepting.start()
    return here.listener.getsockname()


def _answer(here):
    here.accepting.join()
    for sock in here.accepted:
        sock.sendall(b"!")


def _begin(here, address, count, timeout):
    """Threads that wait, each on a connection of its own; the path of the connections."""
    here.socks = [socket.create_connection(address) for _ in range(count)]
    here.threads, here.answers = [], []
    for sock in here.socks:
        attach(sock, 30)

    def wait(sock):
        while True:
            try:
                here.answers.append(sock.recv(1))
            except TimeoutError:
                continue
            return

    for sock in here.socks:
        sock.settimeout(timeout)
        here.threads.append(threading.Thread(target=wait, args=(sock,), daemon=True))
        here.threads[-1].start()
    return {sock.transport for sock in here.socks}


def _go_on(here, forks):
    """Rounds of the main thread, which keeps the others waiting for the lock: some, and until the looks of all have had
    their share of the time at most. A look may have taken longer, where its thread did not run."""
    looked, began = _looked(), time.monotonic()
    rounds = 0
    while rounds < ROUNDS or _looked() - looked > MOST * (time.monotonic() - began) + AT_ONCE:
        rounds += 1
        sum(range(KEPT))
        if forks:
            pid = os.fork()
            if pid == 0:
                here.socks[0].close()
                os._exit(0 if _looked() <= AT_ONCE else 1)  # of this process: nothing yet
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        time.sleep(0.001)  # the waiting threads run meanwhile: synchronises nothing


def _answers(here):
    for thread in here.threads:
        thread.join()
    return len(here.answers)


def _check(path, count, timeout, forks):
    with FarProcess(fresh=True) as server, FarProcess(fresh=True) as client:
        assert client.run(_begin, server.run(_serve, count), count, timeout) == {path}
        client.run(_go_on, forks)
        server.run(_answer)
        assert client.run(_answers) == count


@pytest.mark.parametrize("forks", [False, True], ids=["alone", "with forks"])
def test_another_thread_goes_on(path, forks):
    _check(path, 32, 0.012, forks)


@pytest.mark.skipif(not core.available, reason="the native core is not built")
@pytest.mark.parametrize("path", ["shm"], indirect=True)
@pytest.mark.parametrize("forks", [False, True], ids=["alone", "with forks"])
@pytest.mark.parametrize("count", [1, 32, 200])
def test_however_many_wait_and_however_briefly(path, count, forks):
    _check(path, count, 0.001, forks)
