"""What users get wrong, and what they are told: in their words, by one line."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from fastsock import rmi
from fastsock.rmi import names
from fastsock.rmi.client import connecting

from .conftest import fresh_name
from .objects import Store


@rmi.expose
class Base:
    def add(self, a, b):
        return a + b


class Bare(Base):
    def add(self, a, b):
        return -1

    def more(self):
        return 1

    def _private(self):
        return 2


class Chosen(Base):
    @rmi.expose
    def more(self):
        return 1

    def less(self):
        return -1


@rmi.expose
class Marked(Base):
    def more(self):
        return 1


class Below(Marked):
    limit = 5


@pytest.fixture
def daemon():
    with rmi.Daemon() as daemon:
        yield daemon


@pytest.mark.parametrize(
    ("target", "options", "error", "text"),
    [
        (Store(), {"instance": "session"}, TypeError, "instance='session' is for a class, of which instances are made"),
        (len, {"instance": "call"}, TypeError, "instance='call' is for a class"),
        (Store, {"instance": "thread"}, ValueError, "it is one of single, session, call"),
        (Store(), {"name": 5}, TypeError, "5 is no name: a name is text"),
        (Store(), {"name": None}, TypeError, "None is no name"),
        (Store(), {"interface": Callable}, TypeError, r"interface is .*Callable.*, which lists nothing: give a"),
        (Store, {"interface": 5}, TypeError, "interface is 5"),
        (Store(), {"metadata": 5}, TypeError, "metadata is 5: give a dict"),
    ],
)
def test_registering(daemon, target, options, error, text):
    with pytest.raises(error, match=text):
        daemon.register(target, options.pop("name", fresh_name()), **options)
    assert repr(daemon).endswith("no objects>")


def test_calling(served):
    store = served.connect()
    for wrong in ("a", None, store.add, True):
        with pytest.raises(TypeError, match=r"write within\(seconds, method\)"):
            rmi.within(wrong, store.add)
    for function in (rmi.future, rmi.close, rmi.batch):
        with pytest.raises(TypeError, match="5 is no"):
            function(5)
    with pytest.raises(TypeError, match=r"interface is .*Callable.*, which lists nothing: give a Protocol, or a class"):
        rmi.connect(f"rmi:{served.name}", Callable, **served.options)
    with pytest.raises(TypeError, match=r"interface is collections.abc.Callable"):
        rmi.connect(f"rmi:{served.name}", Callable[[], Any], **served.options)


def test_a_name_that_nobody_has():
    name = fresh_name()
    with pytest.raises(rmi.UnknownObject) as caught:
        rmi.connect(f"rmi:{name}")
    assert str(caught.value).startswith(f"rmi:{name}: nobody on this host has the name '{name}'")


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"address": "127.0.0.1:5"}, TypeError, r"address is '127.0.0.1:5': give \(host, port\)"),
        ({"address": ("127.0.0.1", "5")}, TypeError, r"give \(host, port\)"),
        ({"address": ("127.0.0.1", 99999)}, rmi.ListenError, "cannot listen at 127.0.0.1:99999: a port is a number"),
        ({"address": ("192.0.2.1", 0)}, rmi.ListenError, "cannot listen at 192.0.2.1:0: 192.0.2.1 is no address of"),
        ({"threads": 0}, ValueError, "threads is 0"),
        ({"lease": -1}, ValueError, "lease is -1"),
        ({"ssl": "cert.pem"}, TypeError, "ssl is 'cert.pem': give an ssl.SSLContext"),
        ({"key": "short"}, rmi.Refused, "has 5 bytes: give at least 16"),
    ],
)
def test_making_a_daemon(options, error, text):
    with pytest.raises(error, match=text):
        rmi.Daemon(**options)


def test_a_port_that_another_daemon_has(daemon):
    host, port = daemon.address
    with pytest.raises(rmi.ListenError, match=f"{host}:{port}: another program listens there") as caught:
        rmi.Daemon(daemon.address)
    assert isinstance(caught.value, OSError)


def test_a_subclass_without_a_mark_of_its_own(daemon):
    """What it adds is not exposed, and that is said. What it overrides is."""
    name = fresh_name()
    with pytest.warns(rmi.HiddenMethodsWarning, match=r"^more of Bare cannot be .* above Base does not hold") as told:
        daemon.register(Bare(), name)
    assert told[0].filename == __file__
    daemon.start()
    with rmi.connect(f"rmi:{name}") as bare:
        assert bare.add(1, 2) == -1
        with pytest.raises(AttributeError, match="exposes no 'more'"):
            bare.more()


@pytest.mark.parametrize(("kind", "has_more"), [(Chosen, True), (Marked, True), (Below, True), (Base, False)])
def test_a_class_that_decided_is_not_warned_of(daemon, kind, has_more):
    name = fresh_name()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        daemon.register(kind(), name)
        daemon.start()
        with rmi.connect(f"rmi:{name}") as proxy:
            assert proxy.add(1, 2) == 3
            assert hasattr(proxy, "more") == has_more
            assert not hasattr(proxy, "less")


# ---- the name server, and what asks it ----

NOBODY = "127.0.0.1:1"


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (NOBODY, rmi.ConnectRefused, "nobody listens at 127.0.0.1:1 .*python -m fastsock.rmi.names"),
        ("foo", rmi.BadAddress, "write host:port of a name server"),
        (f"{'x' * 64}.invalid:1", rmi.UnknownHost, "is unknown"),
    ],
)
@pytest.mark.parametrize("what", ["connect", "register", "wait_for"])
def test_a_name_server_that_is_not_there(monkeypatch, value, error, text, what):
    monkeypatch.setenv(connecting.NAMES_VARIABLE, value)
    name = fresh_name()
    calls = {
        "connect": lambda: rmi.connect(f"rmi:{name}"),
        "register": lambda: daemon.register(Store(), name),
        "wait_for": lambda: rmi.wait_for(name, 0.1),
    }
    expected = error if what != "wait_for" or error is rmi.BadAddress else rmi.ConnectTimeout
    told = f"{connecting.NAMES_VARIABLE}={value}: .*{text}"
    with rmi.Daemon() as daemon, pytest.raises(expected, match=told):
        calls[what]()


def test_a_daemon_in_the_place_of_the_name_server(served, monkeypatch):
    server = "{}:{}".format(*served.address)
    monkeypatch.setenv(connecting.NAMES_VARIABLE, server)
    told = f"{connecting.NAMES_VARIABLE}={server}: .*the daemon there is no name server"
    with pytest.raises(rmi.RmiError, match=told):
        rmi.connect(f"rmi:{fresh_name()}", **served.options)


def test_a_name_that_the_server_does_not_know(monkeypatch):
    with rmi.Daemon(names="") as server:
        server.register(names.Names(), connecting.NAMES, local=False)
        server.start()
        place = "{}:{}".format(*server.address)
        monkeypatch.setenv(connecting.NAMES_VARIABLE, place)
        told = f"the server of {connecting.NAMES_VARIABLE}={place}: no daemon has"
        with pytest.raises(rmi.UnknownObject, match=told):
            rmi.connect(f"rmi:{fresh_name()}")


def run(*words):
    return subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("listen", "text"),
    [
        ("foo", "is not host:port"),
        ("127.0.0.1:", "is not host:port"),
        ("127.0.0.1:999999", "is not host:port, with a port up to 65535"),
        ("::1:6226", "is not host:port"),
        (f"{'x' * 64}.invalid:6226", "cannot listen at"),
        ("192.0.2.1:6226", "no address of this host"),
        (None, "another program listens there"),
    ],
)
def test_the_command_of_the_name_server(daemon, listen, text):
    listen = listen or "{}:{}".format(*daemon.address)
    done = run("fastsock.rmi.names", "--listen", listen)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"python -m fastsock.rmi.names: --listen {listen}: ")
    assert text in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_command_of_the_name_server_without_a_good_key(monkeypatch):
    monkeypatch.setenv("FASTSOCK_RMI_KEY", "short")
    done = run("fastsock.rmi.names", "--listen", "127.0.0.1:0")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "FASTSOCK_RMI_KEY has 5 bytes" in done.stderr
