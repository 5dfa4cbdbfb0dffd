"""One connection of the soak: both ends know from its seed what is sent, and how it ends."""

from __future__ import annotations

import random
import socket
import struct
import threading
from typing import Any

from fastsock.testing.outcomes import reset
from fastsock.testing.patterns import Pattern

ENDINGS = ("clean", "client half-closes first", "client resets", "client leaves unread", "server closes early")
_HEADER = struct.Struct("!IQ")
_SIZES = (1, 64, 1000, 4096, 65_536, 200_000, 1 << 20)
_patterns = [Pattern(seed) for seed in range(7)]
GONE = (ConnectionResetError, BrokenPipeError)


class Plan:
    """What a seed decides."""

    def __init__(self, seed: int, most: int) -> None:
        chooser = random.Random(seed)
        self.seed = seed
        self.upward = chooser.randrange(most)
        self.downward = chooser.randrange(most)
        self.ending = chooser.choices(ENDINGS, (60, 15, 10, 10, 5))[0]
        self.up_pattern = _patterns[seed % 7]
        self.down_pattern = _patterns[(seed + 3) % 7]


def exactly(sock: Any, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        block = sock.recv(count - len(data))
        if not block:
            raise AssertionError(f"ended after {len(data)} of {count} bytes")
        data += block
    return bytes(data)


def _send(sock: Any, pattern: Pattern, total: int, chooser: random.Random) -> None:
    sent = 0
    while sent < total:
        size = min(chooser.choice(_SIZES), total - sent)
        sock.sendall(pattern.at(sent, size))
        sent += size


def _receive(sock: Any, pattern: Pattern, total: int, chooser: random.Random) -> None:
    received = 0
    while received < total:
        data = sock.recv(min(chooser.choice(_SIZES), total - received))
        if not data:
            raise AssertionError(f"ended after {received} of {total} bytes")
        pattern.verify(received, data)
        received += len(data)


class _Sending:
    """Sends in a thread, so that both ends may stream at the same time."""

    def __init__(self, *arguments: Any) -> None:
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=arguments)
        self._thread.start()

    def _run(self, *arguments: Any) -> None:
        try:
            _send(*arguments)
        except BaseException as error:
            self._error = error

    def join(self) -> None:
        self._thread.join()
        if self._error:
            raise self._error


def converse(sock: Any, plan: Plan) -> int:
    """The client's side; the number of payload bytes that it moved. The socket is closed."""
    chooser = random.Random(plan.seed + 1)
    with sock:
        sock.sendall(_HEADER.pack(plan.seed & 0xFFFFFFFF, plan.seed))
        if plan.ending == "client resets":
            _send(sock, plan.up_pattern, plan.upward // 2, chooser)
            reset(sock)
            return plan.upward // 2
        if plan.ending == "client leaves unread":
            _receive(sock, plan.down_pattern, plan.downward // 2, chooser)
            return plan.downward // 2
        if plan.ending == "server closes early":
            try:
                _send(sock, plan.up_pattern, plan.upward + (256 << 20), chooser)
            except GONE:
                return plan.upward
            raise AssertionError("the server closed, and everything was still taken")
        sending = _Sending(sock, plan.up_pattern, plan.upward, chooser)
        _receive(sock, plan.down_pattern, plan.downward, random.Random(plan.seed + 2))
        sending.join()
        if plan.ending == "client half-closes first":
            sock.shutdown(socket.SHUT_WR)
        assert exactly(sock, 4) == b"done"
        if sock.recv(1) != b"":
            raise AssertionError("bytes after the end")
    return plan.upward + plan.downward


def serve(sock: Any, most: int) -> None:
    """The server's side. GONE only where the client's plan, or its death, allows it."""
    with sock:
        check, seed = _HEADER.unpack(exactly(sock, _HEADER.size))
        assert check == seed & 0xFFFFFFFF
        plan = Plan(seed, most)
        chooser = random.Random(seed + 3)
        if plan.ending == "server closes early":
            _receive(sock, plan.up_pattern, plan.upward, chooser)
            return
        sending = _Sending(sock, plan.down_pattern, plan.downward, random.Random(seed + 4))
        try:
            if plan.ending == "client leaves unread":
                if sock.recv(1):
                    raise AssertionError("bytes that nobody sent")
            else:
                _receive(sock, plan.up_pattern, plan.upward, chooser)
        finally:
            sending.join()
        if plan.ending == "client half-closes first" and sock.recv(1) != b"":
            raise AssertionError("bytes after the half-close")
        sock.sendall(b"done")
