"""What pollers are told while the other end closes: TCP's masks, until what was sent has been read and behind it.

Many programs take HUP for the end, whatever is unread; TCP says it only when both halves are shut, or by a reset.
"""

from __future__ import annotations

import os
import select
import socket
from typing import Any

from ..outcomes import like_plain_tcp, outcome, receive, receive_all, reset
from ..pairs import Pair
from ..waiting import events, until_hangup, until_readable

IN, OUT, HANGUP, ERROR, END = select.POLLIN, select.POLLOUT, select.POLLHUP, select.POLLERR, select.POLLRDHUP
ALL = IN | OUT | END
MUCH = 40_000  # what TCP's first window holds, or its FIN would wait behind it
DEADLINE = 30.0


class Watchers:
    """All the ways to ask about a socket, registered before anything happens to it."""

    def __init__(self, sock: Any) -> None:
        self.sock = sock
        self.level, self.edge = select.epoll(), select.epoll()
        self.level.register(sock, ALL)
        self.edge.register(sock, ALL | select.EPOLLET)
        self.edge.poll(0)

    def look(self) -> tuple[int, int, tuple[bool, bool]]:
        """By poll, by epoll, by select: readable and writable."""
        level = dict(self.level.poll(0)).get(self.sock.fileno(), 0)
        readable, writable, _ = select.select([self.sock], [self.sock], [], 0)
        return events(self.sock, ALL), level, (bool(readable), bool(writable))

    def edges(self, until: int) -> int:
        """What was reported by edges until all of `until` was, at the latest after DEADLINE."""
        seen = 0
        while until & ~seen:
            found = self.edge.poll(DEADLINE)
            if not found:
                break
            seen |= found[0][1]
        return seen

    def close(self) -> None:
        self.level.close()
        self.edge.close()


def _reported_of_the_end(pair: Pair, ending: Any, *arguments: Any) -> list[Any]:
    """What is told from the far end's ending on, through reading all that was sent, to the end of file."""
    near = pair.near
    watchers = Watchers(near)
    pair.far.run(ending, *arguments)
    seen: list[Any] = [watchers.edges(END), watchers.look()]
    seen += [len(receive(near, 1000)), watchers.look()]
    seen += [len(receive_all(near)), watchers.look(), watchers.edges(0)]
    seen += [near.recv(1), watchers.look()]
    watchers.close()
    return seen


def _send_and_close(sock: Any, size: int) -> None:
    sock.sendall(bytes(size))
    sock.close()


def _send_and_shut(sock: Any, size: int, how: int) -> None:
    sock.sendall(bytes(size))
    sock.shutdown(how)


def _send_shut_and_close(sock: Any, size: int, how: int) -> None:
    _send_and_shut(sock, size, how)
    sock.close()


@like_plain_tcp
def check_close_with_much_unread(pair: Pair) -> Any:
    return _reported_of_the_end(pair, _send_and_close, MUCH)


@like_plain_tcp
def check_close_with_little_unread(pair: Pair) -> Any:
    return _reported_of_the_end(pair, _send_and_close, 1)


@like_plain_tcp
def check_close_with_nothing_unread(pair: Pair) -> Any:
    return _reported_of_the_end(pair, _send_and_close, 0)


def _replace_by_another_file(number: int) -> None:
    other = os.open(os.devnull, os.O_RDONLY)
    os.dup2(other, number)
    os.close(other)


def _close_range(number: int) -> None:
    os.closerange(number, number + 1)


def _send_and_close_by_number(sock: Any, size: int, close: Any) -> None:
    sock.sendall(bytes(size))
    number = sock.fileno()
    close(number)
    sock.detach()
    if close is _replace_by_another_file:
        os.close(number)


@like_plain_tcp
def check_close_by_number_with_much_unread(pair: Pair) -> Any:
    return _reported_of_the_end(pair, _send_and_close_by_number, MUCH, os.close)


@like_plain_tcp
def check_close_by_a_range_of_numbers(pair: Pair) -> Any:
    return _reported_of_the_end(pair, _send_and_close_by_number, MUCH, _close_range)


@like_plain_tcp
def check_number_replaced_by_another_file(pair: Pair) -> Any:
    return _reported_of_the_end(pair, _send_and_close_by_number, MUCH, _replace_by_another_file)


@like_plain_tcp
def check_close_behind_a_half_close(pair: Pair) -> Any:
    return _reported_of_the_end(pair, _send_shut_and_close, MUCH, socket.SHUT_WR)


@like_plain_tcp
def check_close_behind_a_shutdown_of_both(pair: Pair) -> Any:
    return _reported_of_the_end(pair, _send_shut_and_close, MUCH, socket.SHUT_RDWR)


@like_plain_tcp
def check_half_close_with_much_unread(pair: Pair) -> Any:
    return _reported_of_the_end(pair, _send_and_shut, MUCH, socket.SHUT_WR)


@like_plain_tcp
def check_shutdown_of_both_with_much_unread(pair: Pair) -> Any:
    return _reported_of_the_end(pair, _send_and_shut, MUCH, socket.SHUT_RDWR)


@like_plain_tcp
def check_close_then_exit(pair: Pair) -> Any:
    """The process that closed has ended before anything is read."""
    watchers = Watchers(pair.near)
    pair.far.run(_send_and_close, MUCH)
    pair.far.process.close()
    seen: list[Any] = [watchers.edges(END), watchers.look(), len(receive_all(pair.near)), watchers.look()]
    watchers.close()
    return seen


def _send_and_drop(here: Any, size: int) -> None:
    import warnings

    here.sock.sendall(bytes(size))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        del here.sock


@like_plain_tcp
def check_socket_dropped_without_a_close(pair: Pair) -> Any:
    """The interpreter closes what the program forgot to."""
    watchers = Watchers(pair.near)
    pair.far.process.run(_send_and_drop, MUCH)
    seen: list[Any] = [watchers.edges(END), watchers.look(), len(receive_all(pair.near)), watchers.look()]
    watchers.close()
    return seen


def _serve_in_a_child(sock: Any, size: int, shut: bool = True) -> int:
    """As a forking server: the parent closes its copy, the child answers, half-closes where asked, and closes."""
    down, up = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(up)
        os.read(down, 1)
        sock.sendall(bytes(size))
        if shut:
            sock.shutdown(socket.SHUT_WR)
        sock.close()
        os._exit(0)
    os.close(down)
    sock.close()
    os.close(up)
    return os.waitpid(pid, 0)[1]


@like_plain_tcp
def check_close_by_a_forked_child(pair: Pair) -> Any:
    return _reported_of_the_end(pair, _serve_in_a_child, MUCH)


def _close_while_a_child_goes_on(sock: Any, size: int) -> int:
    """The parent closes first, or last: nothing ends before both have."""
    return _serve_in_a_child(sock, size, shut=False)


@like_plain_tcp
def check_child_goes_on_after_the_parent_closed(pair: Pair) -> Any:
    return _reported_of_the_end(pair, _close_while_a_child_goes_on, MUCH)


def _duplicate_closes_last(sock: Any, size: int) -> None:
    second = sock.dup()
    sock.close()
    second.sendall(bytes(size))
    second.close()


@like_plain_tcp
def check_close_of_the_last_duplicate(pair: Pair) -> Any:
    return _reported_of_the_end(pair, _duplicate_closes_last, MUCH)


@like_plain_tcp
def check_send_to_who_closed(pair: Pair) -> Any:
    """The first one is swallowed, and answered by a reset: now both halves are shut, and an error waits."""
    near = pair.near
    watchers = Watchers(near)
    pair.far.run(_send_and_close, 1000)
    seen: list[Any] = [watchers.edges(END), watchers.look(), outcome(near.send, b"first")]
    until_hangup(near)
    seen += [watchers.edges(HANGUP) & HANGUP, watchers.look(), outcome(near.getpeername), outcome(near.send, b"x")]
    seen += [watchers.look(), len(receive_all(near)), outcome(near.send, b"x"), watchers.look()]
    watchers.close()
    return seen


@like_plain_tcp
def check_error_of_a_send_to_who_closed(pair: Pair) -> Any:
    near = pair.near
    pair.far.run(_send_and_close, 0)
    until_readable(near)
    seen = [near.recv(1), outcome(near.send, b"first")]
    until_hangup(near)
    error = socket.SOL_SOCKET, socket.SO_ERROR
    return [*seen, near.getsockopt(*error), near.getsockopt(*error), events(near, ALL), outcome(near.send, b"x")]


@like_plain_tcp
def check_own_half_close_after_a_close(pair: Pair) -> Any:
    near = pair.near
    watchers = Watchers(near)
    pair.far.run(_send_and_close, MUCH)
    seen: list[Any] = [watchers.edges(END), watchers.look()]
    near.shutdown(socket.SHUT_WR)
    until_hangup(near)
    seen += [watchers.look(), len(receive_all(near)), watchers.look(), outcome(near.send, b"x")]
    watchers.close()
    return seen


@like_plain_tcp
def check_close_after_our_half_close(pair: Pair) -> Any:
    near = pair.near
    near.shutdown(socket.SHUT_WR)
    assert pair.far.recv(1) == b""
    watchers = Watchers(near)
    pair.far.run(_send_and_close, MUCH)
    until_hangup(near)
    seen: list[Any] = [watchers.edges(HANGUP | END) & (HANGUP | END), watchers.look(), len(receive_all(near))]
    watchers.close()
    return [*seen, events(near, ALL)]


@like_plain_tcp
def check_close_of_both(pair: Pair) -> Any:
    """One after the other, both in good order: nothing is left that would say otherwise to the next."""
    near, far = pair.near, pair.far
    far.run(_send_and_close, 10)
    until_readable(near)
    seen = receive_all(near)
    near.close()
    return seen


@like_plain_tcp
def check_close_with_our_bytes_unread_there(pair: Pair) -> Any:
    near, far = pair.near, pair.far
    near.sendall(b"never read")
    far.recv(1, socket.MSG_PEEK)
    far.close()
    until_hangup(near)
    seen = [events(near, ALL), outcome(near.recv, 1)]
    return [*seen, events(near, ALL)]


@like_plain_tcp
def check_masks_of_linger_zero(pair: Pair) -> Any:
    pair.far.run(reset)
    near = pair.near
    until_hangup(near)
    return [events(near, ALL) | ERROR, outcome(near.recv, 1), events(near, ALL)]


@like_plain_tcp
def check_reading_shut_shows_only_here(pair: Pair) -> Any:
    near, far = pair.near, pair.far
    watchers = Watchers(near)
    far.run(_send_and_shut, 10, socket.SHUT_RD)
    until_readable(near)
    seen: list[Any] = [watchers.look(), far.recv(1), len(receive(near, 10)), watchers.look()]
    far.run(_send_and_close, MUCH)
    seen += [watchers.edges(END) & END, watchers.look(), len(receive_all(near)), watchers.look()]
    watchers.close()
    return seen


@like_plain_tcp
def check_death_of_the_peer_loses_nothing(pair: Pair) -> Any:
    """A killed process says no goodbye: a hang-up may be told besides, and what it sent can still be read."""
    near, far = pair.near, pair.far
    far.run(_send_much)
    far.process.kill()
    far.process.wait()
    assert events(near, END, DEADLINE)
    seen: list[Any] = [events(near, ALL) & ALL, len(receive_all(near)), events(near, ALL) & ALL]
    return [*seen, outcome(near.send, b"first")]


def _send_much(sock: Any) -> None:
    sock.sendall(bytes(MUCH))
