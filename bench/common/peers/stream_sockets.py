"""Stream sockets, blocking and polled: plain TCP, AF_UNIX, and fastsock over each of its paths."""

from __future__ import annotations

import importlib
import socket as plain
import time
from typing import Any

from ..process import Unusable
from .peer import Buffers, Peer, warm_up

SETTLE_SECONDS = 5.0

ANSWER, STOP = 1, 0  # first byte of a message when the number of exchanges is not agreed beforehand


class SocketPeer(Peer):
    """The loops that any blocking stream socket runs; a subclass makes ``self.socket``."""

    socket: Any

    def __init__(self, name: str, buffers: str = "bytearray") -> None:
        self.name = name
        self.buffers = Buffers(buffers)

    def ping(self, size: int, count: int) -> float:
        out, into = self.buffers.of(size)
        self._exchange(out, into, warm_up(size, count))
        start = time.perf_counter()
        self._exchange(out, into, count)
        return time.perf_counter() - start

    def pong(self, size: int, count: int) -> None:
        out, into = self.buffers.of(size)
        send, receive = self.socket.sendall, self.socket.recv_into
        for _ in range(warm_up(size, count) + count):
            got = receive(into)
            if got != size:
                self._rest(into, got)
            send(out)

    def send(self, size: int, count: int) -> float:
        out = self.buffers.of(size)[0]
        self._push(out, warm_up(size, count))
        self.socket.recv(1)
        start = time.perf_counter()
        self._push(out, count)
        self.socket.recv(1)  # until the last byte has arrived
        return time.perf_counter() - start

    def receive(self, size: int, count: int) -> None:
        into = self.buffers.of(size)[1]
        for messages in (warm_up(size, count), count):
            self._pull(into, messages)
            self.socket.sendall(b"k")

    def ping_for(self, size: int, seconds: float) -> tuple[int, float]:
        """Exchange for about so long; returns the number of exchanges and the seconds they took."""
        out, into = self.buffers.of(size)
        out[0] = ANSWER
        self._exchange(out, into, warm_up(size, 4))
        clock, count = time.perf_counter, 0
        start = clock()
        end = start + seconds
        while clock() < end:
            self._exchange(out, into, 1)
            count += 1
        elapsed = clock() - start
        self.stop(size)
        return count, elapsed

    def stop(self, size: int) -> None:
        """End the other end's ``pong_until_stopped``."""
        out, into = self.buffers.of(size)
        out[0] = STOP
        self._exchange(out, into, 1)

    def pong_until_stopped(self, size: int) -> None:
        """Answer ``ping_for``."""
        out, into = self.buffers.of(size)
        send, receive = self.socket.sendall, self.socket.recv_into
        into[0] = ANSWER
        while into[0] != STOP:
            got = receive(into)
            if got != size:
                self._rest(into, got)
            send(out)

    def _exchange(self, out: memoryview, into: memoryview, count: int) -> None:
        size = len(into)
        send, receive = self.socket.sendall, self.socket.recv_into
        for _ in range(count):
            send(out)
            got = receive(into)
            if got != size:
                self._rest(into, got)

    def _push(self, out: memoryview, count: int) -> None:
        send = self.socket.sendall
        for _ in range(count):
            send(out)

    def _pull(self, into: memoryview, count: int) -> None:
        size, receive = len(into), self.socket.recv_into
        for _ in range(count):
            got = receive(into)
            if got != size:
                self._rest(into, got)

    def _rest(self, into: memoryview, got: int) -> None:
        size, receive = len(into), self.socket.recv_into
        while got < size:
            more = receive(into[got:])
            if not more:
                raise ConnectionError("the other end closed")
            got += more


class TcpPeer(SocketPeer):
    """A TCP connection on 127.0.0.1 whose ends use the stdlib's class or fastsock's.

    ``client`` and ``server`` are "plain" or "fast". ``path`` is the transport that a fast client must report; with
    ``forced`` nothing else but TCP is allowed to it.
    """

    host = "127.0.0.1"

    def __init__(
        self,
        name: str,
        *,
        client: str = "plain",
        server: str = "plain",
        path: str | None = None,
        forced: bool = True,
        buffers: str = "bytearray",
    ) -> None:
        super().__init__(name, buffers)
        self.client, self.server, self.path = client, server, path
        if path and forced:
            self.environment = {"FASTSOCK_TRANSPORTS": "tcp" if path == "tcp" else f"{path},tcp"}

    def listen(self) -> Any:
        self.listener = socket_module(self.server).create_server((self.host, 0))
        return self.listener.getsockname()

    def accept(self) -> None:
        self.socket, _ = self.listener.accept()
        self.socket.setsockopt(plain.IPPROTO_TCP, plain.TCP_NODELAY, 1)
        if self.path and self.server == "fast":
            settle(self.socket, self.path)

    def connect(self, address: Any) -> None:
        self.socket = socket_module(self.client).create_connection(tuple(address))
        self.socket.setsockopt(plain.IPPROTO_TCP, plain.TCP_NODELAY, 1)
        if self.path:
            settle(self.socket, self.path)
            require_path(self.socket, self.path)


class PolledTcp(TcpPeer):
    """TCP without blocking: ask again until it is there, as a program that may burn a core does."""

    def accept(self) -> None:
        super().accept()
        self._unblock()

    def connect(self, address: Any) -> None:
        super().connect(address)
        self._unblock()

    def _unblock(self) -> None:
        self.socket.setblocking(False)
        self.socket = _Polling(self.socket)


class _Polling:
    """sendall, recv and recv_into over a non-blocking socket."""

    def __init__(self, inner: plain.socket) -> None:
        self._send, self._recv_into = inner.send, inner.recv_into

    def sendall(self, data: Any) -> None:
        size, done = len(data), 0
        while done < size:
            try:
                done += self._send(data[done:] if done else data)
            except BlockingIOError:
                continue

    def recv_into(self, into: Any) -> int:
        while True:
            try:
                return self._recv_into(into)
            except BlockingIOError:
                continue

    def recv(self, size: int) -> bytes:
        into = bytearray(size)
        return bytes(into[: self.recv_into(into)])


class UnixPair(SocketPeer):
    """A pair of AF_UNIX stream sockets, inherited."""

    def before_fork(self) -> None:
        self.pair = plain.socketpair()

    def after_fork(self) -> None:
        for end in self.pair:
            end.close()

    def accept(self) -> None:
        self.socket = self.pair[1]
        self.pair[0].close()

    def connect(self, address: Any) -> None:
        self.socket = self.pair[0]
        self.pair[1].close()


def socket_module(kind: str) -> Any:
    """The stdlib's module for "plain", fastsock's for "fast". Raises Unusable where it cannot be imported."""
    if kind == "plain":
        return plain
    try:
        return importlib.import_module("fastsock.socket")
    except ImportError as error:
        raise Unusable(f"fastsock cannot be imported: {error} (pip install -e .)") from error


def settle(sock: Any, path: str) -> None:
    """Both ends call it: a connection that may gain memory has it before anything is measured."""
    import fastsock

    if path == "shm":
        fastsock.attach(sock, SETTLE_SECONDS)


def require_path(sock: Any, path: str) -> None:
    """Raise Unusable, with fastsock's own reason, unless the connection took ``path``."""
    import fastsock

    if sock.transport != path:
        reason = getattr(fastsock.explain(sock), "reason", "no reason given")
        raise Unusable(f"the connection took {sock.transport}, not {path}: {reason}")


def require_paths(path: str) -> None:
    """Raise Unusable unless all connections of this process took ``path``."""
    taken = taken_paths()
    if set(taken) != {path}:
        raise Unusable(f"the connections took {taken}, not {path}")


def taken_paths() -> dict[str, int]:
    """How many connections of this process took which path, since it began."""
    totals = importlib.import_module("fastsock.reporting.explanation").totals()
    return {path: count for path, count in totals.items() if count}
