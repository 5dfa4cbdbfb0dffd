"""Daemons that die, or are restarted; clients that do nothing."""

from __future__ import annotations

import signal
import socket as standard
import threading
import time
from contextlib import suppress

import pytest

from fastsock import rmi
from fastsock.testing.process import FarProcess, until_stopped

from .conftest import Served, begin_daemon, fresh_name


@rmi.expose
class Tries:
    def __init__(self, path):
        self._path = path

    @rmi.idempotent
    def again(self):
        return self._count()

    def once(self):
        return self._count()

    def _count(self):
        """The first one is the last that its process does."""
        with open(self._path, "a+") as file:
            file.seek(0)
            before = len(file.read())
            file.write("x")
        if before == 0:
            signal.raise_signal(signal.SIGKILL)
        return before + 1


def begin_tries(here, name, path):
    here.daemon = rmi.Daemon()
    here.daemon.register(Tries(path), name)
    here.daemon.start()


def test_a_killed_daemon_ends_the_call(served, store):
    waiting = rmi.future(store.wait)()
    assert store.has_entered()
    served.far.kill()
    with pytest.raises(rmi.LostPeer, match="can have run"):
        waiting.result(30)
    with pytest.raises((rmi.LostPeer, rmi.UnknownObject)):  # its name died with it
        store.add(1, 2)


class Told:
    """An argument whose packing takes its time."""

    packed = staticmethod(lambda: None)


rmi.register(Told, pack=lambda value: value.packed(), unpack=lambda _: Told())


def test_a_connection_that_ends_while_a_call_is_packed(served, store):
    """The call is one of a lost connection then, and nobody waits for its answer."""
    waiting = rmi.future(store.wait)()
    assert store.has_entered()

    def end():
        served.far.kill()
        with pytest.raises(rmi.LostPeer, match="can have run"):
            waiting.result(30)

    told = Told()
    told.packed = end
    with pytest.raises(rmi.LostPeer, match="the call has not run"):
        store.same(told)


def test_a_stopped_daemon_ends_no_call_but_by_its_timeout(served):
    store = served.connect()
    assert store.add(1, 2) == 3
    served.far.kill(signal.SIGSTOP)
    until_stopped(served.far.pid)
    with pytest.raises(rmi.CallTimeout):
        rmi.within(0.05, store.add)(1, 2)
    served.far.kill(signal.SIGCONT)
    assert store.add(2, 2) == 4


def test_a_restarted_daemon_is_found_again(path):
    name = fresh_name()
    with FarProcess() as first:
        served = Served(first, name, first.run(begin_daemon, name, {}))
        store = served.connect()
        assert store.add(1, 2) == 3
    with FarProcess() as second:
        second.run(begin_daemon, name, {})
        with pytest.raises(rmi.LostPeer) if lost_unseen(store) else pytest.raises(ZeroDivisionError):
            store.add(1, 2)
            raise ZeroDivisionError
        assert store.add(1, 2) == 3
        served.close()


def lost_unseen(store):
    """Whether the connection's end is still to be found out, by the next call."""
    return store._rmi_target.connection.lost is None


def test_threads_call_while_their_connection_is_made_again(served):
    store = served.connect()
    wrong, over = [], threading.Event()

    def add(number):
        try:
            if store.add(number, 1) != number + 1:
                wrong.append(number)
        except rmi.LostPeer:
            return

    def call():
        number = 0
        while not over.is_set():
            add(number)
            number += 1

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for number in range(30):
            connection = store._rmi_target.connection
            with suppress(OSError):  # lost already
                connection.sock.shutdown(standard.SHUT_RDWR)
            while store._rmi_target.connection is connection:
                add(number)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert wrong == []


@pytest.mark.parametrize("method", ["again", "once"])
def test_only_an_idempotent_method_is_called_twice(path, tmp_path, method):
    name = fresh_name()
    first, second = FarProcess(), FarProcess()
    with second:
        first.run(begin_tries, name, str(tmp_path / "calls"))
        with rmi.connect(f"rmi:{name}") as tries:
            waiting = rmi.future(getattr(tries, method))
            if method == "once":
                with pytest.raises(rmi.LostPeer, match="can have run"):
                    waiting().result(30)
                first.wait()
                assert (tmp_path / "calls").read_text() == "x"
                return
            reborn = second.begin(reborn_when_gone, first.pid, name, str(tmp_path / "calls"))
            try:
                found = tries.again()
            except (rmi.UnknownObject, rmi.LostPeer):  # the second process was not there yet
                reborn.result()
                found = tries.again()
            assert found == len((tmp_path / "calls").read_text()) >= 2
    first.wait()


def reborn_when_gone(here, pid, name, path):
    """Registers the name as soon as the other process lets it go."""
    while True:
        try:
            begin_tries(here, name, path)
            return
        except rmi.Refused:
            here.daemon.close()


def count_threads(here):
    import threading

    return threading.active_count()


def test_idle_clients_cost_no_thread_and_stop_nobody(served):
    idle = [served.connect() for _ in range(40)]
    for each in idle:
        assert each.add(1, 2) == 3
    assert served.connect().add(1, 2) == 3
    until = time.monotonic() + 60
    while served.far.run(count_threads) > 8:
        assert time.monotonic() < until
