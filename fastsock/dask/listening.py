"""Listens at a `fastsock://` address."""

from __future__ import annotations

import _socket
import asyncio
import errno
import logging
import weakref

import dask
from distributed.comm.addressing import parse_host_port, unparse_host_port
from distributed.comm.core import BaseListener, CommClosedError
from distributed.comm.tcp import RequireEncryptionMixin
from distributed.comm.utils import ensure_concrete_host

from .. import socket as fast
from .comm import FastComm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

logger = logging.getLogger(__name__)

_MOST_AT_ONCE = 100  # connections, before the loop's other work has its turn
_SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_NO_SUCH_FAMILY = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)  # of a host without IPv6
_PAUSE = 1.0  # seconds, where descriptors or memory are scarce
_ATTEMPTS = 5  # to find a port that is free for IPv4 and IPv6


class FastListener(BaseListener, RequireEncryptionMixin):
    """Makes a comm of each connection, and gives it to `comm_handler`. Addresses are those of dask's tcp:// comm."""

    prefix = "fastsock://"
    comm_class = FastComm
    encrypted = False

    def __init__(
        self,
        address: str,
        comm_handler: Callable[[FastComm], Awaitable[None]],
        deserialize: bool = True,
        allow_offload: bool = True,
        default_host: str | None = None,
        default_port: int = 0,
        **connection_args: Any,
    ) -> None:
        super().__init__()
        self._check_encryption(address, connection_args)
        self.ip, self.port = parse_host_port(address, default_port)
        self.default_host = default_host
        self.comm_handler = comm_handler
        self.deserialize = deserialize
        self.allow_offload = allow_offload
        self._sockets: list[fast.socket] = []
        self._finalizer: Any = None
        self._handling: set[asyncio.Task[None]] = set()
        self._loop: Any = None

    async def start(self) -> None:
        """Raises OSError where the address cannot be had."""
        self._loop = asyncio.get_running_loop()
        self._sockets = _bind(self.ip, self.port, int(dask.config.get("distributed.comm.socket-backlog")))
        # many a program of dask's ends its loop and drops a listener that runs
        self._finalizer = weakref.finalize(self, _close_all, self._sockets)
        self._finalizer.atexit = False
        for sock in self._sockets:
            self._watch(sock)

    def stop(self) -> None:
        sockets, self._sockets = self._sockets, []
        if self._finalizer is not None:
            self._finalizer.detach()
        for sock in sockets:
            if not self._loop.is_closed():
                self._loop.remove_reader(sock.fileno())
            sock.close()

    def get_host_port(self) -> tuple[str, int]:
        """Where it listens. Raises ValueError where it does not."""
        if not self._sockets:
            raise ValueError("this listener was not started, or was stopped")
        host, port = self._sockets[0].getsockname()[:2]  # IPv4's is the first
        return host, port

    @property
    def listen_address(self) -> str:
        return f"{self.prefix}{unparse_host_port(*self.get_host_port())}"

    @property
    def contact_address(self) -> str:
        host, port = self.get_host_port()
        return f"{self.prefix}{unparse_host_port(ensure_concrete_host(host, default_host=self.default_host), port)}"

    def _watch(self, sock: fast.socket) -> None:
        if sock in self._sockets:
            self._loop.add_reader(sock.fileno(), self._accept, sock)

    def _accept(self, listening: fast.socket) -> None:
        for _ in range(_MOST_AT_ONCE):
            if listening not in self._sockets:
                return
            try:
                sock, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                logger.error("Listener at %s cannot accept: %s", self.listen_address, error)
                if error.errno in _SCARCE:
                    self._loop.remove_reader(listening.fileno())
                    self._loop.call_later(_PAUSE, self._watch, listening)
                return
            task = self._loop.create_task(self._handle(sock, self.prefix + unparse_host_port(*address[:2])))
            self._handling.add(task)
            task.add_done_callback(self._handled)

    async def _handle(self, sock: fast.socket, peer: str) -> None:
        if not self._sockets:  # stopped since: the other end must not wait for the handshake
            sock.close()
            return
        try:
            sock.setblocking(False)
            sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
            local = self.prefix + unparse_host_port(*sock.getsockname()[:2])
            comm = self.comm_class(sock, local, peer, self.deserialize)
        except OSError as error:
            sock.close()
            logger.info("Connection from %s ended before it was handled: %s", peer, error)
            return
        comm.allow_offload = self.allow_offload
        try:
            await self.on_connection(comm)
        except CommClosedError as error:
            logger.info("Connection from %s closed before the handshake was over: %s", peer, error)
            return
        await self.comm_handler(comm)

    def _handled(self, task: asyncio.Task[None]) -> None:
        self._handling.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("A handler of connections failed", exc_info=task.exception())


def _close_all(sockets: list[fast.socket]) -> None:
    for sock in sockets:
        sock.close()


def _bind(host: str, port: int, backlog: int) -> list[fast.socket]:
    """Listening sockets at all addresses of the host, all at one port, IPv4 first. Raises OSError."""
    for attempt in range(_ATTEMPTS):
        try:
            return _bind_all(host, port, backlog)
        except OSError as error:
            # a free port of one family may be taken in the other
            if port or error.errno != errno.EADDRINUSE or attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError


def _bind_all(host: str, port: int, backlog: int) -> list[fast.socket]:
    places = _socket.getaddrinfo(host or None, port, 0, _socket.SOCK_STREAM, 0, _socket.AI_PASSIVE)
    found: list[fast.socket] = []
    try:
        for family, _, _, _, place in sorted(set(places), key=lambda each: each[0] != _socket.AF_INET):
            chosen = found[0].getsockname()[1] if found else port
            try:
                found.append(_bind_one(family, (place[0], chosen, *place[2:]), backlog))
            except OSError as error:
                if not (found and error.errno in _NO_SUCH_FAMILY):
                    raise
    except BaseException:
        _close_all(found)
        raise
    return found


def _bind_one(family: int, place: Any, backlog: int) -> fast.socket:
    sock = fast.socket(family, _socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
        if family == _socket.AF_INET6:
            sock.setsockopt(_socket.IPPROTO_IPV6, _socket.IPV6_V6ONLY, 1)
        sock.bind(place)
        sock.listen(backlog)
    except BaseException:
        sock.close()
        raise
    return sock
