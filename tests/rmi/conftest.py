"""Objects in another process, reached by each path."""

from __future__ import annotations

import itertools
import os
import threading
import time

import pytest

from fastsock import rmi
from fastsock.testing.process import FarProcess
from tests.helpers.paths import PATHS, taking

from . import objects

SECURED = "TLS"  # over the fastest path
SECURED_TOO = ("test_aio", "test_calls", "test_streams", "test_time")
KEY = "a key that only these tests use"
_numbers = itertools.count()


def fresh_name(what: str = "object") -> str:
    """A name that no other test has at this time."""
    return f"test-{what}-{os.getpid()}-{next(_numbers)}"


def until(condition):
    """Waits for what the other process does by itself. The condition asks it, so each look takes a call."""
    limit = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < limit


def no_more_threads(here=None):
    """In a process: none can be started from now on, until threads_again()."""
    threading.stack_size(1 << 46)  # no process has room for one


def threads_again(here=None):
    threading.stack_size(0)


def begin_daemon(here, name, options):
    """In the other process: a daemon with the objects of these tests."""
    if options.pop("secured", False):
        options["ssl"] = certificates().server_context()
    here.daemon = rmi.Daemon(**options)
    here.store = objects.Store()
    here.daemon.register(here.store, name)
    here.daemon.start()
    return here.daemon.address


def certificates():
    """The certificates of this run. A test with TLS is skipped without the package that makes them."""
    pytest.importorskip("trustme")
    from tests.helpers import certificates as found

    return found


class Served:
    """A daemon in another process, with a Store registered by `name`."""

    def __init__(self, far: FarProcess, name: str, address: tuple[str, int], secured: bool = False) -> None:
        self.far = far
        self.name = name
        self.address = address
        self.secured = secured
        self._open: list[object] = []

    @property
    def options(self):
        """What connect() must be given."""
        return {"ssl": certificates().client_context()} if self.secured else {}

    def connect(self, **options):
        options = {**self.options, **options}
        proxy = rmi.connect(f"rmi:{self.name}", objects.Store, **options)
        self._open.append(proxy)
        return proxy

    def close(self) -> None:
        for proxy in self._open:
            rmi.close(proxy)


@pytest.fixture(autouse=True)
def own_key(monkeypatch):
    monkeypatch.setenv("FASTSOCK_RMI_KEY", KEY)


def pytest_generate_tests(metafunc):
    if "path" in metafunc.fixturenames:
        secured = [SECURED] if metafunc.module.__name__.rpartition(".")[2] in SECURED_TOO else []
        metafunc.parametrize("path", [*PATHS, *secured], indirect=True)


@pytest.fixture
def path(request):
    """A path that all connections of the test take. TLS lies over shared memory."""
    if request.param == SECURED:
        certificates().issued()  # before a process is forked
    below = "shm" if request.param == SECURED else request.param
    with taking(below):
        yield request.param


@pytest.fixture
def begin(path):
    """begin(**options of Daemon) -> a daemon in another process."""
    begun = []

    def start(**options):
        far = FarProcess()
        name = fresh_name("store")
        secured = path == SECURED
        served = Served(far, name, far.run(begin_daemon, name, {**options, "secured": secured}), secured)
        begun.append(served)
        return served

    yield start
    for served in begun:
        served.close()
        served.far.close()


@pytest.fixture
def served(begin):
    return begin()


@pytest.fixture
def store(served):
    return served.connect(timeout=30.0)
