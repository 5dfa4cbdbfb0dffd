"""Objects that go by reference, callbacks, lifetimes."""

from __future__ import annotations

import gc
import pickle
import threading

import pytest

from fastsock import rmi
from fastsock.testing.process import FarProcess

from . import objects
from .conftest import until


def test_an_exposed_object_goes_by_reference(store):
    counter = store.counter()
    assert counter.increase() == 1
    assert counter.increase() == 2


def test_an_object_comes_home_as_itself(store):
    counter = store.counter()
    store.keep(counter)
    assert store.is_kept(counter)
    own = objects.Counter()
    assert store.same(own) is own


def test_a_collected_proxy_lets_the_object_go(store):
    """Pyro5 #92."""
    counters = [store.counter() for _ in range(10)]
    assert store.living() == 10
    del counters
    gc.collect()
    while store.living():
        pass


def test_proxies_of_several_connections_are_collected_at_once(begin):
    stores = [begin().connect(timeout=30.0) for _ in range(3)]
    for _ in range(10):
        counters = [store.counter() for store in stores]
        del counters
        gc.collect()
        for store in stores:
            until(lambda living=store.living: living() == 0)


def collect_where_threads_begin(here, name, options):
    """In a process that has no thread of rmi yet: a collection comes while one is made. Whether that ended."""
    store = rmi.connect(f"rmi:{name}", objects.Store, timeout=30, **options)
    begin = threading.Thread.__init__

    def collect_and_begin(self, *arguments, **keywords):
        gc.collect()
        begin(self, *arguments, **keywords)

    def work():
        lost = rmi.connect(f"rmi:{name}", objects.Store, timeout=30, **options)
        stream = store.count_to(1000)
        next(stream)
        garbage = [store.counter(), stream, lost]
        garbage.append(garbage)
        del garbage, stream, lost
        threading.Thread.__init__ = collect_and_begin
        told = threading.Event()
        rmi.future(store.add)(1, 2).add_done_callback(lambda _: told.set())
        assert told.wait(30)

    gc.disable()  # it comes where it is asked for
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(20)
    threading.Thread.__init__ = begin
    return not thread.is_alive()


def test_a_collection_may_come_where_a_thread_begins(served, store):
    with FarProcess() as client:
        assert client.run(collect_where_threads_begin, served.name, served.options)
        until(lambda: not store.living())
        until(lambda: store.streams()[0] == 1)


def test_objects_end_with_the_connection(served):
    first, second = served.connect(), served.connect()
    counter = first.counter()
    assert counter.increase() == 1
    rmi.close(first)
    while second.living():
        pass
    with pytest.raises(rmi.LostPeer):
        counter.increase()


def test_an_object_sent_twice_lives_until_both_are_let_go(store):
    store.keep(objects.Counter())
    again, once_more = store.kept_one(), store.kept_one()
    assert again == once_more
    assert again.increase() == 1
    del again
    gc.collect()
    assert once_more.increase() == 2


def test_a_callback_runs_in_the_thread_that_waits(store):
    """rpyc #152 and #223: a lock that is held there is held."""
    lock = threading.RLock()
    with lock:

        def back(value):
            assert lock.acquire(blocking=False)
            lock.release()
            return value, threading.get_ident()

        assert store.call(rmi.callback(back), 5) == (5, threading.get_ident())


def test_callbacks_within_callbacks(store):
    def down(number):
        return number if number == 0 else store.call(rmi.callback(down), number - 1) + 1

    assert down(10) == 10


def test_an_error_in_a_callback_comes_back(store):
    def back():
        raise KeyError("here")

    with pytest.raises(KeyError, match="here"):
        store.call(rmi.callback(back))


def test_a_callback_while_nobody_waits(served):
    store, other = served.connect(), served.connect()
    came = threading.Event()
    store.subscribe(rmi.callback(lambda value: came.set()))
    assert other.publish(1) == 1
    assert came.wait(30)


def test_callbacks_of_eight_threads(store):
    failures = []

    def work(number):
        own = threading.get_ident()
        for each in range(20):
            found = store.call(rmi.callback(lambda value: (value, threading.get_ident())), (number, each))
            if found != ((number, each), own):
                failures.append(found)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_proxy_that_is_pickled_makes_its_own_connection(store):
    again = pickle.loads(pickle.dumps(store))
    with again:
        assert again.add(1, 2) == 3
        assert again._rmi_target.connection is not store._rmi_target.connection
    with pytest.raises(TypeError, match="no name"):
        pickle.dumps(store.counter())


def test_a_proxy_given_to_another_daemon(begin):
    first, second = begin().connect(), begin().connect()
    second.keep(first)
    assert second.kept_one().add(1, 2) == 3  # by its name
    counter = first.counter()
    second.keep(counter)
    assert second.kept_one() == counter  # through this process, and home


def use_proxy(here, store):
    return store.add(20, 22)


def test_a_proxy_after_fork(store):
    from fastsock.testing.process import FarProcess

    assert store.add(1, 2) == 3
    with FarProcess(store=store) as far:
        assert far.run(lambda_free_add) == 42
    assert store.add(1, 2) == 3


def lambda_free_add(here):
    return here.store.add(20, 22)
