"""Endpoints in another process, reached by each path."""

from __future__ import annotations

import itertools
import os

import pytest

from fastsock.testing.process import FarProcess
from tests.helpers.paths import PATHS, taking

from .far import begin

pytest.importorskip("fastsock.active._connection", reason="the native core is not built")

from fastsock import active

KEY = "a key that only these tests use"
_numbers = itertools.count()


def fresh_name(what: str = "endpoint") -> str:
    """A name that no other test has at this time."""
    return f"test-{what}-{os.getpid()}-{next(_numbers)}"


@pytest.fixture(autouse=True)
def own_key(monkeypatch):
    monkeypatch.setenv("FASTSOCK_RMI_KEY", KEY)


@pytest.fixture(params=PATHS)
def path(request):
    """Name of the path that this test's connections must take."""
    with taking(request.param):
        yield request.param


class Near:
    """An endpoint of this process, which asks one of another process."""

    def __init__(self, far: FarProcess, name: str) -> None:
        self.far = far
        self.name = name
        self.bundle = active.Bundle()
        self.endpoint = self.bundle.endpoint(segment=1 << 20)
        self.got: list[tuple[int, ...]] = []
        self.data: list[bytes | None] = []
        self.returned: list[active.Returned] = []
        self.endpoint.handle(9, self.take)
        self.endpoint.on_error(self.returned.append)

    def take(self, token, *words):
        self.got.append(words)
        self.data.append(None if token.data is None else bytes(token.data))

    def map(self, index: int = 0, tag: int = 5) -> None:
        self.endpoint.map(index, self.name, tag)

    def until(self, count: int = 1) -> None:
        """Polls until so many replies, or messages that came back, are there."""
        while len(self.got) + len(self.returned) < count:
            assert self.bundle.poll(30), "nothing came"

    def call(self, handler: int, *words: int, data=None):
        """A request, and its reply's words."""
        came = len(self.got)
        self.endpoint.request(0, handler, *words, data=data)
        self.until(len(self.got) + len(self.returned) + 1)
        assert len(self.got) > came, f"it came back: {self.returned[-1]}"
        return self.got[-1]


@pytest.fixture
def near(path):
    """Mapped to an endpoint of another process (far.py)."""
    far = FarProcess()
    try:
        name = fresh_name()
        far.run(begin, name)
        made = Near(far, name)
        made.map()
        assert made.endpoint.entries[0].path == ("shm" if path == "shm" else path)
        yield made
        made.bundle.close()
    finally:
        far.close()
