"""Timeouts and non-blocking mode."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
from typing import Any

from ..outcomes import fill, like_plain_tcp, on_pair, outcome, receive
from ..pairs import Pair, PairMaker


@like_plain_tcp
def check_modes_read_back(pair: Pair) -> Any:
    near, seen = pair.near, []
    for timeout in (None, 0, 0.25, 3, None):
        near.settimeout(timeout)
        seen.append((near.gettimeout(), near.getblocking(), os.get_blocking(near.fileno()), near.timeout))
    near.setblocking(False)
    seen.append((near.gettimeout(), near.getblocking(), os.get_blocking(near.fileno())))
    near.setblocking(True)
    seen.append((near.gettimeout(), near.getblocking(), os.get_blocking(near.fileno())))
    seen.append((outcome(near.settimeout, -1), outcome(near.settimeout, "1")))
    return seen


@like_plain_tcp
def check_empty_receives_time_out(pair: Pair) -> Any:
    near = pair.near
    near.settimeout(0.02)
    seen = [
        outcome(near.recv, 10),
        outcome(near.recv_into, bytearray(10)),
        outcome(near.recvmsg, 10),
        outcome(near.recvfrom, 10),
        outcome(near.recvmsg_into, [bytearray(3), bytearray(3)]),
    ]
    pair.far.sendall(b"late")
    return [*seen, receive(near, 4)]


@like_plain_tcp
def check_empty_receives_do_not_block(pair: Pair) -> Any:
    near = pair.near
    near.setblocking(False)
    return [
        outcome(near.recv, 10),
        outcome(near.recv_into, bytearray(10)),
        outcome(near.recvmsg, 10),
        outcome(near.recvfrom, 10),
        outcome(near.recvfrom_into, bytearray(10)),
        outcome(near.recvmsg_into, [bytearray(3), bytearray(3)]),
        outcome(near.recv, 10, socket.MSG_PEEK),
        outcome(near.recv, 10, socket.MSG_WAITALL),
    ]


@on_pair
def check_full_sends_time_out(pair: Pair) -> None:
    near = pair.near
    total = fill(near)
    near.settimeout(0.02)
    assert outcome(near.send, b"x") == "TimeoutError", outcome(near.send, b"x")
    assert outcome(near.sendall, b"x" * 100) == "TimeoutError"
    assert outcome(near.sendmsg, [b"x"]) == "TimeoutError"
    assert len(pair.far.run(receive, total)) == total
    near.sendall(b"room")
    assert pair.far.run(receive, 4) == b"room"


@on_pair
def check_full_sends_do_not_block(pair: Pair) -> None:
    near = pair.near
    total = fill(near)
    for call in (lambda: near.send(b"x"), lambda: near.sendmsg([b"x", b"y"]), lambda: near.sendall(b"x")):
        assert outcome(call) == "BlockingIOError EAGAIN", outcome(call)
    assert len(pair.far.run(receive, total)) == total


@on_pair
def check_timed_out_sendall_sent_a_prefix(pair: Pair) -> None:
    """What was taken before the time was over arrives; nothing else does."""
    from ..outcomes import receive_all
    from ..patterns import Pattern

    data = Pattern(1).at(0, 64 << 20)
    pair.near.settimeout(0.05)
    try:
        pair.near.sendall(data)
    except TimeoutError:
        pass
    else:
        raise AssertionError("64 MiB fitted in a buffer")
    pair.near.close()
    received = pair.far.run(receive_all)
    assert 0 < len(received) < len(data)
    Pattern(1).verify(0, received)


@on_pair
def check_timeout_ends_when_data_comes(pair: Pair) -> None:
    receiving = pair.far.begin_run(_receive_with_timeout, 30.0)
    pair.far.until_blocked()
    pair.near.sendall(b"in time")
    assert receiving.result() == b"in time"


def _receive_with_timeout(sock: Any, timeout: float) -> bytes:
    sock.settimeout(timeout)
    return sock.recv(7)


@on_pair
def check_waitall_with_a_timeout(pair: Pair) -> None:
    """With a timeout the descriptor does not block, so WAITALL returns what is there."""
    pair.near.settimeout(5)
    pair.far.sendall(b"abc")
    assert pair.near.recv(10, socket.MSG_WAITALL) == b"abc"


@like_plain_tcp
def check_kernel_timeouts(pair: Pair) -> Any:
    """SO_RCVTIMEO and SO_SNDTIMEO on a blocking socket."""
    near = pair.near
    near.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 20_000))
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, 20_000))
    seen = [outcome(near.recv, 1), near.gettimeout()]
    fill(near)
    near.setblocking(True)
    return [*seen, outcome(near.send, b"x")]


@on_pair
def check_kernel_timeouts_after_a_part(pair: Pair) -> None:
    """A call that SO_RCVTIMEO or SO_SNDTIMEO ends after a part tells how much it was: no byte is lost or sent twice."""
    near = pair.near
    near.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 20_000))
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, 20_000))
    pair.far.sendall(b"abc")
    assert near.recv(10, socket.MSG_WAITALL) == b"abc"
    sent = near.send(bytes(64 << 20))
    assert 0 < sent < 64 << 20
    received = pair.far.begin_run(_count_to_the_end)
    near.shutdown(socket.SHUT_WR)
    assert received.result() == sent


def _count_to_the_end(sock: Any) -> int:
    total = 0
    while data := sock.recv(1 << 20):
        total += len(data)
    return total


@like_plain_tcp
def check_non_blocking_set_behind_the_back(pair: Pair) -> Any:
    """Programs that set O_NONBLOCK on the descriptor themselves."""
    near = pair.near
    flags = fcntl.fcntl(near, fcntl.F_GETFL)
    fcntl.fcntl(near, fcntl.F_SETFL, flags | os.O_NONBLOCK)
    seen = [outcome(near.recv, 1), near.gettimeout()]
    fcntl.fcntl(near, fcntl.F_SETFL, flags)
    pair.far.sendall(b"x")
    return [*seen, near.recv(1)]


@like_plain_tcp
def check_error_text(pair: Pair) -> Any:
    near = pair.near
    near.settimeout(0.01)
    try:
        near.recv(1)
    except TimeoutError as error:
        return str(error), error.args, error.errno == errno.EAGAIN
    return None


def check_accepted_sockets_block(maker: PairMaker) -> None:
    """Neither end inherits the listener's mode; both take the default timeout."""
    sockets = maker.sockets
    previous = sockets.getdefaulttimeout()
    try:
        for default in (None, 7.5):
            sockets.setdefaulttimeout(default)
            with maker.pair() as pair:
                if maker.near_connects:
                    continue
                assert pair.near.gettimeout() == default
    finally:
        sockets.setdefaulttimeout(previous)
