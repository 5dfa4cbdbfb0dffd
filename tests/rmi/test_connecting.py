"""What connect() does in its time, and what it says where it does not reach an object."""

from __future__ import annotations

import asyncio
import errno
import pickle
import signal
import socket as standard
import threading
import time

import pytest

from fastsock import rmi
from fastsock.connection import carriers
from fastsock.testing.process import FarProcess, until_stopped
from tests.helpers.paths import preferring

from .conftest import begin_daemon, certificates, fresh_name, until
from .objects import Store

LIMIT = 0.3  # seconds
FAR_BELOW_10 = 5.0  # what a connect took that looked at no time


@pytest.fixture(params=["rmi.connect", "aio.connect"])
def connect(request):
    """connect(address, timeout=...), by a thread or in an event loop."""
    if request.param == "rmi.connect":
        return rmi.connect

    async def connecting(address, interface, options):
        async with await rmi.aio.connect(address, interface, **options) as proxy:
            return proxy

    return lambda address, interface=None, **options: asyncio.run(connecting(address, interface, options))


@pytest.fixture
def in_time():
    """Fails a test in which the clock went on as if there were no limit."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < FAR_BELOW_10


@pytest.fixture
def silent():
    """host:port of a listener that takes connections and says nothing."""
    with standard.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def test_a_silent_listener(connect, silent, in_time):
    with pytest.raises(rmi.ConnectTimeout) as caught:
        connect(f"rmi://{silent}/store", timeout=LIMIT)
    assert isinstance(caught.value, (rmi.RmiError, TimeoutError))
    assert str(caught.value).startswith(f"rmi://{silent}/store: {silent} took the connection (tcp)")
    assert f"did not answer the hello within {LIMIT} s" in str(caught.value)


def test_a_listener_that_is_silent_where_tls_is_wanted(silent, in_time):
    with pytest.raises(rmi.ConnectTimeout, match="within"):
        rmi.connect(f"rmi://{silent}/store", timeout=LIMIT, ssl=certificates().client_context())


@pytest.mark.parametrize("by", ["name", "address"])
def test_a_stopped_daemon(served, connect, by, in_time):
    host, port = served.address
    address = f"rmi:{served.name}" if by == "name" else f"rmi://{host}:{port}/{served.name}"
    served.far.kill(signal.SIGSTOP)
    until_stopped(served.far.pid)
    try:
        with pytest.raises(rmi.ConnectTimeout, match="stopped") as caught:
            connect(address, Store, timeout=LIMIT)
    finally:
        served.far.kill(signal.SIGCONT)
    assert isinstance(caught.value, TimeoutError)
    assert str(caught.value).startswith(f"{address}: ")
    assert (f"process {served.far.pid}" if by == "name" else f"{host}:{port}") in str(caught.value)
    connect(address, Store, timeout=30.0, **served.options)


def test_a_daemon_that_was_not_started(connect, in_time):
    name = fresh_name()
    with rmi.Daemon() as daemon:
        daemon.register(Store(), name)
        with pytest.raises(rmi.ConnectTimeout, match="does not serve yet"):
            connect(f"rmi:{name}", timeout=LIMIT)


def test_nobody_listens(connect):
    with standard.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(rmi.ConnectRefused, match=rf"rmi://127.0.0.1:{port}/store: nobody listens at 127") as caught:
        connect(f"rmi://127.0.0.1:{port}/store")
    assert isinstance(caught.value, (rmi.RmiError, ConnectionRefusedError))
    assert caught.value.errno == errno.ECONNREFUSED


def test_a_host_that_nobody_knows(connect, monkeypatch):
    def unknown(*_):
        raise standard.gaierror(standard.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(standard, "getaddrinfo", unknown)
    with pytest.raises(rmi.UnknownHost, match=r"rmi://nohost:1/store: the host 'nohost' is unknown") as caught:
        connect("rmi://nohost:1/store")
    assert isinstance(caught.value, (rmi.RmiError, standard.gaierror))
    assert caught.value.errno == standard.EAI_NONAME


def test_a_host_that_cannot_be_one(connect):
    with pytest.raises(rmi.UnknownHost, match="is unknown"):
        connect(f"rmi://{'x' * 64}.invalid:1/store")


def test_a_resolver_that_does_not_answer(connect, monkeypatch, in_time):
    answer = threading.Event()
    monkeypatch.setattr(standard, "getaddrinfo", lambda *_: answer.wait() or [])
    try:
        with pytest.raises(rmi.ConnectTimeout, match="'slowhost' was not found within"):
            connect("rmi://slowhost:1/store", timeout=LIMIT)
    finally:
        answer.set()


def test_a_host_with_several_addresses(served, connect, monkeypatch):
    """The first one refuses."""
    with standard.create_server(("127.0.0.1", 0)) as listener:
        closed = listener.getsockname()
    found = [(standard.AF_INET, standard.SOCK_STREAM, 0, "", each) for each in (closed, tuple(served.address))]
    monkeypatch.setattr(standard, "getaddrinfo", lambda *_: found)
    connect(f"rmi://localhost:{served.address[1]}/{served.name}", Store, timeout=30.0, **served.options)


def test_another_program_that_hangs_up(connect):
    with standard.create_server(("127.0.0.1", 0)) as listener:
        place = f"127.0.0.1:{listener.getsockname()[1]}"
        hanging_up = threading.Thread(target=lambda: listener.accept()[0].close())
        hanging_up.start()
        with pytest.raises(rmi.RmiError, match=f"rmi://{place}/store: {place}"):
            connect(f"rmi://{place}/store")
        hanging_up.join()


def test_a_proxy_that_was_pickled_keeps_to_its_time(served, in_time):
    store = served.connect(timeout=LIMIT)
    again = pickle.loads(pickle.dumps(store))
    served.far.kill(signal.SIGSTOP)
    until_stopped(served.far.pid)
    try:
        with pytest.raises(rmi.ConnectTimeout, match=served.name):
            again.add(1, 2)
    finally:
        served.far.kill(signal.SIGCONT)


@pytest.mark.parametrize("address", ["store", "rmi://host/x", 5, None])
def test_what_is_no_address(connect, address):
    with pytest.raises(rmi.BadAddress, match="is no address: write rmi:name") as caught:
        connect(address)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"timeout": "5"}, TypeError, "timeout is '5': give a number of seconds"),
        ({"timeout": 0}, ValueError, "timeout is 0: give seconds above 0"),
        ({"timeout": float("nan")}, ValueError, "timeout is nan"),
        ({"ssl": 5}, TypeError, "ssl is 5: give an ssl.SSLContext"),
        ({"key": 5}, TypeError, "key is 5: give text or bytes"),
        ({"trust": "all"}, ValueError, "trust is 'all'"),
        ({"interface": list[int]}, TypeError, r"interface is list\[int\], which lists nothing: give a Protocol"),
        ({"interface": object}, TypeError, "interface is .*object.*, which lists nothing"),
    ],
)
def test_arguments_that_mean_nothing(connect, options, error, text):
    with pytest.raises(error, match=text):
        connect("rmi://127.0.0.1:1/store", **options)


# ---- connecting again, within a call ----


@rmi.expose
class Hop:
    """Calls another daemon on behalf of its caller."""

    def __init__(self):
        self._last = ""

    def reach(self, address):
        try:
            rmi.connect(address)
        except TimeoutError as error:
            self._last = type(error).__name__
            raise

    def last(self):
        return self._last


@pytest.fixture
def lost(served):
    """A proxy whose daemon was killed; where it listened, somebody takes connections and says nothing."""
    host, port = served.address
    store = rmi.connect(f"rmi://{host}:{port}/{served.name}", Store, **served.options)
    assert store.add(1, 2) == 3
    served.far.kill()
    served.far.wait()
    with pytest.raises(rmi.RmiError):
        store.add(1, 2)
    with standard.create_server((host, port)):
        yield store
    rmi.close(store)


def test_a_call_with_a_limit_connects_again_within_it(lost, in_time):
    with pytest.raises(rmi.ConnectTimeout, match="did not answer the hello"):
        rmi.within(LIMIT, lost.add)(1, 2)
    with pytest.raises(rmi.ConnectTimeout, match="did not answer the hello"):
        rmi.future(rmi.within(LIMIT, lost.add))(1, 2)


def begin_hop(here, name):
    here.daemon.register(Hop(), name)


def test_what_a_method_connects_to_ends_with_its_caller(served, silent, in_time):
    name = fresh_name("hop")
    served.far.run(begin_hop, name)
    with rmi.connect(f"rmi:{name}", Hop, **served.options) as hop:
        # both ends' time is up at once: this end says so, or the other one's answer was quicker
        with pytest.raises((rmi.CallTimeout, rmi.RemoteError)) as ended:
            rmi.within(LIMIT, hop.reach)(f"rmi://{silent}/store")
        if isinstance(ended.value, rmi.RemoteError):
            assert ended.value.kind.endswith(".ConnectTimeout")
        until(lambda: hop.last() == "ConnectTimeout")


@pytest.mark.parametrize("theirs", ["shm", "tcp"])
def test_only_an_end_that_takes_memory_is_waited_for(theirs, monkeypatch):
    asked = []
    monkeypatch.setattr(carriers, "attach_agreed", asked.append)
    name = fresh_name()
    with preferring(theirs):
        far = FarProcess()  # with the class of sockets that this process has
    with far:
        host, port = far.run(begin_daemon, name, {})
        with preferring("shm"):
            proxy = rmi.connect(f"rmi://{host}:{port}/{name}", Store)
        assert proxy.add(1, 2) == 3
        rmi.close(proxy)
    assert len(asked) == (theirs == "shm")
