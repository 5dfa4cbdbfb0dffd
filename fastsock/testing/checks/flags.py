"""MSG_PEEK, MSG_WAITALL, MSG_DONTWAIT and their like."""

from __future__ import annotations

import socket
from typing import Any

from ..outcomes import fill, like_plain_tcp, on_pair, on_sleeping_pair, outcome, receive
from ..pairs import Pair
from ..patterns import Pattern
from ..waiting import until_readable


@on_pair
def check_peek_leaves_the_bytes(pair: Pair) -> None:
    pair.far.sendall(b"0123456789")
    near = pair.near
    for _ in range(3):
        assert near.recv(4, socket.MSG_PEEK) == b"0123"
    assert near.recv(100, socket.MSG_PEEK) == b"0123456789"
    buffer = bytearray(6)
    assert near.recv_into(buffer, 0, socket.MSG_PEEK) == 6
    assert buffer == b"012345"
    assert near.recvmsg(5, 0, socket.MSG_PEEK)[0] == b"01234"
    assert near.recv(2) == b"01"
    assert near.recv(100, socket.MSG_PEEK) == b"23456789"
    assert near.recv(100) == b"23456789"


@on_pair
def check_peek_everywhere_in_a_long_stream(pair: Pair) -> None:
    """Peeking sees the right bytes wherever a buffer inside wraps around."""
    pattern, total, start = Pattern(3), 6 << 20, 0
    sending = pair.far.begin("sendall", pattern.at(0, total))
    while start < total:
        peeked = pair.near.recv(50_001, socket.MSG_PEEK)
        pattern.verify(start, peeked)
        taken = pair.near.recv(len(peeked))
        assert taken == peeked
        start += len(taken)
    sending.result()


@on_sleeping_pair
def check_peek_waits_for_the_first_byte(pair: Pair, until_waits: Any) -> None:
    peeking = pair.far.begin("recv", 10, socket.MSG_PEEK)
    until_waits(pair.far)
    pair.near.sendall(b"a")
    assert peeking.result() == b"a"
    assert pair.far.recv(10) == b"a"


@on_pair
def check_peek_at_the_end(pair: Pair) -> None:
    pair.far.sendall(b"last")
    pair.far.close()
    assert pair.near.recv(100, socket.MSG_PEEK) == b"last"
    assert receive(pair.near, 4) == b"last"
    assert pair.near.recv(1, socket.MSG_PEEK) == b""
    assert pair.near.recv(1) == b""


@on_sleeping_pair
def check_waitall_waits_for_all(pair: Pair, until_waits: Any) -> None:
    receiving = pair.far.begin("recv", 10, socket.MSG_WAITALL)
    for part in (b"012", b"3456", b"789tail"):
        until_waits(pair.far)
        assert not receiving.done()
        pair.near.sendall(part)
    assert receiving.result() == b"0123456789"
    assert pair.far.run(receive, 4) == b"tail"


@on_pair
def check_waitall_of_many_buffers_full(pair: Pair) -> None:
    size = 9 << 20
    receiving = pair.far.begin_run(_receive_waitall, size)
    pair.near.sendall(Pattern(4).at(0, size))
    assert receiving.result() == size


def _receive_waitall(sock: Any, size: int) -> int:
    buffer = bytearray(size)
    count = sock.recv_into(buffer, size, socket.MSG_WAITALL)
    Pattern(4).verify(0, memoryview(buffer)[:count])
    return count


@on_sleeping_pair
def check_waitall_ends_at_end_of_file(pair: Pair, until_waits: Any) -> None:
    receiving = pair.far.begin("recv", 10, socket.MSG_WAITALL)
    until_waits(pair.far)
    pair.near.sendall(b"short")
    pair.near.shutdown(socket.SHUT_WR)
    assert receiving.result() == b"short"
    assert pair.far.recv(10, socket.MSG_WAITALL) == b""


@on_pair
def check_waitall_with_peek(pair: Pair) -> None:
    receiving = pair.far.begin("recv", 6, int(socket.MSG_WAITALL | socket.MSG_PEEK))
    for part in (b"abc", b"def"):
        pair.far.until_blocked()
        pair.near.sendall(part)
    assert receiving.result() == b"abcdef"
    assert pair.far.recv(6, socket.MSG_WAITALL) == b"abcdef"


@like_plain_tcp
def check_dontwait_on_a_blocking_socket(pair: Pair) -> Any:
    near = pair.near
    seen = [
        outcome(near.recv, 1, socket.MSG_DONTWAIT),
        outcome(near.recv_into, bytearray(1), 1, socket.MSG_DONTWAIT),
        outcome(near.recvmsg, 1, 0, socket.MSG_DONTWAIT),
        outcome(near.recv, 1, socket.MSG_DONTWAIT | socket.MSG_PEEK),
    ]
    pair.far.sendall(b"abc")
    seen.append(near.recv(2, socket.MSG_PEEK))
    seen.append(near.recv(5, socket.MSG_DONTWAIT | socket.MSG_WAITALL))
    fill(near)
    near.setblocking(True)
    seen.append(outcome(near.send, b"x", socket.MSG_DONTWAIT))
    seen.append(outcome(near.sendmsg, [b"x"], [], socket.MSG_DONTWAIT))
    return seen


@on_pair
def check_more_and_nosignal_are_accepted(pair: Pair) -> None:
    near = pair.near
    assert near.send(b"ab", socket.MSG_MORE) == 2
    assert near.send(b"cd", socket.MSG_NOSIGNAL) == 2
    assert near.sendall(b"ef", socket.MSG_NOSIGNAL) is None
    assert pair.far.run(receive, 6) == b"abcdef"


@like_plain_tcp
def check_urgent_byte(pair: Pair) -> Any:
    """MSG_OOB, as ftplib's abort() and telnetlib use it."""
    near, far = pair.near, pair.far
    near.sendall(b"before")
    near.sendall(b"!", socket.MSG_OOB)
    near.sendall(b"after")
    seen = [far.run(receive, 6), far.recv(1, socket.MSG_OOB), far.run(receive, 5)]
    return [*seen, outcome(far.recv, 1, socket.MSG_OOB)]


@like_plain_tcp
def check_urgent_byte_in_line(pair: Pair) -> Any:
    near, far = pair.near, pair.far
    far.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
    near.sendall(b"before")
    near.sendall(b"!", socket.MSG_OOB)
    near.sendall(b"after")
    return far.run(receive, 12)


@like_plain_tcp
def check_truncation_flag_discards(pair: Pair) -> Any:
    """On a TCP stream MSG_TRUNC throws the bytes away and tells how many they were."""
    pair.far.sendall(b"0123456789")
    pair.near.recv(1, socket.MSG_PEEK)
    return pair.near.recv_into(bytearray(4), 4, socket.MSG_TRUNC), receive(pair.near, 6)


_SENT = b"0123456789"
_NUMBERED = [1 << bit for bit in range(31)]


@like_plain_tcp
def check_every_receive_flag(pair: Pair) -> Any:
    """What each of them takes, leaves, writes into the buffer and raises."""
    near, far = pair.near, pair.far
    seen = []
    near.setblocking(False)
    for flag in _NUMBERED:
        for with_flag in (flag, flag | socket.MSG_PEEK):
            far.sendall(_SENT)
            until_readable(near)
            buffer = bytearray(4)
            seen.append((hex(with_flag), outcome(near.recv_into, buffer, 4, with_flag), bytes(buffer)))
            seen.append((_length(outcome(near.recv, 2, with_flag)), _reported(outcome(near.recvmsg, 1, 0, with_flag))))
            seen.append((_length(near.recv(20)), outcome(near.recv, 1, with_flag)))
    return seen


def _reported(received: Any) -> Any:
    """The flags that recvmsg() gives back."""
    return received[2] if isinstance(received, tuple) else received


def _length(data: Any) -> Any:
    """MSG_TRUNC leaves what is in the bytes object open."""
    return len(data) if isinstance(data, bytes) else data


@like_plain_tcp
def check_error_queue_with_a_timeout(pair: Pair) -> Any:
    near = pair.near
    pair.far.sendall(_SENT)
    until_readable(near)
    seen = [outcome(near.recv, 4, socket.MSG_ERRQUEUE)]
    near.settimeout(0.02)
    seen.append(outcome(near.recv, 4, socket.MSG_ERRQUEUE))
    return [*seen, near.recv(20)]


@like_plain_tcp
def check_every_send_flag(pair: Pair) -> Any:
    """But the urgent byte: it has checks of its own."""
    near, far = pair.near, pair.far
    seen = []
    near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for flag in _NUMBERED:
        if flag == socket.MSG_OOB:
            continue
        sent = (
            outcome(near.send, b"ab", flag),
            outcome(near.sendmsg, [b"cd"], [], flag),
            outcome(near.sendall, b"ef", flag),
        )
        near.sendall(b".")
        expected = 1 + (2 if sent[0] == 2 else 0) + (2 if sent[1] == 2 else 0) + (2 if sent[2] is None else 0)
        seen.append((hex(flag), sent, far.run(receive, expected)))
    return seen
