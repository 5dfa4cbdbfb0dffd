"""Compares a socket's behaviour with plain TCP's in the same scenario.

A scenario is a function of a Pair that returns its observation. `like_plain_tcp` turns it into a check. It runs the
scenario on the standard library's sockets first, and expects the same observation.
"""

from __future__ import annotations

import errno
import functools
import struct
from collections.abc import Callable
from typing import Any

from .pairs import PLAIN, Pair, PairMaker

Check = Callable[[PairMaker], None]


def outcome(function: Callable[..., Any], *arguments: Any) -> Any:
    """The value of a call, or the kind of error it raised: comparable between sockets."""
    try:
        return function(*arguments)
    except OSError as error:
        return describe(error)
    except (TypeError, ValueError, BufferError) as error:
        return type(error).__name__


def describe(error: OSError) -> str:
    """An OSError's class and code by name; the class alone when it has no code (timed out)."""
    if error.errno is None:
        return type(error).__name__
    code = errno.errorcode.get(error.errno, str(error.errno))
    return f"{type(error).__name__} {code}"


def on_pair(function: Callable[[Pair], None]) -> Check:
    """A check that needs one pair."""

    @functools.wraps(function)
    def check(maker: PairMaker) -> None:
        with maker.pair() as pair:
            function(pair)

    return check


def on_sleeping_pair(function: Callable[[Pair, Callable[[Any], None]], None]) -> Check:
    """A check in which one side waits. It runs twice: when the wait has just begun, and when it has lasted long.

    The function gets a second argument, and calls it with the waiting side: a Far or a Worker.
    """

    @functools.wraps(function)
    def check(maker: PairMaker) -> None:
        for waiting in (lambda who: who.until_blocked(), lambda who: who.until_asleep()):
            with maker.pair() as pair:
                function(pair, waiting)

    return check


def like_plain_tcp(scenario: Callable[[Pair], Any]) -> Check:
    """A check that a scenario observes the same on a pair as on plain TCP."""

    @functools.cache
    def expected(reference: PairMaker) -> Any:
        with reference.pair() as pair:
            return scenario(pair)

    @functools.wraps(scenario)
    def check(maker: PairMaker) -> None:
        reference = PairMaker(module=PLAIN.module, host=maker.host, near_connects=maker.near_connects)
        wanted = expected(reference)
        with maker.pair() as pair:
            observed = scenario(pair)
        assert observed == wanted, f"observed {observed!r}, plain TCP gives {wanted!r}"

    return check


def reset(sock: Any) -> None:
    """Close a socket by reset: SO_LINGER with a time of zero."""
    import socket

    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def fill(sock: Any, block: bytes = bytes(65536)) -> int:
    """Send until the socket refuses; the number of bytes that it took. The socket is left non-blocking."""
    sock.setblocking(False)
    total = 0
    while True:
        try:
            total += sock.send(block)
        except BlockingIOError:
            if len(block) == 1:
                return total
            block = block[: len(block) // 2]


def receive(sock: Any, count: int) -> bytes:
    """Exactly `count` bytes, or what came before the end of the stream."""
    data = bytearray()
    while len(data) < count:
        block = sock.recv(min(count - len(data), 1 << 20))
        if not block:
            break
        data += block
    return bytes(data)


def receive_all(sock: Any) -> bytes:
    """Everything up to the end of the stream."""
    data = bytearray()
    while block := sock.recv(1 << 20):
        data += block
    return bytes(data)


def receive_until_error(sock: Any) -> tuple[int, str]:
    """The number of bytes that came, and how the stream ended: "EOF" or the error."""
    total = 0
    try:
        while block := sock.recv(1 << 20):
            total += len(block)
    except OSError as error:
        return total, describe(error)
    return total, "EOF"
