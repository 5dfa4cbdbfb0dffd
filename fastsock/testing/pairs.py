"""Pairs of connected sockets, one end in this process and the other in a second one.

Every check takes a `PairMaker`. It names the module whose sockets are made, and the path that they must
take. The author of a new path writes one line: `PairMaker("fastsock.socket", "my-path")`.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from ..connection.carriers import attach, gains_memory
from .process import DEADLINE, FarProcess, Pending


class Far:
    """The end in the other process. Its methods are the socket's own, run in that process."""

    def __init__(self, process: FarProcess) -> None:
        self.process = process

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method.startswith("_"):
            raise AttributeError(method)
        return lambda *arguments: self.process.run(_call, method, *arguments)

    def get(self, attribute: str) -> Any:
        """An attribute of the socket."""
        return self.process.run(_get, attribute)

    def begin(self, method: str, *arguments: Any) -> Pending:
        """Start a method that may block; the test goes on."""
        return self.process.begin(_call, method, *arguments)

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """`function(sock, ...)` in the other process."""
        return self.process.run(_on_socket, function, *arguments)

    def begin_run(self, function: Callable[..., Any], *arguments: Any) -> Pending:
        """As run(), without waiting for the answer."""
        return self.process.begin(_on_socket, function, *arguments)

    def until_blocked(self) -> None:
        """Return when the other process sleeps in what it was told to begin."""
        self.process.until_blocked()

    def until_asleep(self) -> None:
        """As until_blocked(), when the wait has reached its last stage."""
        self.process.until_asleep()


@dataclass
class Pair:
    """Two ends of one connection. `maker` made them."""

    near: Any
    far: Far
    maker: PairMaker


@dataclass(frozen=True)
class PairMaker:
    """Makes connected pairs of one kind.

    module: name of the module that has `socket`, `create_server` and `create_connection`.
    transport: the value of `sock.transport` at both ends, or None where sockets have no such attribute.
    host: the address to listen on and to connect to.
    near_connects: whether the end in this process is the connecting one.
    far_module, far_transport: as module and transport, if the far end's differ.
    far_host, enter: where the far end is on another host: its address, and what the far process calls first, which
        pickles by name, to enter a namespace for example. Then `host` is this end's address.
    fresh: the far process runs a new interpreter. For a path that a process forked from one that used it cannot take.
    """

    module: str = "socket"
    transport: str | None = None
    host: str = "127.0.0.1"
    near_connects: bool = True
    far_module: str | None = None
    far_transport: str | None = None
    fresh: bool = False
    far_host: str | None = None
    enter: Callable[[], None] | None = None

    def __str__(self) -> str:
        kind = self.transport or "plain"
        if self.far_module:
            kind += f"-{self.far_transport or 'plain'}"
        return f"{kind}-{'connects' if self.near_connects else 'accepts'}"

    @property
    def sockets(self) -> Any:
        """The module under test."""
        return importlib.import_module(self.module)

    def turned(self) -> PairMaker:
        """The same kind of pair with the roles exchanged."""
        return replace(self, near_connects=not self.near_connects)

    def on(self, host: str) -> PairMaker:
        """The same kind of pair at another address."""
        return replace(self, host=host)

    @property
    def away(self) -> PairMaker:
        """This maker as the far process sees it."""
        there = replace(self, host=self.far_host or self.host, far_host=None, enter=None)
        if not self.far_module:
            return there
        return replace(there, module=self.far_module, transport=self.far_transport, far_module=None, far_transport=None)

    def listener(self, backlog: int = 128, port: int = 0) -> Any:
        """A listening socket in this process."""
        family = self.sockets.AF_INET6 if ":" in self.host else self.sockets.AF_INET
        return self.sockets.create_server((self.host, port), family=family, backlog=backlog)

    def connect(self, address: Any, timeout: float | None = None) -> Any:
        """A connection from this process."""
        sock = self.sockets.create_connection(address[:2])
        sock.settimeout(timeout)
        return sock

    def check(self, sock: Any) -> None:
        """AssertionError unless the connection took the path that is being tested, or may gain its memory later."""
        if self.transport is None or sock.transport == self.transport or self.gains_memory(sock):
            return
        raise AssertionError(f"took {sock.transport!r}, not {self.transport!r}: {_explained(sock)}")

    def gains_memory(self, sock: Any) -> bool:
        """Whether it stays TCP and has the path's memory sooner or later."""
        return self.transport == "shm" == self.away.transport and gains_memory(type(sock))

    def settle(self, sock: Any) -> None:
        """As check(). A connection that gains memory gains it now. So the other end must settle at the same time."""
        if self.gains_memory(sock) and not attach(sock, DEADLINE):
            raise AssertionError(f"gained no memory: {_explained(sock)}")
        self.check(sock)

    @contextmanager
    def pair(self) -> Iterator[Pair]:
        """A connected pair; both ends are closed and the other process is ended at the exit."""
        with FarProcess(fresh=self.fresh) as process, ExitStack() as cleaning:
            if self.enter is not None:
                process.run(_enter, self.enter)
            if self.near_connects:
                address = process.run(_listen, self.away)
                accepting = process.begin(_accept, self.away)
                near = cleaning.enter_context(self.connect(address))
                accepting.result()
            else:
                listener = cleaning.enter_context(self.listener())
                connecting = process.begin(_connect, self.away, listener.getsockname())
                near = cleaning.enter_context(listener.accept()[0])
                connecting.result()
                listener.close()
            settling = process.begin(_settle, self.away)
            self.settle(near)
            settling.result()
            yield Pair(near, Far(process), self)

    @contextmanager
    def local(self) -> Iterator[tuple[Any, Any]]:
        """A connected pair with both ends in this process: (connected, accepted)."""
        with self.listener() as listener, ExitStack() as cleaning:
            made: list[Any] = []
            thread = threading.Thread(target=lambda: made.append(self.connect(listener.getsockname())))
            thread.start()
            accepted = cleaning.enter_context(listener.accept()[0])
            thread.join()
            if not made:
                raise AssertionError("connect() failed in its thread")
            connected = cleaning.enter_context(made[0])
            with ThreadPoolExecutor(1) as beside:
                settling = beside.submit(self.settle, accepted)
                self.settle(connected)
                settling.result()
            yield connected, accepted


PLAIN = PairMaker("socket")
"""The reference: what the standard library's sockets do over TCP."""


def _explained(sock: Any) -> object:
    import fastsock

    return fastsock.explain(sock)


def _enter(here: Any, enter: Callable[[], None]) -> None:
    enter()


def _listen(here: Any, maker: PairMaker) -> Any:
    here.listener = maker.listener()
    return here.listener.getsockname()


def _accept(here: Any, maker: PairMaker) -> None:
    here.sock, _ = here.listener.accept()
    here.listener.close()


def _connect(here: Any, maker: PairMaker, address: Any) -> None:
    here.sock = maker.connect(address)


def _settle(here: Any, maker: PairMaker) -> None:
    maker.settle(here.sock)


def _call(here: Any, method: str, *arguments: Any) -> Any:
    return getattr(here.sock, method)(*arguments)


def _get(here: Any, attribute: str) -> Any:
    return getattr(here.sock, attribute)


def _on_socket(here: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    return function(here.sock, *arguments)
