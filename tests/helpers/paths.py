"""Which paths there are, and how a test makes its connections take one of them."""

from __future__ import annotations

import importlib
import os
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

import fastsock
from fastsock.config import BETWEEN_HOSTS, KNOWN_TRANSPORTS
from fastsock.testing import PLAIN, PairMaker

# Connections gain memory after so many calls: a number, or "random" for another one in each test.
UPGRADE_AFTER = os.environ.get("FASTSOCK_UPGRADE_AFTER", "0")
if UPGRADE_AFTER == "random":
    del os.environ["FASTSOCK_UPGRADE_AFTER"]  # which is no setting

EVERY = tuple(name for name in KNOWN_TRANSPORTS if name not in BETWEEN_HOSTS)  # tests/lab tests the others
GAINING = "fastsock.stream_socket"  # the module whose sockets gain memory, and take no other path


def why_not(path: str) -> str | None:
    """The reason why a path cannot be tested here, or None."""
    try:
        importlib.import_module("fastsock.socket")
    except ImportError as error:
        return f"fastsock.socket cannot be imported: {error}"
    if path == "shm":
        core = importlib.import_module("fastsock.core")
        if not core.available:
            return f"the native core is not built: {core.why_not}"
    if path == "sdp":
        return why_no_sdp()
    return None


def why_no_sdp() -> str | None:
    reason = importlib.import_module("fastsock.sdp").SdpTransport().usable()
    return None if reason is None else f"the sdp path cannot be used here: {reason}"


# Hardly a kernel has SDP. Where this one has none, the variants that would all be skipped do not exist.
PATHS = tuple(name for name in EVERY if name != "sdp" or why_no_sdp() is None)


@contextmanager
def taking(path: str) -> Iterator[str]:
    """Within it all connections prefer that path. The test is skipped where the path cannot be tested."""
    reason = why_not(path)
    if reason is not None:
        pytest.skip(reason)
    with preferring(path):
        yield path


def carriers_of(kind: str | PairMaker) -> tuple[str, ...]:
    """What `transport` may say of a connection of that kind, or of that maker."""
    if isinstance(kind, PairMaker):
        kind = "shm" if kind.module == GAINING else kind.transport or "plain"
    return ("tcp", "shm") if kind == "shm" else (kind,)


def all_took(taken: list[str], kind: str, count: int) -> bool:
    """Whether so many connections were made, each carried as one of that kind may be."""
    return len(taken) == count and set(taken) <= set(carriers_of(kind))


def maker_of(kind: str) -> PairMaker:
    """Makes connections of that kind."""
    return PLAIN if kind == "plain" else PairMaker("fastsock.socket", transport=kind)


def settle(one: Any, other: Any) -> None:
    """The two ends of a connection of this process have what they gain."""
    with ThreadPoolExecutor(1) as beside:
        found = beside.submit(fastsock.attach, other, 30)
        fastsock.attach(one, 30)
        found.result()


def environment(path: str) -> dict[str, str]:
    """Variables by which processes that are started by a test take the path; none for "plain"."""
    if path == "plain":
        return {}
    if path == "shm":
        after = str(random.choice((0, 1, 2, 3, 5, 8, 13))) if UPGRADE_AFTER == "random" else UPGRADE_AFTER
        return {"FASTSOCK_UPGRADE_AFTER": after, "FASTSOCK_TRANSPORTS": "shm,tcp"}
    return {"FASTSOCK_TRANSPORTS": f"{path},tcp" if path != "tcp" else "tcp"}


@contextmanager
def preferring(path: str) -> Iterator[None]:
    """Connections that this process and those it starts make inside the block take the path."""
    from fastsock import config
    from fastsock.meeting import history

    # a port may be used again: what an earlier test's listener did there must not follow it
    history.forget()
    changed = environment(path)
    saved = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    config.reload()
    module = importlib.import_module("fastsock.socket")
    # which a process chooses when it imports the module
    own, module.socket = module.socket, module.chosen().socket
    try:
        yield
    finally:
        module.socket = own
        for name, value in saved.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        config.reload()


@pytest.fixture(params=("plain", "shm"))
def plain_or_shm(request: pytest.FixtureRequest) -> Iterator[str]:
    """The kind of a test that compares shm with the standard library's sockets."""
    if request.param == "plain":
        yield "plain"
        return
    if reason := why_not("shm"):
        pytest.skip(reason)
    with preferring("shm"):
        yield "shm"
