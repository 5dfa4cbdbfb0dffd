"""dir(), help(), inspect.signature(), __doc__ and completion of proxies say what the class says."""

from __future__ import annotations

import asyncio
import inspect
import pydoc
import rlcompleter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import pytest

from fastsock import rmi
from fastsock.rmi import aio
from fastsock.rmi.api.interfaces import Interface
from fastsock.rmi.server import daemon
from fastsock.testing.process import FarProcess

from .conftest import fresh_name

NAMES = {"add", "count", "made", "reads", "rows", "level", "__call__", "__getitem__", "__len__", "__iter__"}
GIVEN = ("class", "protocol", "nothing")
NONSENSE = [
    None,
    5,
    (),
    ("doc", 5),
    ("doc", (("add", 5, None),)),
    ("doc", (("add", None, ((("no name", 1, None, None),), None)),)),
]


@rmi.expose
class Shelf:
    """A shelf with a number of things."""

    def __init__(self) -> None:
        self.reads_ = 0

    def add(self, a: int, b: int = 2, *, times: float = 1.0) -> int:
        """The sum of two numbers."""
        return a + b

    @staticmethod
    def made(what: str) -> str:
        return what

    @classmethod
    def count(cls, *things: str) -> int:
        return len(things)

    def rows(self, end: int) -> Iterator[int]:
        """The numbers below the end."""
        yield from range(end)

    @property
    def level(self) -> int:
        """How high it is."""
        self.reads_ += 1
        return 3

    @level.setter
    def level(self, value: int) -> None: ...

    def reads(self) -> int:
        return self.reads_

    def __call__(self, text: str, *, loud: bool = False) -> str:
        """Says it."""
        return text.upper() if loud else text

    def __getitem__(self, key: int) -> int:
        return key

    def __len__(self) -> int:
        return 3

    def __iter__(self) -> Iterator[int]:
        return iter(range(3))


class Adding(Protocol):
    """What adds."""

    def add(self, a: int, b: int = 2, *, times: float = 1.0) -> int:
        """The sum of two numbers."""

    @property
    def level(self) -> int:
        """How high it is."""


def double(number: int) -> int:
    """Twice the number."""
    return 2 * number


def _serve(here: Any, name: str, target: Any) -> None:
    here.daemon = rmi.Daemon()
    here.daemon.register(target, name)
    here.daemon.start()


def _forget_to_describe(here: Any) -> None:
    daemon.SERVICES = Interface("daemon", daemon.SERVICES.entries[:2])


def _describe_by(here: Any, nonsense: Any) -> None:
    rmi.Daemon.describe = lambda self, name: nonsense


@contextmanager
def _served(target: Any, before: Any = None, *arguments: Any) -> Iterator[str]:
    name = fresh_name("shown")
    far = FarProcess()
    try:
        if before is not None:
            far.run(before, *arguments)
        far.run(_serve, name, target)
        yield f"rmi:{name}"
    finally:
        far.close()


@pytest.fixture
def address() -> Iterator[str]:
    with _served(Shelf()) as address:
        yield address


@pytest.fixture(params=GIVEN)
def given(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=("threads", "loop"))
def shelf(address: str, given: str, request: pytest.FixtureRequest) -> Iterator[Any]:
    interface = {"class": Shelf, "protocol": Adding, "nothing": None}[given]
    if request.param == "threads":
        with rmi.connect(address, interface) as shelf:
            yield shelf
        return
    loop = asyncio.new_event_loop()
    shelf = loop.run_until_complete(aio.connect(address, interface))
    yield shelf
    loop.run_until_complete(shelf.aclose())
    loop.close()


def test_dir_has_each_name_before_and_after_its_use(address):
    with rmi.connect(address, Shelf) as shelf:
        before = dir(shelf)
        assert set(before) >= NAMES
        assert not [name for name in before if name.startswith("_rmi_")]
        assert (len(shelf), shelf.level, shelf[5], shelf.add(1), shelf("a", loud=True)) == (3, 3, 5, 3, "A")
        assert dir(shelf) == before
        assert all(isinstance(name, str) for name in vars(shelf))


def test_dir_of_a_proxy_for_a_loop(address):
    async def use():
        async with await aio.connect(address, Shelf) as shelf:
            before = dir(shelf)
            assert set(before) >= NAMES
            assert await shelf.add(1) == 3 and await shelf.level == 3 and await shelf[5] == 5
            assert dir(shelf) == before

    asyncio.run(use())


def _texts(signature: inspect.Signature) -> str:
    return str(signature).replace("'", "")


def test_signatures_and_documentation_are_those_of_the_class(shelf, given):
    assert _texts(inspect.signature(shelf.add)) == "(a: int, b: int = 2, *, times: float = 1.0) -> int"
    assert _texts(inspect.signature(type(shelf).add)) == "(self, /, a: int, b: int = 2, *, times: float = 1.0) -> int"
    assert shelf.add.__doc__ == "The sum of two numbers."
    assert shelf.add.__name__ == "add"
    assert shelf.__doc__ == {"protocol": "What adds."}.get(given, "A shelf with a number of things.")
    assert type(shelf).level.__doc__ == "How high it is."
    if given != "protocol":
        assert _texts(inspect.signature(shelf)) == "(text: str, *, loud: bool = False) -> str"
        assert _texts(inspect.signature(shelf.made)) == "(what: str) -> str"
        assert _texts(inspect.signature(shelf.count)) == "(*things: str) -> int"
    else:
        assert _texts(inspect.signature(shelf.made)) == "(*arguments, **keywords)"


def test_help_shows_the_class_and_its_methods(shelf):
    shown = pydoc.render_doc(shelf, renderer=pydoc.plaintext).replace("'", "")
    assert shelf.__doc__ in shown
    assert "add(self, /, a: int, b: int = 2, *, times: float = 1.0) -> int" in shown
    assert "The sum of two numbers." in shown and "How high it is." in shown
    shown = pydoc.render_doc(shelf.add, renderer=pydoc.plaintext).replace("'", "")
    assert "add(a: int, b: int = 2, *, times: float = 1.0) -> int" in shown and "The sum of two numbers." in shown


def test_completion_makes_no_calls(address):
    with rmi.connect(address, Shelf) as shelf:
        before = shelf.reads()
        completer = rlcompleter.Completer({"shelf": shelf})
        found = completer.attr_matches("shelf.")
        assert {"shelf.add(", "shelf.level", "shelf.reads()"} <= set(found)
        assert shelf.reads() == before


def test_completion_makes_no_calls_in_a_loop(address):
    async def use():
        async with await aio.connect(address, Shelf) as shelf:
            before = await shelf.reads()
            found = rlcompleter.Completer({"shelf": shelf}).attr_matches("shelf.")
            assert {"shelf.add(", "shelf.level", "shelf.reads()"} <= set(found)
            assert await shelf.reads() == before

    asyncio.run(use())


def test_a_method_of_the_proxys_class_is_called_with_a_proxy(address):
    with rmi.connect(address, Shelf) as shelf:
        assert type(shelf).add(shelf, 1, b=4) == 5


def test_a_registered_function_shows_itself():
    with _served(double) as address, rmi.connect(address) as twice:
        assert twice(4) == 8
        assert twice.__doc__ == "Twice the number."
        assert _texts(inspect.signature(twice)) == "(number: int) -> int"


def test_a_daemon_that_tells_nothing_is_used_all_the_same():
    with _served(Shelf(), _forget_to_describe) as address, rmi.connect(address) as shelf:
        assert set(dir(shelf)) >= NAMES
        assert shelf.__doc__ == "A proxy of Shelf."
        assert str(inspect.signature(shelf.add)) == "(*arguments, **keywords)"
        assert shelf.add(1) == 3


@pytest.mark.parametrize("nonsense", NONSENSE, ids=repr)
def test_nonsense_that_a_daemon_tells_is_not_shown(nonsense):
    with _served(Shelf(), _describe_by, nonsense) as address, rmi.connect(address) as shelf:
        assert shelf.__doc__ == "A proxy of Shelf."
        assert str(inspect.signature(shelf.add)) == "(*arguments, **keywords)"
