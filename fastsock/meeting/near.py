"""Meetings with another process of this host, for a path that meets beside TCP (docs/how-to/writing-a-path.md).

A listener's presence says that fastsock listens at an address. A connecting end that finds it listens at a name made
of both addresses, and then connects TCP. The accepting end connects back to that name, and says hello with what its
path passes. A token travels with the hello. One of the two ends takes it: the connecting end by joining, or the
accepting end by giving up. So both ends get the same path, whatever dies or stalls.
"""

from __future__ import annotations

import _socket
import contextlib
import errno
import functools
import posix
from collections.abc import Sequence

from .. import chain
from ..config import settings
from ..system.originals import originals
from ..system.owned_descriptor import OwnedDescriptor
from ..transport import Reason, Refused, Transport
from . import hello, history, ports, presence, unix_calls
from .joined import Joined, peer_process
from .names import WILDCARDS, connection_name, is_local, is_loopback, packed
from .waiting import borrowed, bounded_seconds, soon, take_token

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..transport import Channel

_Base: Any = _socket.socket
_family = _Base.family.__get__  # the plain number
_SOURCE_OF_LOOPBACK = "7f000001"
_TOKEN_FLAGS = posix.EFD_NONBLOCK | posix.EFD_CLOEXEC
_MOVES_WITHIN = 1.0  # seconds for an end that has joined: only a stopped process would take long


# ---- the connecting end ----


class NearOffer:
    """A name at which the accepting end may connect back. Its methods are those of remote.RemoteOffer."""

    still_connecting = Reason.BACKLOG_FULL  # on one host even a connect that does not block is over by now

    def __init__(self, bound: Any, where: tuple[str, int], held: OwnedDescriptor) -> None:
        """bound: the socket's own address. where: that of the listener. held: the holder of the socket's port.

        Raises OSError if the name cannot be made.
        """
        self._where = where
        self._held: OwnedDescriptor | None = held
        self._deadline = 0.0
        target = packed(where[0])
        self._source = packed(bound[0])
        if bound[0] in WILDCARDS:  # the kernel will choose this one
            self._source = _SOURCE_OF_LOOPBACK if target.startswith("7f") else target
        try:
            name = connection_name("offer", (self._source, bound[1]), (target, where[1]))
            self._listener = OwnedDescriptor(unix_calls.listen(name))
        except OSError:
            self.held().close()
            raise

    def await_tcp(self, sock: Any) -> None:
        """There is nothing to wait for: see still_connecting."""

    def sent(self) -> None:
        """Begins the bounded time: from now on the accepting end may find the offer."""
        self._deadline = originals.monotonic() + bounded_seconds()

    def held(self) -> OwnedDescriptor:
        """Gives the holder of the port to the caller. May be called once."""
        held, self._held = self._held, None
        assert held is not None
        return held

    def withdraw(self) -> None:
        """Ends the offer. An accepting end that has connected is hung up on."""
        self._listener.close()
        if self._held is not None:
            self.held().close()

    def answer(self, local: Any, descriptor: int) -> Joined:
        """Waits the bounded time for the accepting end. descriptor: TCP's.

        Raises Refused: then both ends stay on TCP.
        """
        if packed(local[0]) != self._source:  # the accepting end cannot find the name
            raise Refused(Reason.PEER_NOT_LOCAL, f"connected from {local[0]}")
        doorbell = -1
        try:
            doorbell = soon(self._accept, self._deadline, self._listener.number, descriptor)
            joined = self._join(doorbell)
        except BaseException as error:
            if doorbell >= 0:
                originals.close(doorbell)
            if isinstance(error, TimeoutError):
                history.lapsed(self._where)
                raise Refused(Reason.LISTENER_DID_NOT_ANSWER) from None
            if isinstance(error, EOFError):
                raise Refused(Reason.PEER_DECLINED, "the other end closed the connection") from None
            if isinstance(error, OSError):
                raise Refused.by(error) from error
            raise
        history.joined(self._where)
        return joined

    def _accept(self) -> int:
        if not self._listener.is_ours():
            raise OSError(errno.EBADF, originals.strerror(errno.EBADF))
        return unix_calls.accept(self._listener.number)

    def _join(self, doorbell: int) -> Joined:
        """Heeds one hello after the other, until one offers a path that serves."""
        pid = peer_process(doorbell)
        refused: Refused | None = None
        while True:
            passed: list[int] = []
            receive = functools.partial(borrowed, doorbell, functools.partial(hello.receive, passed=passed))
            try:
                data = soon(receive, self._deadline, doorbell)
                if not hello.is_whole(data) or not passed:
                    raise refused or Refused(Reason.PEER_DECLINED, "the other end hung up")
                path, channel = self._heed(doorbell, data, passed[1:], pid)
                if not take_token(passed[0]):
                    raise Refused(Reason.PEER_DID_NOT_JOIN, "the other end stopped waiting first")
                return Joined(path, channel, doorbell, pid, awaited=True)
            except _Unusable as error:
                refused = Refused(error.reason, error.detail)
                with contextlib.suppress(OSError):  # the other end is gone already: the next hello does not come
                    borrowed(doorbell, lambda stream: stream.send(hello.AGAIN, _socket.MSG_NOSIGNAL))
            finally:
                for each in passed:
                    originals.close(each)

    def _heed(self, doorbell: int, data: bytes, passed: list[int], pid: int) -> tuple[Transport, Channel]:
        number, own = hello.unpack(data)
        allowed, reason = chain.beside_tcp("connect", *self._where)
        path = next((path for path in allowed if path.number == number), None)
        if path is None:
            raise _Unusable(Reason.PEER_DECLINED if allowed else reason, f"path number {number} is not allowed here")
        where = f"{self._where[0]}:{self._where[1]}"
        try:
            channel = borrowed(doorbell, lambda stream: path.join(stream, passed, own, settings(), where, pid))
        except Refused as error:
            raise _Unusable(error.reason, error.detail) from error
        return path, channel


class _Unusable(Refused):
    """The offered path cannot serve here. Another one may."""


def offer_to(sock: Any, ip: str, port: int) -> tuple[NearOffer | None, Refused | None]:
    """Makes an offer to the listener at `ip` if a path beside TCP may lead there.

    Returns the offer, or None and the reason. It is (None, None) where settings and rules name no such path. Raises
    OSError.
    """
    paths, reason = chain.beside_tcp("connect", ip, port)
    if not paths:
        return None, None if reason is Reason.JOINED else Refused(reason)
    where, here = (ip, port), is_local(ip, _family(sock))
    if not here or not presence.has_presence(ip, port):
        return None, Refused(Reason.NO_LISTENER_PRESENCE if here else Reason.PEER_NOT_LOCAL)
    if history.lets_offers_lapse(where):
        return None, Refused(Reason.LISTENER_LAPSED_BEFORE)
    if sock._fast_watched:  # a poller follows the open file, and the move closes that file
        return None, Refused(Reason.DESCRIPTOR_WATCHED)
    return NearOffer(ports.take(sock), where, ports.hold(sock)), None


# ---- the accepting end ----


def listen(local: Any, dual_stack: bool) -> list[presence.Presence]:
    """The presence of a listener at `local`, where its connections may take a path beside TCP."""
    paths, _ = chain.beside_tcp("listen", local[0], local[1])
    return presence.announce(local, dual_stack)[0] if paths else []


def claim(source: Any, local: Any) -> Joined | None:
    """Meets the connecting end of an accepted connection from `source`. Returns None if that end made no offer.

    Raises Refused: then both ends stay on TCP.
    """
    paths, _ = chain.beside_tcp("listen", local[0], local[1])
    ends = (packed(source[0]), source[1]), (packed(local[0]), local[1])
    if not paths or (ends[0][0] != ends[1][0] and not is_loopback(source[0])):
        return None
    doorbell = -1
    try:
        doorbell = unix_calls.reach(connection_name("offer", *ends))
        return _met_at(doorbell, source, paths) if doorbell >= 0 else None
    except BaseException as error:
        if doorbell >= 0:
            originals.close(doorbell)
        if isinstance(error, OSError):
            raise Refused.by(error) from error
        raise


def _met_at(doorbell: int, source: Any, paths: Sequence[Transport]) -> Joined:
    pid, peer = peer_process(doorbell), f"{source[0]}:{source[1]}"
    last: Refused | None = None
    for path in paths:
        try:
            channel = borrowed(doorbell, functools.partial(_offer_path, path, peer=peer, pid=pid))
        except _Unusable as refused:
            last = refused
            chain.log.debug("%s path refused for %s: %s", path.name, source, refused)
            continue
        return Joined(path, channel, doorbell, pid, awaited=False)
    assert last is not None
    raise last


def _offer_path(path: Transport, doorbell: Any, peer: str, pid: int) -> Channel:
    """Offers one path and waits the bounded time until the connecting end has joined. Raises Refused or OSError."""
    try:
        channel, passed, number = path.offer(doorbell, settings(), peer, pid)
    except Refused as refused:
        raise _Unusable(refused.reason, refused.detail) from refused
    assert channel is not None
    token = -1
    try:
        token = originals.eventfd(1, _TOKEN_FLAGS)
        hello.send(doorbell, hello.pack(path.number, number), (token, *passed))
        try:
            if _await_answer(doorbell, bounded_seconds()) == hello.AGAIN:
                raise _Unusable(Reason.PEER_DECLINED, "the other end cannot use what this one offered")
        except (TimeoutError, ConnectionError):
            if take_token(token):
                raise Refused(Reason.PEER_DID_NOT_JOIN) from None
            with contextlib.suppress(TimeoutError, ConnectionError):  # it is moving its descriptor
                _await_answer(doorbell, _MOVES_WITHIN)
        return channel
    finally:
        for descriptor in (token, *passed):
            if descriptor >= 0:
                originals.close(descriptor)


def _await_answer(doorbell: Any, seconds: float) -> bytes:
    """Waits for hello.JOIN or hello.AGAIN, and takes it.

    Raises TimeoutError after so long, and ConnectionError if the other end hung up.
    """
    deadline = originals.monotonic() + seconds
    byte: bytes = soon(lambda: doorbell.recv(1), deadline, doorbell.fileno())
    if not byte:
        raise ConnectionError("the other end hung up")
    return byte
