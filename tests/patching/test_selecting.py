"""The standard selectors on a fast connection, whose ring they look at before they ask the kernel."""

from __future__ import annotations

import os
import random
import select
import selectors
import socket
import time

import pytest

from fastsock.patching import polling
from fastsock.testing import PLAIN, FarProcess, PairMaker

LONG = 20.0
MANY = 100  # more rings than a selector looks at itself


@pytest.fixture(params=("SelectSelector", "PollSelector", "EpollSelector"))
def selector(request):
    with getattr(selectors, request.param)() as made:
        yield made


def _converse(pair, selector):
    """Some messages that are read as they come; the socket stays registered."""
    pair.near.setblocking(False)
    selector.register(pair.near, selectors.EVENT_READ)
    for number in range(40):
        pair.far.sendall(b"%3d" % number)
        assert [key.fileobj for key, _ in selector.select(LONG)] == [pair.near]
        assert pair.near.recv(10) == b"%3d" % number


def _asks_until_told(selector):
    """What select(0) tells, asked again and again as a loop that never blocks does."""
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        if found := selector.select(0):
            return [key.fileobj for key, _ in found]
    return []


def test_what_was_read_is_not_told_again(installed_pair, selector):
    _converse(installed_pair, selector)
    for _ in range(1000):
        assert selector.select(0) == []


def test_end_is_told_without_blocking(installed_pair, selector):
    _converse(installed_pair, selector)
    installed_pair.far.shutdown(socket.SHUT_WR)
    assert _asks_until_told(selector) == [installed_pair.near]
    assert installed_pair.near.recv(10) == b""


def test_end_that_a_send_met_first(installed_pair, selector):
    _converse(installed_pair, selector)
    installed_pair.far.shutdown(socket.SHUT_WR)
    installed_pair.near.send(b"still open this way")
    assert _asks_until_told(selector) == [installed_pair.near]
    assert installed_pair.near.recv(10) == b""


def test_death_is_told_without_blocking(installed_pair, selector):
    _converse(installed_pair, selector)
    installed_pair.far.process.kill()
    assert _asks_until_told(selector) == [installed_pair.near]


def test_other_descriptors_are_told_at_once(installed_pair, selector):
    reading, writing = os.pipe()
    selector.register(reading, selectors.EVENT_READ)
    _converse(installed_pair, selector)
    os.write(writing, b"x")
    assert [key.fileobj for key, _ in selector.select(0)] == [reading]
    selector.unregister(reading)
    os.close(reading)
    os.close(writing)


def test_every_arrival_has_an_edge_once_the_selector_let_go(installed_pair, selector):
    _converse(installed_pair, selector)
    selector.unregister(installed_pair.near)
    with select.epoll() as poller:
        poller.register(installed_pair.near, select.EPOLLIN | select.EPOLLET)
        for _ in range(5):
            installed_pair.far.sendall(b"x")
            assert poller.poll(LONG)


def _has_own_poller(selector):
    return ("_selector" in vars(selector) and type(selector._selector).__module__.startswith("fastsock")) or (
        "_select" in vars(selector)
    )


def test_one_selector_can_look_where_the_others_do_not(pair, selector):
    polling.patch_one(selector)
    polling.patch_one(selector)
    _converse(pair, selector)
    for _ in range(1000):
        assert selector.select(0) == []
    pair.far.close()
    assert _asks_until_told(selector) == [pair.near]
    with type(selector)() as other:
        assert not _has_own_poller(other)


def _listen(here, maker):
    here.listener = maker.listener()
    here.listener.listen(MANY)
    return here.listener.getsockname()


def _accept(here):
    here.accepted = [here.listener.accept()[0] for _ in range(MANY)]


def _say(here, order):
    """A message on one connection after the other; each waits for its answer."""
    for number, which in enumerate(order):
        here.accepted[which].sendall(b"%06d" % number)
        assert here.accepted[which].recv(1) == b"y"


@pytest.fixture
def many(installed, selector):
    """MANY registered connections to one other process, and that process."""
    maker = PLAIN if installed in ("plain", "shm") else PairMaker("socket", transport=installed)
    with FarProcess() as far:
        address = far.run(_listen, maker)
        accepting = far.begin(_accept)
        near = [maker.connect(address) for _ in range(MANY)]
        accepting.result()
        for sock in near:
            maker.check(sock)
            sock.setblocking(False)
            selector.register(sock, selectors.EVENT_READ)
        yield near, far
        for sock in near:
            selector.unregister(sock)
            sock.close()


@pytest.mark.parametrize("active", [MANY, 40, 3])
def test_each_of_many_is_heard(many, selector, active):
    near, far = many
    rng = random.Random(active)
    order = [rng.randrange(MANY - active, MANY) for _ in range(1500)]
    saying = far.begin(_say, order)
    for number, which in enumerate(order):
        heard = [key.fileobj for key, _ in selector.select(LONG)]
        assert heard == [near[which]]
        assert near[which].recv(10) == b"%06d" % number
        near[which].sendall(b"y")
    saying.result()


BUSY, SPOKEN, ROUNDS = 32, 100, 400


def _keep_busy(here):
    """Rounds of a message on each of the first connections; in one round, the last connection says something, once."""
    for number in range(ROUNDS):
        if number == SPOKEN:
            here.accepted[-1].sendall(b"once")
        for sock in here.accepted[:BUSY]:
            sock.sendall(b"%06d" % number)
        for sock in here.accepted[:BUSY]:
            assert sock.recv(1) == b"y"


def test_one_is_heard_while_others_are_busy(many, selector):
    _, far = many
    talking = far.begin(_keep_busy)
    answered, current, heard_in = 0, -1, -1
    while answered < BUSY * ROUNDS:
        for key, _ in selector.select(LONG):
            data = key.fileobj.recv(6)
            if data == b"once":
                heard_in = current
            else:
                current = int(data)
                key.fileobj.sendall(b"y")
                answered += 1
    talking.result()
    assert SPOKEN - 1 <= heard_in < SPOKEN + 40
