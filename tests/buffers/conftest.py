"""Connections whose other end, in a second process, takes and gives buffers."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from fastsock import attach

from ..helpers.certificates import client_context, issued, server_context
from ..helpers.paths import PATHS, maker_of, preferring, settle, why_not

pytest.importorskip("numpy")


def _wrap_there(here):
    here.sock = server_context().wrap_socket(here.sock, server_side=True)


def _attach_there(here):
    return attach(here.sock, 30)


def with_memory(pair):
    """Both ends of a connection that stays TCP ask for memory."""
    there = pair.far.process.begin(_attach_there)
    assert attach(pair.near, 30)
    assert there.result()


@contextmanager
def within(kind):
    """A connection of this process to itself, in shared memory."""
    with maker_of(kind).local() as (one, other):
        if kind == "shm":
            settle(one, other)
        yield one, other


@pytest.fixture(params=(*PATHS, "tls"))
def stream(request):
    """A connected pair on each path, and under TLS; `pair.path` says which."""
    path = "shm" if request.param == "tls" else request.param
    reason = why_not(path)
    if reason:
        pytest.skip(reason)
    issued()  # before the other process is forked
    with preferring(path), maker_of(path).pair() as pair:
        pair.path = request.param
        if path == "shm":
            with_memory(pair)
        if request.param == "tls":
            there = pair.far.process.begin(_wrap_there)
            pair.near = client_context().wrap_socket(pair.near, server_hostname="localhost")
            there.result()
        with pair.near:
            yield pair


@pytest.fixture
def shared():
    """As `stream`, on shared memory."""
    reason = why_not("shm")
    if reason:
        pytest.skip(reason)
    with preferring("shm"), maker_of("shm").pair() as pair:
        with_memory(pair)
        yield pair
