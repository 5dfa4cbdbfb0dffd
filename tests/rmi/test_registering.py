"""What can be called: marks, Protocols, instances, serial objects; names on this host."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Protocol

import pytest

from fastsock import rmi
from fastsock.rmi.api import interfaces

from .conftest import fresh_name


@rmi.expose
class Visits:
    def __init__(self):
        self.count = 0

    def visit(self):
        self.count += 1
        return self.count


class Plain:
    """Nothing of it is marked."""

    def shown(self):
        return "shown"

    def hidden(self):
        return "hidden"


class Shown(Protocol):
    def shown(self) -> str: ...


class Partly:
    @rmi.expose
    def shown(self):
        return "shown"

    def hidden(self):
        return "hidden"


@rmi.expose(serial=True)
class Serial:
    def __init__(self):
        self.inside = 0
        self.most = 0

    def enter(self):
        self.inside += 1
        self.most = max(self.most, self.inside)
        threading.Event().wait(0.001)
        self.inside -= 1

    def crowd(self):
        return self.most


def register(here, target, name, options):
    here.daemon.register(target() if options.pop("made", False) else target, name, **options)


@pytest.fixture
def registered(served):
    """registered(target, **options) -> a name at the daemon."""

    def call(target, **options):
        name = fresh_name(target.__name__)
        served.far.run(register, target, name, options)
        return f"rmi:{name}"

    return call


def test_one_instance_for_all(registered):
    address = registered(Visits)
    with rmi.connect(address) as first, rmi.connect(address) as second:
        assert (first.visit(), second.visit()) == (1, 2)


def test_an_instance_for_each_connection(registered):
    address = registered(Visits, instance="session")
    with rmi.connect(address) as first, rmi.connect(address) as second:
        assert (first.visit(), first.visit(), second.visit()) == (1, 2, 1)


def test_an_instance_for_each_call(registered):
    with rmi.connect(registered(Visits, instance="call")) as visits:
        assert (visits.visit(), visits.visit()) == (1, 1)


def test_a_protocol_lists_what_can_be_called(registered):
    with rmi.connect(registered(Plain, made=True, interface=Shown), Shown) as plain:
        assert plain.shown() == "shown"
        with pytest.raises(AttributeError):
            plain.hidden()


def test_a_marked_method_alone(registered):
    with rmi.connect(registered(Partly, made=True)) as partly:
        assert partly.shown() == "shown"
        with pytest.raises(AttributeError):
            partly.hidden()


def test_a_serial_object_has_one_call_at_a_time(registered):
    with rmi.connect(registered(Serial, made=True)) as serial:

        def work():
            for _ in range(10):
                serial.enter()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert serial.crowd() == 1


def test_what_exposes_nothing_is_refused():
    with rmi.Daemon() as daemon, pytest.raises(TypeError, match="exposes nothing"):
        daemon.register(Plain(), fresh_name())


def test_private_names_are_never_exposed():
    with pytest.raises(TypeError, match="private"):

        class Wrong:
            @rmi.expose
            def _hidden(self): ...

    assert [entry.name for entry in interfaces.interface_of(Visits).entries] == ["visit"]


def test_a_name_belongs_to_one_daemon():
    name = fresh_name()
    with rmi.Daemon() as first, rmi.Daemon() as second:
        first.register(Visits(), name)
        with pytest.raises(ValueError, match="already"):
            first.register(Visits(), name)
        with pytest.raises(rmi.Refused, match="another process has it"):
            second.register(Visits(), name)
        first.unregister(name)
        second.register(Visits(), name)


@pytest.mark.parametrize("name", ["", "/x", "x" * 100, "a\0b", "a\nb"])
def test_bad_names(name):
    with rmi.Daemon() as daemon, pytest.raises(ValueError, match="no name"):
        daemon.register(Visits(), name)


@pytest.mark.parametrize(
    "address", ["", "store", "http://x", "rmi:", "rmi://host/x", "rmi://host:99999/x", "rmi://:1/x"]
)
def test_bad_addresses(address):
    with pytest.raises(ValueError, match="no address"):
        rmi.connect(address)


def test_the_list(served, store):
    assert store.add(1, 2) == 3
    told = subprocess.run(
        [sys.executable, "-m", "fastsock.rmi", "list"], capture_output=True, text=True, timeout=60, check=False
    ).stdout
    assert f"rmi:{served.name}  Store" in told
    assert f"holds {served.name}" in told
