"""The path between two hosts is cut, for a second or for ever. A fast socket does what a plain one does beside it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import pytest

from ..helpers.hosts import Hosts
from ..helpers.scripts import Script

SENT = 64 << 20
PATIENCE_MS = 1500
ECHO = """
import hashlib, socket, sys
with socket.create_server((sys.argv[1], 0)) as listener:
    tell(listener.getsockname()[1])
    connection = listener.accept()[0]
with connection:
    digest, count = hashlib.sha256(), 0
    while data := connection.recv(1 << 16):
        digest.update(data)
        count += len(data)
        connection.sendall(data)
tell([count, digest.hexdigest()])
"""
# what goes out comes back: bytes are under way in both directions whenever the cut comes
STREAM = """
import hashlib, socket, sys, threading
sock = socket.create_connection((sys.argv[1], int(sys.argv[2])))
size, block, digest, back = int(sys.argv[3]), bytes(range(256)) * 256, hashlib.sha256(), hashlib.sha256()
def send():
    for _ in range(size // len(block)):
        sock.sendall(block)
        digest.update(block)
    sock.shutdown(socket.SHUT_WR)
sender = threading.Thread(target=send)
sender.start()
count = 0
while data := sock.recv(1 << 16):
    if not count:
        tell("under way")
    back.update(data)
    count += len(data)
    if count > size // 4 and count - len(data) <= size // 4:
        tell("a quarter")
        hear()
sender.join()
tell([count, back.hexdigest(), digest.hexdigest()])
"""
WAIT = """
import errno, socket, sys
sock = socket.create_connection((sys.argv[1], int(sys.argv[2])))
sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(sys.argv[3]))
sock.sendall(b"x")
assert sock.recv(1) == b"x"
tell("met")
hear()
try:
    sock.sendall(b"y")
    sock.recv(1)
    tell("nothing")
except OSError as error:
    tell(errno.errorcode[error.errno])
"""
# how a path is cut, and how it is whole again
CUTS: dict[str, tuple[Callable[[Hosts], None], Callable[[Hosts], None]]] = {
    "silent": (lambda network: network.cut(0), lambda network: network.mend(0)),
    "link down here": (lambda network: network.link_down(1), lambda network: network.link_up(1)),
    "link down there": (lambda network: network.link_down(0), lambda network: network.link_up(0)),
    "all packets dropped": (lambda network: network.drop(1), lambda network: network.pass_again(1)),
}


@pytest.fixture(params=CUTS)
def cut(request: pytest.FixtureRequest, network: Hosts) -> tuple[Callable[[Hosts], None], Callable[[Hosts], None]]:
    reason = network.why_no_drop() if request.param == "all packets dropped" else None
    if reason:
        pytest.skip(reason)
    return CUTS[request.param]


def _kind(word: str) -> str:
    return "shm" if word == "fast" else "plain"  # the path that is preferred, and cannot be had


@contextlib.contextmanager
def _pair(network: Hosts, kinds: tuple[str, str], client: str, *arguments: str) -> Iterator[tuple[Script, Script]]:
    with Script(_kind(kinds[0]), ECHO, network.ip(0), within=network.inside(0)) as there:
        port = str(there.hear())
        with Script(_kind(kinds[1]), client, network.ip(0), port, *arguments, within=network.inside(1)) as here:
            yield there, here
            there.process.kill()


@pytest.mark.parametrize("kinds", [("fast", "fast"), ("fast", "plain"), ("plain", "fast")], ids="-".join)
def test_after_a_second_nothing_is_lost(network, cut, kinds):
    break_it, mend_it = cut
    with _pair(network, kinds, STREAM, str(SENT)) as (there, here):
        assert here.hear() == "under way"
        assert here.hear() == "a quarter"
        break_it(network)
        here.tell("read on")
        time.sleep(1)  # the fault itself
        assert not here.has_told(), "the cut came too late"
        mend_it(network)
        count, back, out = here.hear()
        assert (count, back) == (SENT, out)
        assert there.hear() == [SENT, out]
        assert here.finish() == there.finish() == 0


def test_for_ever_is_the_error_of_plain_tcp(network, cut):
    break_it, _ = cut
    arguments = (WAIT, str(PATIENCE_MS))
    with (
        _pair(network, ("fast", "fast"), *arguments) as (_, fast),
        _pair(network, ("plain", "plain"), *arguments) as (_, plain),
    ):
        assert fast.hear() == plain.hear() == "met"
        break_it(network)
        for each in (plain, fast):
            each.tell("go on")
        expected = plain.hear()
        assert expected in ("ETIMEDOUT", "EHOSTUNREACH", "ENETUNREACH")
        assert fast.hear() == expected
