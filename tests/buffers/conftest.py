"""Connections whose other end, in a second process, takes and gives buffers."""

from __future__ import annotations

import pytest

from fastsock.testing import PairMaker

from ..helpers.certificates import client_context, issued, server_context
from ..helpers.paths import PATHS, preferring, why_not

pytest.importorskip("numpy")


def _wrap_there(here):
    here.sock = server_context().wrap_socket(here.sock, server_side=True)


@pytest.fixture(params=(*PATHS, "tls"))
def stream(request):
    """A connected pair on each path, and under TLS; `pair.path` says which."""
    path = "shm" if request.param == "tls" else request.param
    reason = why_not(path)
    if reason:
        pytest.skip(reason)
    issued()  # before the other process is forked
    with preferring(path), PairMaker("fastsock.socket", transport=path).pair() as pair:
        pair.path = request.param
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
    with preferring("shm"), PairMaker("fastsock.socket", transport="shm").pair() as pair:
        yield pair
