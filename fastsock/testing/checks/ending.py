"""How a connection ends: half-close, end of file, reset, death of the peer."""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
from typing import Any

from ..outcomes import (
    describe,
    fill,
    like_plain_tcp,
    on_pair,
    on_sleeping_pair,
    outcome,
    receive,
    receive_all,
    receive_until_error,
    reset,
)
from ..pairs import Pair, PairMaker
from ..patterns import Pattern
from ..process import DEADLINE, until_stopped
from ..waiting import events, until_hangup, until_readable

MOST_TIMEOUTS = 3000
MORE_THAN_BUFFERS = 32 << 20


@on_pair
def check_half_close(pair: Pair) -> None:
    near, far = pair.near, pair.far
    near.sendall(b"request")
    near.shutdown(socket.SHUT_WR)
    assert far.run(receive_all) == b"request"
    assert far.recv(1) == b""
    far.sendall(b"response")
    assert receive(near, 8) == b"response"
    assert outcome(near.send, b"x") == "BrokenPipeError EPIPE"
    far.shutdown(socket.SHUT_WR)
    assert near.recv(1) == b""
    assert near.recv(1) == b""


@on_pair
def check_half_close_after_much(pair: Pair) -> None:
    size = 20 << 20
    sending = pair.far.begin_run(_send_and_half_close, size)
    Pattern(1).verify(0, received := receive_all(pair.near))
    assert len(received) == size
    sending.result()
    pair.near.sendall(b"answer")
    assert pair.far.run(receive, 6) == b"answer"


def _send_and_half_close(sock: Any, size: int) -> None:
    sock.sendall(Pattern(1).at(0, size))
    sock.shutdown(socket.SHUT_WR)


@on_sleeping_pair
def check_half_close_wakes_a_blocked_receiver(pair: Pair, until_waits: Any) -> None:
    receiving = pair.far.begin("recv", 1)
    until_waits(pair.far)
    pair.near.shutdown(socket.SHUT_WR)
    assert receiving.result() == b""


@like_plain_tcp
def check_shut_reading(pair: Pair) -> Any:
    """SHUT_RD: what had come can still be read, then nothing; the other end does not notice."""
    near, far = pair.near, pair.far
    far.sendall(b"before")
    near.recv(6, socket.MSG_PEEK | socket.MSG_WAITALL)
    near.shutdown(socket.SHUT_RD)
    seen = [outcome(near.recv, 6), outcome(near.recv, 1), outcome(near.recv, 1, socket.MSG_DONTWAIT)]
    seen.append(outcome(far.send, b"late"))
    near.sendall(b"other way")
    return [*seen, far.run(receive, 9)]


@like_plain_tcp
def check_shut_both(pair: Pair) -> Any:
    near, far = pair.near, pair.far
    near.sendall(b"last")
    near.shutdown(socket.SHUT_RDWR)
    seen = [outcome(near.recv, 1), outcome(near.send, b"x"), far.run(receive_all)]
    return [*seen, outcome(near.shutdown, socket.SHUT_WR), far.run(_send_until_refused)]


@on_pair
def check_half_close_that_a_sender_saw_first(pair: Pair) -> None:
    """A receive that waits for a moment only is told of the end too."""
    pair.far.shutdown(socket.SHUT_WR)
    until_readable(pair.near)
    for _ in range(50):
        pair.near.sendall(b"x")
    pair.near.settimeout(0.0005)
    assert pair.near.recv(1) == b""


@like_plain_tcp
def check_shut_of_what_there_is_not(pair: Pair) -> Any:
    """A refused shutdown() shuts nothing."""
    near, far = pair.near, pair.far
    seen = [outcome(near.shutdown, how) for how in (-1, 3, 77)]
    near.sendall(b"still open")
    far.sendall(b"both ways")
    return [*seen, far.run(receive, 10), receive(near, 9)]


@like_plain_tcp
def check_shut_after_the_peer_did(pair: Pair) -> Any:
    near, far = pair.near, pair.far
    far.shutdown(socket.SHUT_WR)
    until_readable(near)
    seen = [outcome(near.shutdown, socket.SHUT_WR), outcome(near.recv, 1)]
    seen += [far.run(receive_all), outcome(near.send, b"x"), outcome(near.shutdown, 99)]
    return seen


@like_plain_tcp
def check_shut_after_the_peer_closed(pair: Pair) -> Any:
    pair.far.close()
    until_readable(pair.near)
    return [
        outcome(pair.near.recv, 1),
        outcome(pair.near.shutdown, socket.SHUT_WR),
        outcome(pair.near.recv, 1),
        outcome(pair.near.send, b"x"),
    ]


@like_plain_tcp
def check_shut_when_both_are_shut(pair: Pair) -> Any:
    """The connection is over then, at both ends."""
    near, far = pair.near, pair.far
    near.sendall(b"unread")
    near.shutdown(socket.SHUT_WR)
    far.run(_shut_behind_the_end)
    assert events(near, select.POLLRDHUP, DEADLINE)
    hows = socket.SHUT_WR, socket.SHUT_RD, socket.SHUT_RDWR, 77
    seen = [*[outcome(near.shutdown, how) for how in hows], near.recv(1), *[outcome(far.shutdown, how) for how in hows]]
    return [*seen, outcome(near.getpeername), outcome(far.getpeername), near.getsockname()[1] > 0]


def _shut_behind_the_end(sock: Any) -> None:
    assert events(sock, select.POLLRDHUP, DEADLINE)
    sock.shutdown(socket.SHUT_WR)


def _shut_both_unread(sock: Any) -> None:
    """By an end that is polled: then the kernel is told, too."""
    until_readable(sock)
    sock.shutdown(socket.SHUT_RDWR)


@like_plain_tcp
def check_shut_after_the_peer_shut_both_unread(pair: Pair) -> Any:
    """It lives, and may read yet: nothing was reset."""
    near, far = pair.near, pair.far
    near.sendall(b"unread")
    far.run(_shut_both_unread)
    until_readable(near)
    return [near.recv(1), outcome(near.shutdown, socket.SHUT_WR), outcome(near.send, b"x"), far.recv(10), far.recv(1)]


@like_plain_tcp
def check_send_after_the_peer_shut_both_unread(pair: Pair) -> Any:
    near, far = pair.near, pair.far
    near.sendall(b"unread")
    far.run(_shut_both_unread)
    until_readable(near)
    seen = [outcome(near.send, b"x")]
    until_hangup(near)
    return [*seen, outcome(near.send, b"x"), near.recv(1)]


@like_plain_tcp
def check_wrong_shutdown_after_a_reset(pair: Pair) -> Any:
    near, far = pair.near, pair.far
    near.sendall(b"never read")
    far.recv(1, socket.MSG_PEEK)
    far.close()
    until_hangup(near)
    return [*[outcome(near.shutdown, how) for how in (-1, 3, 77)], outcome(near.recv, 1)]


@like_plain_tcp
def check_wrong_shutdown_then_the_peer_closed(pair: Pair) -> Any:
    """A refused shutdown() is none, also for the first send to an end that is closed."""
    near, far = pair.near, pair.far
    seen = [outcome(near.shutdown, 77)]
    far.close()
    until_readable(near)
    return [*seen, outcome(near.sendall, b""), outcome(near.send, b"x")]


@on_pair
def check_much_sent_after_the_peer_closed(pair: Pair) -> None:
    """The first send is taken, but no more of it than buffers hold: whoever sends more hears of the end."""
    near = pair.near
    pair.far.close()
    until_readable(near)
    near.settimeout(0)
    assert 0 < near.send(bytes(MORE_THAN_BUFFERS)) < MORE_THAN_BUFFERS
    assert outcome(near.send, b"x") in ("BrokenPipeError EPIPE", "ConnectionResetError ECONNRESET")


@on_pair
def check_all_of_much_sent_after_the_peer_closed(pair: Pair) -> None:
    pair.far.close()
    until_readable(pair.near)
    ends = "BrokenPipeError EPIPE", "ConnectionResetError ECONNRESET"
    assert outcome(pair.near.sendall, bytes(MORE_THAN_BUFFERS)) in ends


def _receive_by_short_timeouts(sock: Any) -> bytes:
    sock.settimeout(0.001)
    for _ in range(MOST_TIMEOUTS):
        try:
            data: bytes = sock.recv(10)
        except TimeoutError:
            continue
        return data
    raise AssertionError(f"nothing was told in {MOST_TIMEOUTS} receives")


@on_pair
def check_death_seen_by_short_timeouts(pair: Pair) -> None:
    """Nobody rings for a process that is killed: who never waits long must look."""
    near, far = pair.near, pair.far
    near.sendall(b"both")
    assert far.run(receive, 4) == b"both"
    far.process.kill()
    far.process.wait()
    assert _receive_by_short_timeouts(near) == b""


@on_pair
def check_close_by_number_seen_by_short_timeouts(pair: Pair) -> None:
    pair.far.run(_close_by_number)
    assert _receive_by_short_timeouts(pair.near) == b""


def _close_by_number(sock: Any) -> None:
    os.close(sock.fileno())
    sock.detach()


@like_plain_tcp
def check_linger_of_zero_resets_by_number(pair: Pair) -> Any:
    pair.far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    pair.far.run(_close_by_number)
    until_hangup(pair.near)
    return [outcome(pair.near.recv, 1), outcome(pair.near.recv, 1), outcome(pair.near.send, b"x")]


@on_pair
def check_close_delivers_what_was_sent(pair: Pair) -> None:
    size = 3 << 20
    sending = pair.far.begin_run(_send_and_close, size)
    received = receive_all(pair.near)
    assert len(received) == size
    Pattern(2).verify(0, received)
    sending.result()


def _send_and_close(sock: Any, size: int) -> None:
    sock.sendall(Pattern(2).at(0, size))
    sock.close()


@on_pair
def check_close_with_everything_buffered(pair: Pair) -> None:
    """The sender is gone, its process too, before the first byte is read."""
    pair.far.run(_send_and_close, 500_000)
    pair.far.process.close()
    received = receive_all(pair.near)
    assert len(received) == 500_000
    Pattern(2).verify(0, received)


def _send_until_refused(sock: Any) -> tuple[bool, str]:
    """Whether the first send succeeded, and the error of the one that failed at last."""
    first = True
    for count in range(1_000_000):
        try:
            sock.send(b"x")
        except OSError as error:
            return first and count > 0, describe(error)
    return first, "never refused"


@on_pair
def check_first_send_after_the_peer_closed_succeeds(pair: Pair) -> None:
    """TCP cannot know yet; programs rely on it. A later send is refused."""
    near = pair.near
    pair.far.close()
    until_readable(near)
    assert near.recv(1) == b""
    assert near.send(b"first") == 5
    until_hangup(near)
    assert outcome(near.send, b"later") in ("BrokenPipeError EPIPE", "ConnectionResetError ECONNRESET")
    assert outcome(near.send, b"later") == "BrokenPipeError EPIPE"


@on_pair
def check_first_send_unread_end(pair: Pair) -> None:
    """As above, for a program that only sends and never looks for the end of file."""
    pair.far.close()
    until_readable(pair.near)
    first, error = _send_until_refused(pair.near)
    assert first
    assert error in ("BrokenPipeError EPIPE", "ConnectionResetError ECONNRESET")


@on_pair
def check_sends_of_nothing_after_the_peer_closed(pair: Pair) -> None:
    """They provoke no reset: each succeeds, and so does the first of any bytes. TLS over memory makes them."""
    near, far = pair.near, pair.far
    far.close()
    assert near.recv(1) == b""
    for _ in range(3):
        near.sendall(b"")
        assert near.send(b"") == 0
        assert near.sendmsg([b""]) == 0
    assert near.sendmsg([b"x", b"y"]) == 2


@like_plain_tcp
def check_sends_after_the_peer_closed(pair: Pair) -> Any:
    near = pair.near
    pair.far.close()
    until_readable(near)
    seen = [outcome(near.recv, 1), outcome(near.sendall, b"first")]
    until_hangup(near)
    return [*seen, *[outcome(near.send, b"x") for _ in range(3)], outcome(near.recv, 1)]


@like_plain_tcp
def check_close_with_unread_data_resets(pair: Pair) -> Any:
    near, far = pair.near, pair.far
    near.sendall(b"never read")
    far.recv(1, socket.MSG_PEEK)
    far.close()
    until_hangup(near)
    return [outcome(near.recv, 1), outcome(near.recv, 1), outcome(near.send, b"x")]


@like_plain_tcp
def check_reset_by_unread_data_after_a_reply(pair: Pair) -> Any:
    """A server that answers without reading the request to its end, then closes."""
    near, far = pair.near, pair.far
    near.sendall(b"request that is not read")
    far.recv(1, socket.MSG_PEEK)
    far.sendall(b"reply")
    far.close()
    until_hangup(near)
    return receive_until_error(near)


@like_plain_tcp
def check_linger_of_zero_resets(pair: Pair) -> Any:
    pair.far.run(reset)
    until_hangup(pair.near)
    near = pair.near
    return [outcome(near.recv, 1), outcome(near.recv, 1), outcome(near.send, b"x"), outcome(near.send, b"x")]


@like_plain_tcp
def check_reset_seen_by_a_sender(pair: Pair) -> Any:
    pair.far.run(reset)
    until_hangup(pair.near)
    near = pair.near
    return [outcome(near.send, b"x"), outcome(near.send, b"x"), outcome(near.recv, 1)]


@like_plain_tcp
def check_reset_after_data(pair: Pair) -> Any:
    pair.far.sendall(b"sent before")
    pair.near.recv(11, socket.MSG_PEEK | socket.MSG_WAITALL)
    pair.far.run(reset)
    until_hangup(pair.near)
    return [receive_until_error(pair.near), outcome(pair.near.recv, 1)]


@like_plain_tcp
def check_reset_read_from_the_error_option(pair: Pair) -> Any:
    pair.far.run(reset)
    near = pair.near
    until_hangup(near)
    error = socket.SOL_SOCKET, socket.SO_ERROR
    return [near.getsockopt(*error), near.getsockopt(*error), outcome(near.recv, 1)]


@like_plain_tcp
def check_names_after_reset(pair: Pair) -> Any:
    pair.far.run(reset)
    near = pair.near
    until_hangup(near)
    seen = [outcome(near.recv, 1), outcome(near.getpeername), outcome(near.shutdown, socket.SHUT_RDWR)]
    return [*seen, near.getsockname()[0]]


@like_plain_tcp
def check_reset_wakes_a_blocked_receiver(pair: Pair) -> Any:
    receiving = pair.far.begin("recv", 1)
    pair.far.until_blocked()
    reset(pair.near)
    return outcome(receiving.result)


@like_plain_tcp
def check_linger_with_time_delivers(pair: Pair) -> Any:
    linger = struct.pack("ii", 1, 20)
    pair.far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    closing = pair.far.begin_run(_send_and_close, 200_000)
    return receive_until_error(pair.near), closing.result()


def _fill_then_block(sock: Any) -> str:
    fill(sock)
    sock.setblocking(True)
    try:
        while True:
            sock.sendall(bytes(1 << 20))
    except OSError as error:
        return describe(error)


def _check_blocked_sender(pair: Pair, until_waits: Any, end: Any) -> None:
    sending = pair.far.begin_run(_fill_then_block)
    receive(pair.near, 1000)
    until_waits(pair.far)
    end(pair.near)
    assert sending.result() in ("BrokenPipeError EPIPE", "ConnectionResetError ECONNRESET")


@on_sleeping_pair
def check_close_wakes_a_blocked_sender(pair: Pair, until_waits: Any) -> None:
    _check_blocked_sender(pair, until_waits, lambda sock: sock.close())


@on_sleeping_pair
def check_reset_wakes_a_blocked_sender(pair: Pair, until_waits: Any) -> None:
    _check_blocked_sender(pair, until_waits, reset)


# Death


@on_pair
def check_death_ends_the_file(pair: Pair) -> None:
    """SIGKILL with nothing unread: what was sent before arrives, then the end."""
    pair.far.sendall(Pattern(3).at(0, 300_000))
    pair.far.process.kill()
    pair.far.process.wait()
    received = receive_all(pair.near)
    assert len(received) == 300_000
    Pattern(3).verify(0, received)
    assert pair.near.recv(1) == b""


@like_plain_tcp
def check_death_with_unread_data_resets(pair: Pair) -> Any:
    near, far = pair.near, pair.far
    near.sendall(b"never read")
    far.recv(1, socket.MSG_PEEK)
    far.sendall(b"reply")
    far.process.kill()
    far.process.wait()
    until_hangup(near)
    return receive_until_error(near)


@like_plain_tcp
def check_death_seen_by_a_sender(pair: Pair) -> Any:
    pair.far.process.kill()
    pair.far.process.wait()
    near = pair.near
    until_readable(near)
    seen = [outcome(near.send, b"x")]
    until_hangup(near)
    return [*seen, *[outcome(near.send, b"x") for _ in range(2)]]


def _check_wakes(maker: PairMaker, blocked: Any, end: Any) -> str:
    """What a process blocked on its end sees when the other end's process is ended."""
    from ..process import FarProcess

    with maker.pair() as pair, FarProcess(sock=pair.near) as third:
        pair.near.close()
        waiting = third.begin(blocked)
        third.until_asleep()
        end(pair)
        answer: str = waiting.result()
    return answer


def _blocked_receiver(here: Any) -> Any:
    return outcome(here.sock.recv, 1)


def _blocked_sender(here: Any) -> str:
    return _fill_then_block(here.sock)


def _death(pair: Pair) -> None:
    pair.far.process.kill()
    pair.far.process.wait()


def check_death_wakes_a_blocked_receiver(maker: PairMaker) -> None:
    assert _check_wakes(maker, _blocked_receiver, _death) == b""


def check_death_wakes_a_blocked_sender(maker: PairMaker) -> None:
    answer = _check_wakes(maker, _blocked_sender, _death)
    assert answer in ("BrokenPipeError EPIPE", "ConnectionResetError ECONNRESET"), answer


@on_pair
def check_stopped_peer_loses_nothing(pair: Pair) -> None:
    """SIGSTOP of the receiver in the middle of a stream, then SIGCONT."""
    size = 16 << 20
    receiving = pair.far.begin_run(_receive_pattern, size)
    pattern = Pattern(5)
    pair.near.sendall(pattern.at(0, 1 << 20))
    pair.far.process.kill(signal.SIGSTOP)
    until_stopped(pair.far.process.pid)
    pair.near.settimeout(0.05)
    sent = 1 << 20
    try:
        while sent < size:
            sent += pair.near.send(pattern.at(sent, min(100_000, size - sent)))
    except TimeoutError:
        pass
    pair.far.process.kill(signal.SIGCONT)
    pair.near.settimeout(None)
    pair.near.sendall(pattern.at(sent, size - sent))
    receiving.result()


def _receive_pattern(sock: Any, size: int) -> None:
    Pattern(5).verify(0, receive(sock, size))


@on_pair
def check_stopped_sender_then_killed(pair: Pair) -> None:
    """A peer that was stopped, then killed: its bytes arrive, then the end; nothing hangs."""
    pair.far.sendall(b"before")
    pair.far.process.kill(signal.SIGSTOP)
    until_stopped(pair.far.process.pid)
    assert receive(pair.near, 6) == b"before"
    pair.near.settimeout(0.02)
    assert outcome(pair.near.recv, 1) == "TimeoutError"
    pair.near.settimeout(None)
    pair.far.process.kill()
    pair.far.process.wait()
    assert pair.near.recv(1) == b""


# SIGPIPE


def _count_broken_pipe_signals(sock: Any) -> list[Any]:
    """Programs that turn Python's ignoring of SIGPIPE off again."""
    counted: list[int] = []
    signal.signal(signal.SIGPIPE, lambda number, frame: counted.append(number))
    sock.shutdown(socket.SHUT_WR)
    seen = [outcome(sock.send, b"x"), len(counted)]
    seen += [outcome(sock.sendall, b"x"), len(counted)]
    seen += [outcome(sock.sendmsg, [b"x"]), len(counted)]
    seen += [outcome(sock.send, b"x", socket.MSG_NOSIGNAL), len(counted)]
    return seen


@like_plain_tcp
def check_broken_pipe_signal(pair: Pair) -> Any:
    return pair.far.run(_count_broken_pipe_signals)


def _die_of_broken_pipe(sock: Any) -> None:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sock.shutdown(socket.SHUT_WR)
    sock.send(b"x")
    os._exit(0)


@like_plain_tcp
def check_broken_pipe_signal_ends_a_process(pair: Pair) -> Any:
    pair.far.begin_run(_die_of_broken_pipe)
    return pair.far.process.wait()
