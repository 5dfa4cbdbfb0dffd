"""What a call owes, on every path, between two processes."""

from __future__ import annotations

import threading
from decimal import Decimal

import numpy
import pytest

from fastsock import rmi

from . import objects
from .conftest import SECURED


def test_the_path_is_the_one_asked_for(store, path):
    told = {SECURED: "shm with TLS", "shm": "shm"}.get(path, path)
    assert store._rmi_target.connection.session.path == told


def test_a_call_returns_the_value(store):
    assert store.add(1, 2) == 3
    assert store.add("a", b="b") == "ab"


def test_arguments_of_all_kinds(store):
    assert store.described(1, *[2, 3], key=4, **{"other": 5}) == ((1, 2, 3), {"key": 4, "other": 5})
    assert store.described() == ((), {})


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        1 << 100,
        1.5,
        1j,
        "ä\ud800",
        b"x" * 5000,
        (1, [2, {3: {4}}]),
        range(3),
        Decimal("1.10"),
        frozenset({1}),
    ],
    ids=repr,
)
def test_values_come_back_as_themselves(store, value):
    found = store.same(value)
    assert found == value
    assert type(found) is type(value)


def test_shared_references_and_cycles_keep_identity(store):
    part = [1]
    cycle = [part, part]
    cycle.append(cycle)
    found = store.same(cycle)
    assert found[0] is found[1]
    assert found[2] is found


def test_a_call_takes_its_arguments_in_every_form(store):
    add = store.add
    assert add(1, 2) == add(1, b=2) == add(b=2, a=1) == add(*(1, 2)) == add(1, **{"b": 2}) == 3
    assert type(add).__call__(add, 1, b=2) == 3
    with pytest.raises(TypeError, match="multiple values"):
        add(1, 2, b=2)
    with pytest.raises(TypeError, match="missing"):
        add()


def test_arguments_that_hold_themselves(store):
    inner = []
    ring = (inner, inner)
    inner.append(ring)
    found = store.same(*ring[:1])
    assert found[0][0] is found[0][1] is found
    with rmi.batch(store) as calls:
        first, second = calls.same(*ring[:1]), calls.same(ring)
    assert first.result()[0][0] is first.result()
    assert second.result()[0][0] is second.result()


@pytest.mark.parametrize("count", [0, 1, 511, 512, 100_000, 3_000_000])
def test_arrays(store, count):
    """rpyc #236, #350, #398."""
    array = numpy.arange(count, dtype="f8")
    found = store.same(array)
    assert numpy.array_equal(found, array)
    found[:] = 0  # it is the caller's own


def test_many_segments_and_a_large_body(store):
    arrays = [numpy.full(each, each, "u2") for each in range(6000, 6300)]
    text = "x" * 50_000
    found = store.same((text, arrays, text))
    assert found[0] == text == found[2]
    assert all(numpy.array_equal(a, b) for a, b in zip(arrays, found[1], strict=True))


def test_errors_arrive_as_themselves_with_the_remote_traceback(store):
    with pytest.raises(ValueError) as raised:
        store.refuse("no")
    assert raised.value.args == ("no", 42)
    told = "\n".join(getattr(raised.value, "__notes__", [str(raised.value.__cause__)]))
    assert "in refuse" in told
    with pytest.raises(objects.Known) as known:
        store.refuse_as_known()
    assert known.value.args == ("both know me", 7)


def test_unregistered_errors_arrive_by_name_and_text(store):
    with pytest.raises(rmi.RemoteError, match="Unregistered: nobody knows me") as raised:
        store.refuse_strangely()
    assert raised.value.text == "nobody knows me"
    with pytest.raises(rmi.RemoteError, match="SystemExit: 3"):  # it ends neither process
        store.leave()
    assert store.add(1, 2) == 3


def test_tracebacks_can_be_hidden(begin):
    store = begin(tracebacks=False).connect()
    with pytest.raises(ValueError) as raised:
        store.refuse("no")
    assert not getattr(raised.value, "__notes__", [])
    assert raised.value.__cause__ is None


def test_what_cannot_travel_is_refused_where_it_is_sent(store):
    with pytest.raises(rmi.NotPackable, match="Unpackable"):
        store.same(objects.Unpackable())
    with pytest.raises(rmi.NotPackable, match="Unpackable"):
        store.returns_unpackable()
    assert store.add(1, 2) == 3


def test_private_and_unknown_names_are_not_there(store):
    for name in ("_private", "__class_getitem__", "missing"):
        with pytest.raises(AttributeError):
            getattr(store, name)


def test_one_way_calls_keep_their_order(store):
    for each in range(200):
        store.log(str(each))
    assert store.logged() == [str(each) for each in range(200)]


def test_a_slow_one_way_call_is_waited_for_by_its_own_thread_alone(served, store):
    store.log_late("late")
    seen = []
    other = threading.Thread(target=lambda: (store.open(), seen.append("opened")))
    other.start()  # another thread's call on the same connection
    assert store.logged() == ["late"]
    other.join()
    assert seen == ["opened"]


def test_close_delivers_one_way_calls_first(served):
    """Pyro5 #20."""
    store = served.connect()
    store.log("x" * 300_000)
    store.log("last")
    rmi.close(store)
    assert served.connect().logged()[-1] == "last"


def test_after_close_a_call_connects_again(served):
    with served.connect() as store:
        assert store.add(1, 2) == 3
    assert store.add(2, 2) == 4


def test_a_proxy_of_several_threads(store):
    """Pyro5 #71 and #110, rpyc #381, #449 and #530."""
    failures = []

    def work(number):
        for each in range(100):
            if store.add(number, each) != number + each:
                failures.append((number, each))

    threads = [threading.Thread(target=work, args=(number * 1000,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_waiting_call_stops_no_other_thread(store):
    waiting = rmi.future(store.wait)()
    assert store.has_entered()
    assert not waiting.done()
    store.open()
    assert waiting.result(30) == "opened"


def test_properties_and_special_methods(store):
    """Pyro5 #95: callable objects."""
    assert store.level == 3
    store.level = 4
    assert store.level == 4
    assert store(21) == 42
    assert len(store) == 5
    assert store["key"] == ["key"]
    assert 3 in store
    assert 4 not in store
    with pytest.raises(AttributeError):
        store.colour = 1


def test_functions_can_be_registered(served):
    served.far.run(register_function, served.name + "-f")
    with rmi.connect(f"rmi:{served.name}-f", **served.options) as multiply_there:
        assert multiply_there(6, 7) == 42


def register_function(here, name):
    here.daemon.register(multiply, name)


def multiply(a, b):
    return a * b


def test_by_host_and_port(served):
    host, port = served.address
    with rmi.connect(f"rmi://{host}:{port}/{served.name}", **served.options) as store:
        assert store.add(1, 2) == 3


def test_nothing_of_this_name():
    with pytest.raises(rmi.UnknownObject, match="nobody on this host"):
        rmi.connect("rmi:there is no such object")


def test_nothing_of_this_name_at_a_daemon(served):
    host, port = served.address
    with pytest.raises(rmi.UnknownObject, match="not registered"):
        rmi.connect(f"rmi://{host}:{port}/missing", **served.options)


def test_a_class_that_lists_more_than_is_there(served):
    @rmi.expose
    class More:
        def add(self, a, b): ...

        def subtract(self, a, b): ...

    with pytest.raises(rmi.UnknownMethod, match="subtract"):
        rmi.connect(f"rmi:{served.name}", More, **served.options)


def test_both_ends_send_much_at_once(served):
    """64 MB each way at the same time: whoever cannot send goes on receiving."""
    size = 64 << 20
    store = served.connect()
    began = [rmi.future(store.same)(bytes([each]) * size) for each in range(3)]
    assert [future.result(60)[::size] for future in began] == [bytes([each]) for each in range(3)]
