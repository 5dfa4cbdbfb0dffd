"""A server whose threads wait for the interpreter's lock: each connection to it takes its path all the same."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

import fastsock
from fastsock import config, core, socket
from fastsock.meeting import history
from fastsock.testing import FarProcess

from ..helpers.paths import preferring

ROUNDS = 40
BULK = 8 << 20  # more than the ring and TCP hold

pytestmark = pytest.mark.skipif(not core.available, reason="the native core is not built")


def _compute():
    number = 0
    while True:
        number += 1


def _echo(sock):
    with sock:
        while data := sock.recv(1 << 16):
            sock.sendall(data)


def _accept_all(listener, kept):
    while True:
        sock, _ = listener.accept()
        kept.append(sock)
        threading.Thread(target=_echo, args=(sock,), daemon=True).start()


def _serve(here, path, busy):
    config.configure(transports=f"{path},tcp", short_lived="path")
    here.listener, here.kept = socket.create_server(("127.0.0.1", 0), backlog=1000), []
    threading.Thread(target=_accept_all, args=(here.listener, here.kept), daemon=True).start()
    for _ in range(busy):
        threading.Thread(target=_compute, daemon=True).start()
    return here.listener.getsockname()


def _exchange(sock, data):
    sender = threading.Thread(target=sock.sendall, args=(data,))
    sender.start()
    found = bytearray()
    while len(found) < len(data):
        block = sock.recv(1 << 16)
        assert block, f"the stream ended after {len(found)} bytes"
        found += block
    sender.join()
    return bytes(found)


@pytest.mark.parametrize("met_before", (False, True))
@pytest.mark.parametrize(("path", "busy"), (("shm", 1), ("shm", 4), ("unix", 1)))
def test_each_connection_takes_its_path(path, busy, met_before):
    with preferring(path), FarProcess() as server:
        config.configure(short_lived="path", meeting_ms=10)
        address = server.run(_serve, path, busy)
        for number in range(ROUNDS):
            if not met_before:
                history.forget()
            with closing(socket.create_connection(address)) as sock:
                sock.sendall(b"%06d" % number)
                found = b""
                while len(found) < 6:
                    found += sock.recv(6 - len(found))
                assert found == b"%06d" % number
                told = fastsock.explain(sock)
                assert (told.transport, told.reason) == (path, "joined"), told.detail


def test_a_sender_whose_buffers_are_full_waits_for_it():
    data = bytes(range(256)) * (BULK // 256)
    with preferring("shm"), FarProcess() as server:
        config.configure(meeting_ms=10)
        address = server.run(_serve, "shm", 2)
        with closing(socket.create_connection(address)) as sock:
            assert _exchange(sock, data) == data
            assert fastsock.explain(sock).transport == "shm"
