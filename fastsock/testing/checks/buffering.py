"""send() returns once its bytes are buffered: two programs that both send first do not deadlock."""

from __future__ import annotations

import functools
import socket
from typing import Any

from ..outcomes import fill, on_pair, receive
from ..pairs import PLAIN, Pair, PairMaker
from ..patterns import Pattern

MIB = 1 << 20


def _send(sock: Any, seed: int, size: int, timeout: float | None = None) -> bool:
    sock.settimeout(timeout)
    try:
        sock.sendall(Pattern(seed).at(0, size))
    except TimeoutError:
        return False
    finally:
        sock.settimeout(None)
    return True


def _verify(sock: Any, seed: int, size: int) -> None:
    Pattern(seed).verify(0, receive(sock, size))


@functools.cache
def _plain_buffers(size: int) -> bool:
    """Whether plain TCP here takes this many bytes each way before anybody receives."""
    with PLAIN.pair() as pair:
        there = pair.far.begin_run(_send, 1, size, 1.0)
        here = _send(pair.near, 2, size, 1.0)
        return there.result() and here


def _send_first(maker: PairMaker, size: int) -> None:
    if not _plain_buffers(size):
        return
    with maker.pair() as pair:
        there = pair.far.begin_run(_send, 1, size)
        _send(pair.near, 2, size)
        there.result()
        verifying = pair.far.begin_run(_verify, 2, size)
        _verify(pair.near, 1, size)
        verifying.result()


def check_both_send_one_mebibyte_first(maker: PairMaker) -> None:
    _send_first(maker, MIB)


def check_both_send_two_mebibytes_first(maker: PairMaker) -> None:
    _send_first(maker, 2 * MIB)


def check_both_send_four_mebibytes_first(maker: PairMaker) -> None:
    _send_first(maker, 4 * MIB)


def check_one_sends_what_plain_tcp_takes(maker: PairMaker) -> None:
    """An answer is often sent whole before the request has been read to its end."""
    for size in (MIB // 2, MIB, 2 * MIB):
        if _plain_buffers(size):
            with maker.pair() as pair:
                _send(pair.near, 1, size)
                pair.far.run(_verify, 1, size)


@on_pair
def check_full_buffer_refuses_and_recovers(pair: Pair) -> None:
    for _ in range(3):
        total = fill(pair.near)
        assert total > 0
        assert len(pair.far.run(receive, total)) == total
    pair.near.setblocking(True)
    pair.near.sendall(b"again")
    assert pair.far.run(receive, 5) == b"again"


@on_pair
def check_full_one_way_leaves_the_other_open(pair: Pair) -> None:
    total = fill(pair.near)
    pair.near.setblocking(True)
    pair.far.sendall(b"still open")
    assert receive(pair.near, 10) == b"still open"
    assert len(pair.far.run(receive, total)) == total


@on_pair
def check_blocked_sender_continues_when_there_is_room(pair: Pair) -> None:
    size = 48 * MIB
    sending = pair.far.begin_run(_send, 7, size)
    pair.far.until_blocked()
    _verify(pair.near, 7, size)
    assert sending.result()


def _take(sock: Any) -> int:
    sock.setblocking(False)
    taken = 0
    try:
        while True:
            taken += sock.send(Pattern(3).at(taken, 65536))
    except BlockingIOError:
        return taken


@on_pair
def check_a_small_send_buffer_bounds_what_is_under_way(pair: Pair) -> None:
    """A program that cancels what it sends, or measures how fast it is taken, sets one."""
    pair.near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    taken = _take(pair.near)
    assert taken <= 2 * MIB
    pair.far.run(_verify, 3, taken)
    pair.near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 * MIB)
    again = _take(pair.near)
    assert again > 0
    verifying = pair.far.begin_run(_verify, 3, again + 1000)
    pair.near.setblocking(True)
    pair.near.sendall(Pattern(3).at(again, 1000))
    verifying.result()
