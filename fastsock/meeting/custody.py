"""Connections whose server has not accepted them yet: over shared memory already, and over TCP as well.

Two kinds of connection go ahead: those that may not wait, non-blocking ones above all, and those that have waited long
enough for a busy server. The descriptor becomes the doorbell at once, before anybody can watch it. Each send goes into
the ring and to TCP in the same call. So a server without fastsock misses nothing, and the kernel has every byte
whatever becomes of this process. A server with fastsock takes the ring when it calls accept(), and drops the bytes in
TCP.

One native thread keeps the other end's side (core/stream/custody.c). Where the other end stays on TCP, the thread
becomes the pump between the ring and TCP.
"""

from __future__ import annotations

import contextlib
import os
import sys
import weakref
from collections import deque

from .. import core
from ..config import settings
from ..system.genuine import genuine
from ..system.hidden import Hidden
from ..transport import Reason, Refused
from . import hello, history
from .joined import Joined

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ..transport import Transport
    from .offer import Offer

    Where = tuple[str, int]

_WAIT_SLICE = 2e-4
MOST_LISTENERS = 4096


def is_possible(paths: Sequence[Transport]) -> bool:
    """Whether the first of these paths can go ahead."""
    return bool(paths) and paths[0].shares_memory and core.available


class Kept:
    """One connection in custody, and its state so far."""

    __slots__ = ("__weakref__", "_custody", "_told", "_where", "began", "path")

    def __init__(self, path: str, custody: Any, where: Where) -> None:
        self.path = path
        self.began = genuine.monotonic()
        self._custody = custody
        self._where = where
        self._told = False

    def told(self) -> tuple[str, Reason, int | None]:
        """The path of its bytes now, the reason, and the process at the other end if it is known."""
        state = self._custody.state()
        if state == core.CUSTODY_JOINED:
            return self.path, Reason.JOINED, self._custody.joined_by() or None
        if state == core.CUSTODY_RELAYED:
            return "tcp", Reason.ACCEPTED_BY_OTHERS, None
        return "tcp", Reason.NOT_ACCEPTED_YET, None

    def detail(self) -> str:
        """The server's activity meanwhile, in plain words."""
        state, after = self._custody.state(), f"after {self._custody.lasted() * 1e3:.0f} ms"
        if state == core.CUSTODY_PENDING:
            did = "accepted it, and not connected back" if self._custody.is_accepted() else "not called accept()"
            return f"the server has {did} {after}"
        if state == core.CUSTODY_HANDED:
            return f"the server has called accept() and is about to join, {after}"
        if state == core.CUSTODY_JOINED:
            return f"the server called accept() {after}"
        if state == core.CUSTODY_ENDED:
            return f"it was closed {after}, before the server called accept()"
        if self._custody.is_accepted():
            return f"the server accepted it without fastsock, as was seen {after}"
        return f"the server answered on TCP {after}, or this process gave its descriptor away before"

    def is_decided(self) -> bool:
        """Whether the other end has joined, or never will. If so, the history learns which of the two."""
        state = self._custody.state()
        if state in (core.CUSTODY_PENDING, core.CUSTODY_HANDED):
            return False
        if not self._told:
            self._told = True
            if state == core.CUSTODY_JOINED:
                history.joined(self._where, self._custody.joined_by())
            elif state == core.CUSTODY_RELAYED:
                history.lapsed(self._where)
        return True

    def has_joined(self) -> bool:
        return self.is_decided() and self._custody.state() == core.CUSTODY_JOINED

    def wait(self) -> bool:
        """Waits for the rest of the bounded time. Returns is_decided()."""
        until = self.began + settings().meeting_ms / 1e3
        while not self.is_decided() and genuine.monotonic() < until:
            genuine.sleep(_WAIT_SLICE)
        return self.is_decided()

    def take_back(self, channel: Any) -> bool:
        """Makes the descriptor TCP's again. Returns False if it is too late, or if a poller watches the descriptor."""
        return not channel.is_watched() and self._custody.take_back(channel)

    def held(self) -> Hidden | None:
        """Ends custody of a connection that has joined. Gives the holder of its port to the caller, or None."""
        number = self._custody.take_port()
        return Hidden(number) if number >= 0 else None

    def give_up(self, survives: bool) -> None:
        """Leaves the other end on TCP, unless it has joined.

        survives: the pump goes on after this process has ended.
        """
        if survives:
            self._custody.fork()
        else:
            self._custody.relay()


def begin(offer: Offer, local: Any, peer: Any) -> tuple[Joined, Kept]:
    """Goes ahead with a connection before its TCP socket becomes the doorbell.

    Raises Refused if that is not possible. Then nothing has changed.
    """
    descriptors: list[int] = []
    current, path = settings(), offer.paths[0]
    where = peer[:2]
    try:
        doorbell, other = core.abstract_pair(offer.name_of("kept"))
        descriptors += doorbell, other
        channel, memory = path.begin(doorbell, current, f"{where[0]}:{where[1]}")
        descriptors.append(memory)
        stream = offer.held().number
        descriptors.append(stream)
        listener = offer.listener(local)
        descriptors.append(listener)
        custody = core.Custody(
            channel,
            other,
            memory,
            stream,
            listener,
            connecting=local,
            listening=peer,
            hello=hello.pack(path.number),
            any_user=current.peers == "any",
            patience=current.meeting_ms / 1e3,
        )
    except (OSError, Refused) as error:
        for each in descriptors:
            genuine.close(each)
        raise error if isinstance(error, Refused) else Refused.by(error) from error
    kept = Kept(path.name, custody, where)
    _remember(where, kept)
    return Joined(path, channel, doorbell, 0, awaited=False), kept


# ---- what became of them, before the next connection to the same listener ----

_undecided: dict[Where, deque[weakref.ref[Kept]]] = {}


def _remember(where: Where, kept: Kept) -> None:
    if len(_undecided) > MOST_LISTENERS:
        _undecided.clear()
    _undecided.setdefault(where, deque()).append(weakref.ref(kept))


def learn(where: Where) -> None:
    """Learns from earlier connections to the same listener. Servers mostly accept in order."""
    waiting = _undecided.get(where)
    if waiting is None:
        return
    with contextlib.suppress(IndexError):  # it is empty: this thread or another one has taken the last
        while True:
            reference = waiting.popleft()  # first: threads that connect at the same time look at different ones
            kept = reference()
            if kept is not None and not kept.is_decided():
                waiting.appendleft(reference)
                return
    _undecided.pop(where, None)


# ---- forks ----

_sockets: dict[int, weakref.ref[Any]] = {}


def opened(sock: Any) -> None:
    """`sock` has a connection in custody."""
    reference = weakref.ref(sock, _dropped)
    _sockets[id(reference)] = reference


def _dropped(reference: weakref.ref[Any], is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
    if not is_ending():
        _sockets.pop(id(reference), None)


def _before_fork() -> None:
    """Before a fork: the thread belongs to this process alone, and the child may outlive it."""
    for reference in _sockets.copy().values():  # a copy: other threads connect meanwhile
        sock = reference()
        connection = None if sock is None else sock._fast_connection
        kept = None if connection is None else connection.kept
        if sock is not None and kept is not None and not kept.has_joined():
            sock._fast_leave_custody(survives=True)
    if core.available:  # Python warns of a fork beside threads: a program that started none must not see it
        core.rest_threads()


def _after_fork_in_child() -> None:
    _undecided.clear()


os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)
