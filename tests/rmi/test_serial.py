"""Serial objects: calls that are made on behalf of the one that holds the object enter it; no other does, and no call
waits for ever where its chain shows that."""

from __future__ import annotations

import asyncio
import threading

import pytest

from fastsock import rmi
from fastsock.rmi import aio
from fastsock.rmi.objects import serial
from fastsock.rmi.wire import chains, hello
from fastsock.testing.process import FarProcess

from .conftest import begin_daemon, fresh_name, until


@rmi.expose(serial=True)
class Ledger:
    """One call at a time. A call that another one interrupts would lose what it adds."""

    def __init__(self):
        self.sum = 0
        self.entered = threading.Event()
        self.gate = threading.Event()
        self.noted = []

    def total(self):
        return self.sum

    def add_what(self, function, *arguments):
        before = self.sum
        found = function(*arguments)
        assert self.sum == before, "another call has run meanwhile"
        self.sum = before + 1
        return found

    def add_what_future(self, function):
        return rmi.future(function)().result()

    def add_from(self, relay, address):
        return rmi.connect(relay).ask(address)

    def read_from(self, relay, address):
        return list(rmi.connect(relay).ask_often(address))

    def hold(self):
        self.entered.set()
        assert self.gate.wait(30)

    def rows(self):
        return (each for each in range(3))

    @rmi.oneway
    def note(self, what):
        self.noted.append(what)

    def told(self):
        return self.noted


@rmi.expose
class Around:
    """What is done at a ledger from beside, in its process."""

    def __init__(self, ledger):
        self.ledger = ledger

    def is_held(self):
        return self.ledger.entered.wait(30)

    def open(self):
        self.ledger.gate.set()

    def sent(self):
        return self.ledger

    def waiting(self):
        """How many calls wait for the ledger."""
        return len(serial.lock_of(self.ledger)._waiters)


@rmi.expose
class Relay:
    """In another process: it calls the ledger by a connection of its own."""

    def ask(self, address):
        with rmi.connect(address) as ledger:
            return ledger.total()

    def ask_often(self, address):
        with rmi.connect(address) as ledger:
            yield ledger.total()
            yield ledger.total()


def register_ledger(here, name):
    ledger = Ledger()
    here.daemon.register(ledger, name)
    here.daemon.register(Around(ledger), name + "-around")
    return f"rmi:{name}"


def register_relay(here, name):
    here.daemon.register(Relay(), name)
    return f"rmi:{name}"


@pytest.fixture
def address(served):
    return served.far.run(register_ledger, fresh_name("ledger"))


@pytest.fixture
def ledger(address):
    with rmi.connect(address, Ledger) as found:
        yield found


@pytest.fixture
def around(address):
    with rmi.connect(address + "-around", Around) as found:
        yield found


@pytest.fixture
def relay(begin):
    return begin().far.run(register_relay, fresh_name("relay"))


def test_a_callback_enters_by_the_connection_that_it_came_by(ledger):
    assert rmi.within(20, ledger.add_what)(rmi.callback(lambda: ledger.total())) == 0
    assert ledger.total() == 1


def test_a_callback_enters_by_another_connection(ledger, address):
    with rmi.connect(address, Ledger) as other:
        assert rmi.within(20, ledger.add_what)(rmi.callback(lambda: other.total())) == 0


def test_callbacks_within_callbacks_enter(ledger, address):
    with rmi.connect(address, Ledger) as other:

        def deeper():
            return other.add_what_future(rmi.callback(lambda: (ledger.total(), other.total())))

        assert rmi.within(20, ledger.add_what)(rmi.callback(deeper)) == (0, 0)


def test_a_third_process_enters(ledger, relay, address):
    assert rmi.within(20, ledger.add_from)(relay, address) == 0


def test_a_generator_of_a_third_process_enters(ledger, relay, address):
    assert rmi.within(20, ledger.read_from)(relay, address) == [0, 0]


def test_a_callback_enters_while_nobody_waits_for_it_yet(ledger):
    """The request is not put behind the one on whose behalf it is made, though both are of one thread."""
    for _ in range(20):
        assert rmi.within(20, ledger.add_what_future)(rmi.callback(lambda: ledger.total())) == 0


def test_a_call_of_a_batch_lets_its_callback_enter(address, ledger):
    with rmi.connect(address, Ledger, timeout=20) as other:
        with rmi.batch(other) as calls:
            found = [calls.add_what(rmi.callback(lambda: ledger.total())) for _ in range(2)]
        assert [each.result() for each in found] == [0, 1]


def test_a_callback_of_an_event_loop_enters(address, ledger):
    async def run():
        async with await aio.connect(address, Ledger, timeout=20) as remote:
            return await remote.add_what(rmi.callback(lambda: ledger.total()))

    assert asyncio.run(run()) == 0


def test_an_async_callback_enters(address, ledger):
    async def ask():
        async with await aio.connect(address, Ledger) as remote:
            return await remote.total()

    assert rmi.within(20, ledger.add_what)(rmi.callback(ask)) == 0


def test_no_other_call_enters(ledger, around):
    other = around.sent()
    holding = rmi.future(ledger.hold)()
    assert around.is_held()
    with pytest.raises(rmi.CallTimeout):
        rmi.within(0.05, other.add_what)(rmi.callback(lambda: None))
    around.open()
    holding.result(30)
    assert other.total() == 0  # what was given up has not run later


def test_calls_that_wait_in_vain_leave_their_threads(begin):
    served = begin(threads=4)
    address = served.far.run(register_ledger, fresh_name("ledger"))
    with rmi.connect(address, Ledger) as ledger, rmi.connect(address + "-around", Around) as around:
        holding = rmi.future(ledger.hold)()
        assert around.is_held()
        waiting = [rmi.future(rmi.within(0.05, ledger.total))() for _ in range(8)]
        for each in waiting:
            assert isinstance(each.exception(30), rmi.CallTimeout)
        around.open()
        holding.result(30)
        assert ledger.total() == 0


FEW = 3  # threads of a daemon, fewer than the calls that wait in it


@pytest.fixture
def crowded(begin):
    """Proxies of a ledger, of the ledger for those that wait, and of what is around. The first one holds it."""
    address = begin(threads=FEW).far.run(register_ledger, fresh_name("ledger"))
    with (
        rmi.connect(address, Ledger, timeout=25) as ledger,
        rmi.connect(address, Ledger, timeout=25) as others,
        rmi.connect(address + "-around", Around, timeout=25) as around,
    ):
        holding = rmi.future(ledger.hold)()
        assert around.is_held()
        yield ledger, others, around
        holding.result(30)


def test_calls_that_wait_leave_the_holder_its_threads(crowded):
    """What opens the gate needs a thread too, and comes last."""
    ledger, others, around = crowded
    waiting = [rmi.future(others.total)() for _ in range(8 * FEW)]
    around.open()
    assert [each.result(30) for each in waiting] == [0] * len(waiting)
    assert ledger.total() == 0


def test_batches_that_wait_leave_the_holder_its_threads(crowded):
    _, others, around = crowded
    found = []

    def work():
        with rmi.batch(others) as calls:
            results = [calls.total() for _ in range(3)]
        found.append([each.result() for each in results])

    threads = [threading.Thread(target=work) for _ in range(2 * FEW)]
    for thread in threads:
        thread.start()
    until(lambda: around.waiting() == len(threads))
    around.open()
    for thread in threads:
        thread.join(30)
    assert found == [[0, 0, 0]] * len(threads)


def test_one_way_calls_that_wait_run_in_their_order(crowded):
    _, others, around = crowded
    for each in range(2 * FEW):
        others.note(each)
    around.open()
    until(lambda: others.told() == list(range(2 * FEW)))


def test_who_came_first_enters_first(crowded):
    _, others, around = crowded
    count = 20
    order, notes = [], []
    for each in range(count):
        notes.append(rmi.future(others.add_what)(rmi.callback(order.append), each))
        until(lambda each=each: around.waiting() == each + 1)
    around.open()
    for each in notes:
        each.result(30)
    assert order == list(range(count))


def test_a_call_that_waits_is_given_up_in_time_though_no_thread_waits(crowded):
    _, others, around = crowded
    waiting = [rmi.future(rmi.within(0.05, others.total))() for _ in range(2 * FEW)]
    for each in waiting:
        assert isinstance(each.exception(30), rmi.CallTimeout)
    until(lambda: around.waiting() == 0)
    around.open()


def test_a_daemon_that_closes_leaves_nobody_in_the_line():
    ledger = Ledger()
    with rmi.Daemon() as staying:
        staying.register(ledger, name := fresh_name("ledger"))
        staying.start()
        with rmi.connect(f"rmi:{name}", Ledger, timeout=30) as holder:
            holding = rmi.future(holder.hold)()
            assert ledger.entered.wait(30)
            with rmi.Daemon() as leaving:
                leaving.register(ledger, other := fresh_name("ledger"))
                leaving.start()
                with rmi.connect(f"rmi:{other}", Ledger, timeout=30) as waiting:
                    waiting.note("too late")
                    until(lambda: serial.lock_of(ledger)._waiters)
            ledger.gate.set()
            holding.result(30)
            assert holder.told() == []


def test_calls_whose_client_has_gone_leave(ledger, address, around):
    with rmi.connect(address, Ledger) as other:
        holding = rmi.future(ledger.hold)()
        assert around.is_held()
        waiting = rmi.future(other.add_what)(rmi.callback(lambda: None))
    with pytest.raises(rmi.LostPeer):
        waiting.result(30)
    around.open()
    holding.result(30)
    assert ledger.total() == 0


CROSSING = "<locals>.cross.<locals>.ask.__call__"


def both_at_once(first, second):
    """Each holds its ledger, and calls the other's. Returns what became of the two calls."""
    both_hold = threading.Barrier(2, timeout=30)
    found = [None, None]

    def cross(at, mine, other):
        def ask():
            both_hold.wait()
            return other.total()

        try:
            found[at] = rmi.within(1.0, mine.add_what)(rmi.callback(ask))
        except rmi.RmiError as error:
            found[at] = error

    threads = [threading.Thread(target=cross, args=each) for each in ((0, first, second), (1, second, first))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return found


def test_a_circle_of_two_objects_is_refused(served, ledger):
    with rmi.connect(served.far.run(register_ledger, fresh_name("ledger")), Ledger) as other:
        found = both_at_once(ledger, other)
        (refused,) = [each for each in found if isinstance(each, rmi.Deadlock)]
        assert found.count(0) == 1
        assert "would wait for ever" in str(refused)
        told = str(refused).rpartition(": ")[2].split(" -> ")
        assert [each.partition(" (process ")[0].partition(".")[2] for each in told] == ["add_what", CROSSING]
        assert sorted([ledger.total(), other.total()]) == [0, 1]


def test_a_circle_of_two_processes_ends_with_its_deadlines(begin, ledger):
    with rmi.connect(begin().far.run(register_ledger, fresh_name("ledger")), Ledger) as other:
        found = both_at_once(ledger, other)
        assert any(isinstance(each, rmi.CallTimeout) for each in found)
        assert ledger.total() in (0, 1)  # both are free again
        assert other.total() in (0, 1)


def test_an_object_has_one_lock_however_it_was_sent(ledger, address, around):
    sent = around.sent()
    with rmi.connect(address + "-around", Around) as elsewhere:
        sent_elsewhere = elsewhere.sent()
        holding = rmi.future(sent.hold)()
        assert around.is_held()
        for each in (ledger, sent, sent_elsewhere):
            with pytest.raises(rmi.CallTimeout):
                rmi.within(0.05, each.total)()
        around.open()
        holding.result(30)
        assert [each.total() for each in (ledger, sent, sent_elsewhere)] == [0, 0, 0]


def test_a_method_that_returns_a_generator_is_refused(ledger):
    with pytest.raises(TypeError, match="no generators"):
        ledger.rows()


def begin_of_version_1(here, name):
    hello.NEWEST = 1
    begin_daemon(here, fresh_name(), {})
    return register_ledger(here, name)


def test_a_callback_enters_an_object_of_an_older_end(path):
    with FarProcess() as far:
        address = far.run(begin_of_version_1, fresh_name("ledger"))
        with rmi.connect(address, Ledger) as ledger:
            assert rmi.within(20, ledger.add_what)(rmi.callback(lambda: ledger.total())) == 0


def test_many_threads_that_call_back(address):
    """No addition is lost, and each reads what it has begun with."""
    turns, count = 60, 4

    def work():
        with rmi.connect(address, Ledger, timeout=60) as mine, rmi.connect(address, Ledger, timeout=60) as other:
            asked = (
                lambda: mine.total(),
                lambda: other.total(),
                lambda: other.add_what_future(rmi.callback(lambda: mine.total())),
            )
            for turn in range(turns):
                mine.add_what(rmi.callback(asked[turn % 3]))

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    with rmi.connect(address, Ledger, timeout=60) as ledger:
        assert ledger.total() == turns * count


def test_what_is_no_chain():
    good = (1, "a", 0, "b")
    assert chains.is_chain(good)
    for bad in (None, (), [1, "a"], (1,), ("a", 1), (1, "a", 2), (-1, "a"), (1 << 63, "a"), (True, "a"), (1, "a" * 201),
                (1, "a") * 101):  # fmt: skip
        assert not chains.is_chain(bad)


def test_a_long_chain_forgets_what_holds_nothing():
    chain = ()
    for number in range(1000):
        chain = chains.extended(chain, 7 if number == 3 else 0, str(number))
    assert chains.numbers_of(chain) == {7}
    assert chains.is_chain(chain)
    with pytest.raises(rmi.LimitExceeded, match="hold serial objects"):
        for number in range(1, 1000):
            chain = chains.extended(chain, number, str(number))
