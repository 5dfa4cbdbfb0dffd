"""Meetings with another host: before TCP connects, and beside it.

The connecting end reaches the other host by the path's own means, and says from which address and port TCP will come.
Then it connects TCP. So the accepting end finds what belongs to a connection that it has accepted.
"""

from __future__ import annotations

import _socket

from .. import chain, core
from ..config import settings
from ..system.originals import originals
from ..transport import Reason, Refused, Transport
from . import history, ports
from .joined import Joined
from .names import WILDCARDS, connection_name, packed, unique
from .waiting import POLLOUT, bounded_seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..transport import Listening, Span

_Base: Any = _socket.socket
_WORD_SECONDS = 5.0  # for the answer to a withdrawal: the other end's thread gives it, whatever its program does
_unheard = history.Backoff(history.MOST_SKIPPED)  # listeners that no path between hosts reaches


class RemoteOffer:
    """A connection to another host that is there before TCP's."""

    still_connecting = Reason.CONNECTS_WITHOUT_WAITING

    def __init__(self, path: Transport, span: Span, source: tuple[str, int], where: tuple[str, int]) -> None:
        self._path = path
        self._span: Span | None = span
        self._source = source
        self._where = where
        self._deadline = 0.0

    def await_tcp(self, sock: Any) -> None:
        """A connect that does not block: waits the bounded time for TCP. The other host has just answered."""
        poller = originals.poll()
        poller.register(_Base.fileno(sock), POLLOUT)
        poller.poll(bounded_seconds() * 1e3)

    def sent(self) -> None:
        self._deadline = originals.monotonic() + bounded_seconds()

    def held(self) -> None:
        """TCP's own descriptor holds the port."""

    def withdraw(self) -> None:
        span, self._span = self._span, None
        if span is not None:
            span.withdraw()

    def answer(self, local: Any, descriptor: int) -> Joined:
        """Waits the bounded time until the other end has accepted.

        descriptor: TCP's. Raises Refused: then both ends stay on TCP. Raises OSError: then the connection is lost.
        """
        span, self._span = self._span, None
        if span is None:
            raise Refused(Reason.CLOSED_BEFORE_MEETING)
        if packed(local[0]) != packed(self._source[0]):  # the other end looks for another one
            span.withdraw()
            raise Refused(Reason.NO_RDMA_ROUTE, f"connected from {local[0]}, not {self._source[0]}")
        left = self._deadline - originals.monotonic()
        if not span.accepted(max(left, 0.0)) and span.withdraw(_WORD_SECONDS):
            history.lapsed(self._where)
            raise Refused(Reason.LISTENER_DID_NOT_ANSWER, "the other host's program did not accept in time")
        history.joined(self._where)
        return _opened(self._path, span, descriptor, self._source, self._where, self._where)


def _opened(path: Transport, span: Span, descriptor: int, source: Any, target: Any, peer: Any) -> Joined:
    """Raises OSError: then the connection is lost, because the other end is on the path already."""
    # The connecting end's doorbell has the name: so whoever gets the number can tell both addresses.
    name = unique(connection_name("kept", (packed(source[0]), source[1]), (packed(target[0]), target[1])))
    pair = core.abstract_pair(name)
    doorbell, other = pair if source is not peer else pair[::-1]
    tcp = -1
    try:
        tcp = _socket.dup(descriptor)
        channel = span.open(doorbell, other, tcp, settings(), f"{peer[0]}:{peer[1]}")
    except OSError:
        for each in (*pair, tcp):
            if each >= 0:
                originals.close(each)
        raise
    return Joined(path, channel, doorbell)


def offer_to(sock: Any, ip: str, port: int) -> tuple[RemoteOffer | None, Reason]:
    """Reaches the listener at `ip` if a path between hosts leads there. Returns the offer, or None and the reason."""
    path, reason = chain.between_hosts("connect", ip, port)
    if path is None:
        return None, reason
    where = (ip, port)
    if _unheard.skips(where):
        return None, Reason.NO_RDMA_LISTENER
    if history.lets_offers_lapse(where):
        return None, Reason.LISTENER_LAPSED_BEFORE
    if sock._fast_watched:
        return None, Reason.DESCRIPTOR_WATCHED
    address, own_port = ports.take(sock)
    source = (_source_towards(ip, port) if address in WILDCARDS else address, own_port)
    try:
        span = path.reach(source, where, bounded_seconds())
    except Refused as refused:
        _unheard.more_rarely(where)
        chain.log.debug("%s path refused for %s: %s", path.name, where, refused)
        return None, refused.reason
    _unheard.always(where)
    return RemoteOffer(path, span, source, where), Reason.JOINED


def _source_towards(ip: str, port: int) -> str:
    """The address that the kernel chooses for connections to `ip`. Nothing is sent."""
    probe = _Base(_socket.AF_INET6 if ":" in ip else _socket.AF_INET, _socket.SOCK_DGRAM)
    try:
        probe.connect((ip, port))
        return str(probe.getsockname()[0])
    finally:
        probe.close()


def listen(local: Any) -> list[Listening]:
    """What the paths between hosts keep for a listener at `local`."""
    path, _ = chain.between_hosts("listen", local[0], local[1])
    if path is None:
        return []
    try:
        return [path.listen(local[0], local[1])]
    except Refused as refused:
        chain.log.debug("%s path refused for the listener at %s: %s", path.name, local, refused)
        return []


def claim(source: Any, local: Any, descriptor: int) -> Joined | None:
    """Takes what another host began for the accepted connection from `source`, or None. descriptor: TCP's."""
    path, _ = chain.between_hosts("listen", local[0], local[1])
    span = None if path is None else path.reached((source[0], source[1]))
    if path is None or span is None:
        return None
    return _opened(path, span, descriptor, source, local, source)
