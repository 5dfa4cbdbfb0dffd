"""fastsock.rmi.managers: what multiprocessing.managers does, and what is mended."""

from __future__ import annotations

import gc
import multiprocessing
import multiprocessing.forkserver
import multiprocessing.resource_tracker
import os
import pickle
import random
import resource
import signal
import threading
import weakref
from multiprocessing import managers as plain_managers
from pathlib import Path

import numpy
import pytest

from fastsock.rmi import managers
from fastsock.testing.process import FarProcess

from .conftest import no_more_threads, threads_again, until


class Calculator:
    def add(self, a, b):
        return a + b

    def same(self, value):
        return value

    def fail(self):
        raise ValueError("no", 42)

    def fail_oddly(self):
        raise Odd

    def child(self):
        return Calculator()

    def process(self):
        return os.getpid()

    def when_set(self, event, value):
        event.wait()
        return value

    def hard_to_pickle(self):
        return BadPickle()


class Odd(Exception):
    """Can be referred to weakly, as builtin exceptions cannot."""


class BadPickle:
    """Its pickling raises what a lost connection raises."""

    def __reduce__(self):
        raise OSError("this is no lost connection")


def raise_os_error():
    raise OSError("this is no lost connection")


class BadUnpickle:
    def __reduce__(self):
        return raise_os_error, ()


class Manager(managers.SyncManager):
    pass


Manager.register("Calculator", Calculator, method_to_typeid={"child": "Child"})
Manager.register("Child", method_to_typeid={"child": "Child"}, create_method=False)


@pytest.fixture(params=["fork", "spawn", "forkserver"])
def manager(request):
    context = multiprocessing.get_context(request.param)
    with Manager(ctx=context) as started:
        yield started
    multiprocessing.forkserver._forkserver._stop()  # both would outlive the test
    multiprocessing.resource_tracker._resource_tracker._stop()


@pytest.fixture
def forked():
    with Manager(ctx=multiprocessing.get_context("fork")) as started:
        yield started


def test_calls_values_and_errors(manager):
    calculator = manager.Calculator()
    assert calculator.add(1, 2) == 3
    assert calculator.process() != os.getpid()
    array = numpy.arange(300_000.0)
    found = calculator.same([array, array[:10], "text"])
    assert numpy.array_equal(found[0], array)
    found[0][0] = 1  # it is the caller's own
    with pytest.raises(ValueError, match="no") as raised:
        calculator.fail()
    assert raised.value.args == ("no", 42)
    told = "\n".join(getattr(raised.value, "__notes__", [str(raised.value.__cause__)]))
    assert "in fail" in told  # cpython #78279


def test_what_a_sync_manager_has(manager):
    numbers, table, space = manager.list([3, 1, 2]), manager.dict(a=1), manager.Namespace(x=1)
    numbers.sort()
    numbers += [4]
    assert list(numbers) == [1, 2, 3, 4]
    table["b"] = 2
    assert sorted(table.keys()) == ["a", "b"]
    assert sorted(key for key in table) == ["a", "b"]
    space.y = 2
    assert (space.x, space.y) == (1, 2)
    queue, event, lock, value = manager.Queue(), manager.Event(), manager.Lock(), manager.Value("i", 5)
    queue.put({"x": 1})
    assert queue.get() == {"x": 1}
    with lock:
        event.set()
    assert event.is_set()
    value.value += 1
    assert value.value == 6
    assert str(numbers) == "[1, 2, 3, 4]"
    assert "ListProxy" in repr(numbers)
    with pytest.raises(KeyError):
        table["missing"]


def test_objects_go_with_their_proxies(forked):
    calculators = [forked.Calculator() for _ in range(5)]
    assert forked._number_of_objects() == 5
    del calculators
    gc.collect()
    assert forked._number_of_objects() == 0


def test_a_proxy_in_a_container_goes_with_it(forked):
    """cpython #103136."""
    outer = forked.list()
    outer.append(forked.list([1, 2]))
    assert forked._number_of_objects() == 2
    assert list(outer[0]) == [1, 2]
    outer.pop()
    gc.collect()
    until(lambda: forked._number_of_objects() == 1)


def test_a_pickled_proxy_holds_its_object(forked):
    """cpython #119937: its owner lets go before it is unpickled."""
    calculator = forked.Calculator()
    pickled = pickle.dumps(calculator)
    del calculator
    gc.collect()
    multiprocessing.current_process().authkey = forked._authkey
    again = pickle.loads(pickled)
    assert again.add(1, 2) == 3
    once_more = pickle.loads(pickled)
    del again
    assert once_more.add(1, 2) == 3
    del once_more
    gc.collect()
    assert forked._number_of_objects() == 0


def test_a_pickle_that_nobody_loads_is_forgotten(forked, monkeypatch):
    monkeypatch.setattr(managers, "IN_TRANSIT", 0.1)
    with Manager(ctx=multiprocessing.get_context("fork")) as short:
        calculator = short.Calculator()
        pickle.dumps(calculator)
        del calculator
        gc.collect()
        until(lambda: short._number_of_objects() == 0)


class Narrow(managers.Server):
    """Can start no threads at first, until it gets a signal."""

    def accepter(self):
        no_more_threads()
        super().accepter()


class NarrowManager(Manager):
    _Server = Narrow


def may_start_threads_after_a_signal():
    signal.signal(signal.SIGUSR1, lambda *_: threads_again())


def test_a_server_that_can_start_no_threads_tells_its_clients_and_serves_when_it_can(monkeypatch):
    monkeypatch.setattr(managers, "IN_TRANSIT", 0.1)
    narrow = NarrowManager(ctx=multiprocessing.get_context("fork"))
    narrow.start(may_start_threads_after_a_signal)
    try:
        for _ in range(3):
            with pytest.raises((EOFError, OSError)):
                narrow.Calculator()
        os.kill(narrow._process.pid, signal.SIGUSR1)
        made = []

        def serves():
            try:
                made.append(narrow.Calculator())
            except (EOFError, OSError):
                return False
            return True

        until(serves)
        assert made.pop().add(1, 2) == 3
        gone = narrow.Calculator()
        pickle.dumps(gone)
        del gone
        gc.collect()
        until(lambda: narrow._number_of_objects() == 0)  # the pickles that nobody loads are looked after too
    finally:
        narrow.shutdown()


def call_child(calculator, answers):
    answers.put(calculator.child().add(1, 2))


def test_a_proxy_that_was_passed_on_returns_proxies(manager):
    """cpython #99595: as an argument of a process, however that begins."""
    calculator, answers = manager.Calculator(), manager.Queue()
    process = manager._ctx.Process(target=call_child, args=(calculator, answers))
    process.start()
    assert answers.get(timeout=60) == 3
    process.join()
    assert process.exitcode == 0
    assert calculator.child().child().add(2, 2) == 4


def test_a_proxy_after_fork_has_a_connection_of_its_own(forked):
    """cpython #101320."""
    calculator, table = forked.Calculator(), forked.dict(a=1, b=2)
    assert calculator.add(1, 2) == 3
    multiprocessing.current_process().authkey = forked._authkey
    process = multiprocessing.get_context("fork").Process(target=hammer, args=(calculator,))
    process.start()
    hammer(calculator)
    process.join()
    assert process.exitcode == 0
    assert sorted(table) == ["a", "b"]


def hammer(calculator):
    for each in range(200):
        assert calculator.add(each, 1) == each + 1


def make_many(manager, shared, least):
    """Each list holds what this process put there, and nothing of the other's answers."""
    for number in range(least, least + 300):
        made = manager.list([number])
        shared.append(number)
        assert made[0] == number
        assert len(made) == 1
    return True


def test_a_child_of_os_fork_has_connections_of_its_own(path):
    """It is no process of multiprocessing, so nothing there tells it of the fork."""
    with Manager(ctx=multiprocessing.get_context("fork")) as manager:
        shared = manager.list()
        with FarProcess(manager=manager, shared=shared) as far:
            working = far.begin(make_many_there)
            assert make_many(manager, shared, 0)
            assert working.result()
        assert sorted(shared) == list(range(600))


def make_many_there(here):
    return make_many(here.manager, here.shared, 300)


def test_threads_have_connections_of_their_own(forked):
    calculator = forked.Calculator()
    threads = [threading.Thread(target=hammer, args=(calculator,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calculator.add(1, 2) == 3


def begin_server(here, address):
    server = Remote(address=address, authkey=b"the key of these tests").get_server()
    threading.Thread(target=serve, args=(server,), daemon=True).start()
    return server.address


def serve(server):
    try:
        server.serve_forever()
    except SystemExit:
        return


class Remote(managers.BaseManager):
    pass


Remote.register("Calculator", Calculator)


def test_a_server_that_was_restarted(path):
    """cpython #86320."""
    with FarProcess() as first:
        address = first.run(begin_server, ("127.0.0.1", 0))
        client = Remote(address=address, authkey=b"the key of these tests")
        client.connect()
        calculator = client.Calculator()
        assert calculator.add(1, 2) == 3
        first.kill()
        first.wait()
    with FarProcess() as second:
        second.run(begin_server, address)
        with pytest.raises((EOFError, OSError, managers.RemoteError)):
            calculator.add(1, 2)
        again = client.Calculator()
        assert again.add(1, 2) == 3


def test_a_wrong_key_is_refused(path):
    with FarProcess() as far:
        address = far.run(begin_server, ("127.0.0.1", 0))
        with pytest.raises(multiprocessing.AuthenticationError):
            Remote(address=address, authkey=b"another key").connect()


def test_a_path_of_the_file_system_as_address(tmp_path):
    with Manager(address=str(tmp_path / "manager"), ctx=multiprocessing.get_context("fork")) as started:
        assert started.Calculator().add(1, 2) == 3


@pytest.mark.parametrize("where", ["network", "file system"])
def test_a_proxy_whose_server_has_ended_can_be_pickled(where, tmp_path):
    """Whoever unpickles it is told."""
    address = str(tmp_path / "manager") if where == "file system" else None
    with Manager(address=address, ctx=multiprocessing.get_context("fork")) as started:
        calculator = started.Calculator()
    text = pickle.dumps(calculator)
    with pytest.raises((ConnectionError, FileNotFoundError)):
        pickle.loads(text)


def let_a_proxy_go_under_the_mutex(here):
    """As a collection of garbage does while multiprocessing makes another proxy."""
    with Manager(ctx=multiprocessing.get_context("fork")) as started:
        calculator = started.Calculator()
        address = calculator._token.address
    assert address not in plain_managers.BaseProxy._address_to_local  # the finalizer has to enter it anew
    gone = weakref.ref(calculator)
    with plain_managers.BaseProxy._mutex:
        del calculator
        gc.collect()
    return gone() is None and address in plain_managers.BaseProxy._address_to_local


def test_a_proxy_can_go_while_its_thread_makes_another():
    """A process of its own: where the finalizer waits for the mutex, nothing else can end that."""
    with FarProcess() as far:
        assert far.run(let_a_proxy_go_under_the_mutex)


def test_what_is_not_exposed_is_refused(forked):
    calculator = forked.Calculator()
    with pytest.raises(managers.RemoteError, match="not in exposed"):
        calculator._callmethod("__init__")
    with pytest.raises(AttributeError):
        calculator.missing()


def test_a_pool_in_the_server(forked):
    with forked.Pool(2) as pool:
        assert pool.apply(divmod, (7, 2)) == (3, 1)
        assert list(pool.map(abs, [-1, -2])) == [1, 2]


def test_another_serializer_is_refused():
    with pytest.raises(ValueError, match="speak pickle"):
        managers.BaseManager(serializer="xmlrpclib")


class Alarm(Exception):
    """What the signal handlers of these tests raise, where it is no OSError."""


@pytest.mark.parametrize("kind", [Alarm, TimeoutError, KeyboardInterrupt])
def test_an_answer_that_nobody_waited_for_is_not_the_next_one(forked, kind):
    """A signal handler raises while a call waits."""

    def alarm(*_):
        raise kind

    calculator, event = forked.Calculator(), forked.Event()
    before = signal.signal(signal.SIGALRM, alarm)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(kind):
            calculator.when_set(event, "late")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    event.set()
    assert calculator.same("in time") == "in time"


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # interrupted while it is made, as plain ones are
def test_what_a_handler_raises_is_never_lost(forked):
    """Wherever a call is when the signal comes: it also asks the server to hold what it passes on."""
    generator, rung = random.Random(0), []

    def alarm(*_):
        rung.append(True)
        raise TimeoutError("of the handler")

    before = signal.signal(signal.SIGALRM, alarm)
    gc.disable()  # nothing that raises in a finalizer reaches the program
    try:
        for number in range(300):
            calculator, event = forked.Calculator(), forked.Event()
            rung.clear()
            with pytest.raises(TimeoutError, match="of the handler"):
                # Again and again: a signal just before a system call does not end it. What was lost has rung, though.
                signal.setitimer(signal.ITIMER_REAL, generator.uniform(1e-6, 3e-3), 0.5)
                calculator.when_set(event, "late")
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert rung == [True]
            assert calculator.same(number) == number
            event.set()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        gc.enable()
        gc.collect()  # sockets that were left half made, before the next test is told of them


def note_and_wait(path):
    with path.open("a") as file:
        file.write("x")
    threading.Event().wait()


class Waiting(managers.BaseManager):
    pass


Waiting.register("waiting", note_and_wait)
Waiting.register("Calculator", Calculator)


def test_a_handler_that_raises_does_not_repeat_what_the_server_does(tmp_path):
    """TimeoutError is an OSError, as those of lost connections are."""

    def alarm(*_):
        raise TimeoutError("of the handler")

    with Waiting(ctx=multiprocessing.get_context("fork")) as waiting:
        calculator = waiting.Calculator()
        before = signal.signal(signal.SIGALRM, alarm)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.5)
            with pytest.raises(TimeoutError, match="of the handler"):
                waiting.waiting(tmp_path / "made")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert calculator.add(1, 2) == 3
    assert (tmp_path / "made").read_text() == "x"


def test_an_argument_that_cannot_be_pickled_leaves_the_connection_free(forked):
    forked.Calculator()
    with pytest.raises((AttributeError, pickle.PicklingError)):  # of Pythons before and after 3.14
        forked.list([lambda: None])
    assert not managers._connection_to(forked.address, forked._authkey).busy


def test_an_error_goes_when_it_was_handled(forked):
    """What it held goes too, before any collection."""
    calculator, gone = forked.Calculator(), []
    gc.disable()
    try:
        for call in (calculator.fail_oddly, lambda: forked._create("of no such type")):
            with pytest.raises((Odd, managers.RemoteError)) as caught:
                call()
            gone.append(weakref.ref(caught.value))
            del caught
        assert [each() for each in gone] == [None, None]
    finally:
        gc.enable()


def test_proxies_of_one_object_are_counted_one_by_one(forked):
    """The connection stays while a thread has one of them."""
    first = forked.Calculator()
    second = pickle.loads(pickle.dumps(first))
    connection = managers._connection_to(forked.address, forked._authkey)
    del first
    gc.collect()
    assert second.same(1) == 1
    assert managers._connection_to(forked.address, forked._authkey) is connection


def test_errors_of_pickling_are_told_whatever_their_class(forked):
    calculator = forked.Calculator()
    with pytest.raises(OSError, match="no lost connection"):
        calculator.same(BadPickle())
    with pytest.raises(managers.RemoteError, match="no lost connection"):
        calculator.same(BadUnpickle())
    with pytest.raises(managers.RemoteError, match="no lost connection"):
        calculator.hard_to_pickle()
    assert calculator.add(1, 2) == 3


def allow_little_memory():
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + (256 << 20), now + (256 << 20)))


def test_no_memory_for_a_message_ends_its_connection():
    """What is left of it would be taken for the next one."""
    manager = Manager(ctx=multiprocessing.get_context("fork"))
    manager.start(initializer=allow_little_memory)
    with manager:
        calculator = manager.Calculator()
        with pytest.raises((EOFError, OSError)):
            calculator.same(numpy.zeros(2 << 30, numpy.uint8))  # more than any allocator has set aside before
        assert calculator.add(1, 2) == 3


def test_other_names_of_the_module_are_there():
    assert managers.public_methods(Calculator()) == plain_managers.public_methods(Calculator())
    assert issubclass(managers.BaseListProxy, managers.BaseProxy)
    assert managers.BaseListProxy is managers.BaseListProxy
    assert not [name for name in dir(plain_managers) if not hasattr(managers, name)]
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = managers.nothing_like_it


class PlainProxy(plain_managers.NamespaceProxy):
    """Of a library whose import nobody changed."""


def test_proxies_of_multiprocessing_are_refused_where_they_are_registered():
    class Mixed(managers.BaseManager):
        pass

    with pytest.raises(TypeError, match="PlainProxy is a proxy of multiprocessing"):
        Mixed.register("space", managers.Namespace, PlainProxy)
    Mixed.register("numbers", list, plain_managers.ListProxy)
    with Mixed(ctx=multiprocessing.get_context("fork")) as mixed:
        numbers = mixed.numbers([1])
        numbers.append(2)
        assert list(numbers) == [1, 2]
        assert type(numbers) is managers.ListProxy


class CountingProxy(managers.NamespaceProxy):
    """It overrides what multiprocessing's does when it is made."""

    def _incref(self):
        with self._Client(self._token.address, authkey=self._authkey) as client:
            managers.dispatch(client, None, "incref", (self._id,))


def test_a_proxy_that_counts_by_itself():
    class Counting(managers.BaseManager):
        pass

    Counting.register("space", managers.Namespace, CountingProxy)
    with Counting(ctx=multiprocessing.get_context("fork")) as counting:
        space = counting.space(x=1)
        assert space.x == 1
