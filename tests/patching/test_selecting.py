"""The standard selectors on a fast connection, whose doorbell they may leave rung while they look at the ring."""

from __future__ import annotations

import os
import select
import selectors
import socket
import time

import pytest

LONG = 20.0


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
