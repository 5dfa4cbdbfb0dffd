"""Objects that went by reference outlive a lost connection for the seconds of the daemon's lease, and no longer."""

from __future__ import annotations

import gc
import socket as standard

import pytest

from fastsock import rmi
from fastsock.testing.process import FarProcess

from . import objects
from .conftest import fresh_name, no_more_threads, threads_again, until

LONG, SHORT = 600.0, 0.2
PATIENCE = 60.0


def lose(store):
    """Ends a proxy's connection without a goodbye, as a broken network does."""
    assert store.add(1, 2) == 3
    connection = store._rmi_target.connection
    connection.sock.shutdown(standard.SHUT_RDWR)
    while connection.lost is None:
        connection.receive_what_came()


def status(served):
    return served.far.run(status_there)


def status_there(here):
    from fastsock.rmi.server.daemon import _Services

    return _Services(here.daemon).status()


def living(served):
    return served.far.run(living_there)


def living_there(here):
    gc.collect()
    return objects.Counter.living


def held_by(here, name, count):
    """In a client: holds objects."""
    here.store = rmi.connect(f"rmi:{name}", objects.Store)
    here.counters = [here.store.counter() for _ in range(count)]
    return [counter.increase() for counter in here.counters]


def let_all_go(here):
    rmi.close(here.store)


def test_a_client_that_comes_back_finds_its_objects(begin):
    served = begin(lease=LONG)
    store = served.connect()
    counters = [store.counter() for _ in range(5)]
    for turn in range(1, 4):
        assert [counter.increase() for counter in counters] == [turn] * 5
        lose(store)
    assert [counter.increase() for counter in counters] == [4] * 5
    assert living(served) == 5
    assert status(served)["kept"] == []
    # they are let go as before
    del counters[1:]
    gc.collect()
    until(lambda: living(served) == 1)
    assert counters[0].increase() == 5


def test_what_no_thread_could_be_started_for_is_let_go_after_a_later_loss(begin):
    served = begin(lease=SHORT)
    first, second = served.connect(), served.connect()
    counters = [first.counter(), first.counter(), second.counter()]
    assert [counter.increase() for counter in counters] == [1, 1, 1]
    served.far.run(no_more_threads)
    lose(first)
    until(lambda: status(served)["kept"])
    assert first.add(1, 2) == 3  # it comes back to a daemon that serves
    lose(first)
    served.far.run(threads_again)
    lose(second)
    until(lambda: living(served) == 0)
    assert status(served)["kept"] == []


def test_an_object_finds_the_connection_before_the_proxy_does(begin):
    served = begin(lease=LONG)
    store = served.connect()
    counter = store.counter()
    lose(store)
    assert counter.increase() == 1
    assert store.add(1, 2) == 3
    assert store._rmi_target.connection is counter._rmi_target.connection
    store.keep(counter)
    assert store.is_kept(counter)  # and comes home as itself


def test_what_was_collected_meanwhile_is_let_go(begin):
    served = begin(lease=LONG)
    store = served.connect()
    kept, dropped = store.counter(), [store.counter() for _ in range(10)]
    lose(store)
    until(lambda: len(status(served)["kept"]) == 1)
    assert living(served) == 11
    del dropped
    gc.collect()
    assert living(served) == 11  # nobody told it
    assert store.add(1, 2) == 3
    assert living(served) == 1
    assert kept.increase() == 1


def test_a_client_that_closes_lets_go_at_once(begin):
    served = begin(lease=LONG)
    store = served.connect()
    counter = store.counter()
    rmi.close(store)
    until(lambda: not living(served))
    assert status(served)["kept"] == []
    with pytest.raises(rmi.LostPeer):
        counter.increase()


@pytest.mark.parametrize("lease", [0.0, SHORT])
def test_nothing_is_left_of_a_killed_client_after_its_lease(begin, lease):
    served = begin(lease=lease)
    with FarProcess() as client:
        assert client.run(held_by, served.name, 20) == [1] * 20
        assert living(served) == 20
        client.kill()
        client.wait()
        until(lambda: not living(served))
    assert status(served)["kept"] == []


def test_objects_of_a_killed_client_live_until_then(begin):
    served = begin(lease=LONG)
    with FarProcess() as client:
        client.run(held_by, served.name, 20)
        client.kill()
        client.wait()
    until(lambda: status(served)["kept"])
    kept = status(served)["kept"]
    assert len(kept) == 1 and kept[0]["objects"] == ["Counter"] * 20 and 0 < kept[0]["seconds"] <= LONG
    assert living(served) == 20
    # nobody else is that client
    other = served.connect()
    assert other.counter().increase() == 1
    assert len(status(served)["kept"]) == 1


def test_after_its_lease_an_object_is_gone(begin):
    served = begin(lease=SHORT)
    store = served.connect()
    counter = store.counter()
    lose(store)
    until(lambda: not living(served))
    with pytest.raises(rmi.LostPeer, match=r"connection to .* is lost"):
        counter.increase()
    assert store.add(1, 2) == 3
    with pytest.raises(rmi.LostPeer):
        counter.increase()


def test_without_a_lease_objects_end_with_the_connection(begin):
    served = begin()
    store = served.connect()
    counter = store.counter()
    lose(store)
    until(lambda: not living(served))
    with pytest.raises(rmi.LostPeer):
        counter.increase()


def increase_inherited(here):
    with pytest.raises(rmi.LostPeer):
        here.counter.increase()
    return here.store.add(1, 2)


def test_a_fork_does_not_take_its_parents_objects(begin):
    served = begin(lease=LONG)
    store = served.connect()
    counter = store.counter()
    with FarProcess(store=store, counter=counter) as child:
        assert child.run(increase_inherited) == 3
    assert counter.increase() == 1


def test_a_daemon_that_closes_keeps_nothing():
    daemon = rmi.Daemon(lease=LONG)
    name = fresh_name("lease")
    daemon.register(objects.Store(), name)
    daemon.start()
    before = objects.Counter.living
    with FarProcess() as client:
        client.run(held_by, name, 3)
        assert objects.Counter.living == before + 3
        daemon.close()
        until(lambda: objects.Counter.living == before)


def test_a_wrong_lease_is_refused():
    with pytest.raises(ValueError, match="lease"):
        rmi.Daemon(lease=-1.0)


@pytest.mark.parametrize("token", [bytes(16), 5, b"", b"x" * 100], ids=["other", "number", "none", "long"])
def test_a_forged_token_brings_nothing(begin, token):
    """And the connection is as good as any."""
    served = begin(lease=LONG)
    with FarProcess() as client:
        client.run(held_by, served.name, 5)
        client.kill()
        client.wait()
    until(lambda: status(served)["kept"])
    store = served.connect()
    lose(store)
    line = store._rmi_target.home.dial.__self__
    line.token = token
    assert store.add(1, 2) == 3
    assert [len(each["objects"]) for each in status(served)["kept"]] == [5]
