"""Fixtures shared by all tests.

`path` runs a test on each path of the fast socket. `near` and `maker` run it on plain TCP too: the reference on which
every expectation must hold first. `pair` is one connection made by `maker`, its other end in a second process.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import warnings

import pytest

pytest.register_assert_rewrite("fastsock.testing")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # so a shell starts what runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)

from fastsock.testing import PLAIN, PairMaker  # noqa: E402

from .helpers.paths import PATHS, maker_of, preferring, why_not  # noqa: E402
from .helpers.quick import is_quick  # noqa: E402

with contextlib.suppress(ImportError):  # a new Python may not have it yet
    from hypothesis import settings

    settings.register_profile("unhurried", deadline=None)  # a busy machine is no failure
    settings.load_profile("unhurried")


@pytest.hookimpl(tryfirst=True)  # before -m is heeded
def pytest_collection_modifyitems(items):
    for item in items:
        if is_quick(item):
            item.add_marker("quick")


def pytest_collection_finish(session):
    """All that exists by now stays: a collection of garbage, which many tests ask for, need not look at it."""
    gc.collect()
    gc.freeze()


def _prefer(path: str):
    reason = why_not(path)
    if reason:
        pytest.skip(reason)
    return preferring(path)


@pytest.fixture(params=PATHS)
def path(request):
    """Name of the path that this test's connections must take."""
    with _prefer(request.param):
        yield request.param


@pytest.fixture(params=("plain", *PATHS))
def kind(request):
    """As `path`, and "plain": the standard library's sockets, on which the test must hold too."""
    if request.param == "plain":
        yield "plain"
        return
    with _prefer(request.param):
        yield request.param


@pytest.fixture
def near(kind) -> PairMaker:
    """Makes connections of each kind."""
    return maker_of(kind)


@pytest.fixture(params=("connects", "accepts"))
def maker(near, request) -> PairMaker:
    """As `near`; the end in this process connects or accepts."""
    return near if request.param == "connects" else near.turned()


@pytest.fixture
def pair(maker):
    """A connected pair; the far end lives in a second process."""
    with maker.pair() as made:
        yield made


@pytest.fixture
def installed(kind):
    """The module `socket` has the fast class during the test, except where the kind is plain."""
    if kind == "plain":
        yield kind
        return
    import fastsock

    with warnings.catch_warnings():
        # pytest itself has imported modules that hold the plain class; none of them is under test.
        warnings.simplefilter("ignore", fastsock.LateInstallWarning)
        fastsock.install()
    try:
        yield kind
    finally:
        fastsock.uninstall()


@pytest.fixture(params=("connects", "accepts"))
def installed_maker(installed, request) -> PairMaker:
    """As `maker`, for programs that use the module `socket`."""
    asked = installed in ("plain", "shm")  # what carries the bytes changes: nobody asks
    made = PLAIN if asked else PairMaker("socket", transport=installed)
    return made if request.param == "connects" else made.turned()


@pytest.fixture
def installed_pair(installed_maker):
    """As `pair`, for programs that use the module `socket`."""
    with installed_maker.pair() as made:
        yield made


@pytest.fixture(autouse=True)
def no_children_left():
    """A test that leaves a process behind is wrong."""
    yield
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return
    if pid == 0:
        left = list(_children())
        for each in left:
            os.kill(each, signal.SIGKILL)
            os.waitpid(each, 0)
        pytest.fail(f"left processes running: {left}")
    pytest.fail(f"left process {pid} (status {status}) unreaped")


def _children() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(pid) for pid in file.read().split()]
