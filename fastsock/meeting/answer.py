"""The accepting end: connects back to the name that the connecting end offered."""

from __future__ import annotations

import _socket
import contextlib
import functools
import posix
from collections.abc import Sequence

from .. import chain
from ..config import settings
from ..system.genuine import genuine
from ..transport import Claim, Reason, Refused, Transport
from . import hello, unix_calls
from .joined import Joined, Unusable, peer_process
from .names import connection_name, is_loopback, packed, ticket, unique
from .waiting import borrowed, bounded_seconds, soon, take_token

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Ends = tuple[tuple[str, int], tuple[str, int]]

_KEEPER_PATIENCE = 5
_TOKEN_FLAGS = posix.EFD_NONBLOCK | posix.EFD_CLOEXEC


def connect_back(
    source: Any, local: Any, paths: Sequence[Transport], reached: tuple[str, int] | None = None
) -> Joined | None:
    """Meets the connecting end of an accepted connection from `source`, over one of `paths`.

    reached: the kind of that end's name, and a stream to it, where one is there already. It is taken over. Returns None
    if that end made no offer. Raises Refused: then both ends stay on TCP.
    """
    ip, port = local[0], local[1]
    key, source_key = packed(ip), packed(source[0])
    if source_key != key and not is_loopback(source[0]):
        raise Refused(Reason.PEER_NOT_LOCAL)
    ends = (source_key, source[1]), (key, port)
    kind, stream = reached or ("", -1)
    if kind == "custody":
        return _met_ahead(*ends, paths, stream)
    streams_first = paths[0].is_stream
    if kind == "stream" or (streams_first and not kind):
        joined = _met_by_stream(ends, paths, stream)
        if joined is not None:
            return joined
    name = connection_name("offer", *ends)
    claim = paths[0].claim(ticket(name, source[1])) if not kind else None
    doorbell = stream if kind == "offer" else -1
    try:
        if doorbell < 0:
            doorbell = unix_calls.reach(name)
        if doorbell >= 0:
            return _met_at(doorbell, claim, source, paths)
        if claim is not None:
            claim.give_up()
        joined = _met_ahead(*ends, paths)
        return _met_by_stream(ends, paths) if joined is None and not streams_first else joined
    except BaseException as error:
        if claim is not None:
            claim.give_up()
        if doorbell >= 0:
            genuine.close(doorbell)
        hung_up = isinstance(error, ConnectionError)
        hung_up = hung_up or (isinstance(error, Refused) and error.reason is Reason.PEER_DID_NOT_JOIN)
        if hung_up and doorbell >= 0:  # perhaps the connecting end has gone ahead
            joined = _met_ahead(*ends, paths)
            if joined is not None:
                return joined
        if isinstance(error, OSError):
            raise Refused.by(error) from error
        raise


def _met_by_stream(ends: Ends, paths: Sequence[Transport], asker: int = -1) -> Joined | None:
    """Meets a connecting end that need not answer: it gets one side of a stream, and this end has moved to the other.

    Until the connecting end takes its side, that lies in a queue. So whatever becomes of that end is told as TCP tells
    it: a stream that is closed before it was accepted would be reset. Returns None if there is no such end. Raises
    Refused.
    """
    doorbell = theirs = -1
    try:
        name = connection_name("stream", *ends)
        if asker < 0:
            asker = unix_calls.reach(name)
        if asker < 0:
            return None
        path = next((path for path in paths if path.is_stream), None)
        if path is None:
            raise Refused(Reason.EXCLUDED_BY_SETTING)
        pid = peer_process(asker)
        theirs, doorbell = unix_calls.pair(unique(name))
        path.prepare(theirs)
        path.prepare(doorbell)
        unix_calls.pass_on(asker, theirs)
    except BaseException as error:
        if doorbell >= 0:
            genuine.close(doorbell)  # unless its side was passed, the connecting end stays on TCP as well
        if isinstance(error, OSError):
            raise Refused.by(error) from error
        raise
    finally:
        for descriptor in (asker, theirs):
            if descriptor >= 0:
                genuine.close(descriptor)
    return Joined(path, None, doorbell, pid, awaited=False)


def _met_ahead(
    source: tuple[str, int], local: tuple[str, int], paths: Sequence[Transport], stream: int = -1
) -> Joined | None:
    """Takes this end's side from a connecting end that went ahead. Returns None if it did not. Raises Refused."""
    try:
        if stream < 0:
            stream = unix_calls.reach(connection_name("custody", source, local))
    except OSError as error:
        raise Refused.by(error) from error
    if stream < 0:
        return None
    passed: list[int] = []
    try:
        pid = peer_process(stream)
        data = borrowed(stream, functools.partial(_receive_kept, passed=passed))
        if not hello.is_whole(data) or len(passed) != 2:
            raise Refused(Reason.PEER_DECLINED, "the other end hung up")
        path_number, _ = hello.unpack(data)
        path = chain.by_number(path_number)
        if path is None or path not in paths:
            raise Refused(Reason.EXCLUDED_BY_SETTING, f"path number {path_number} is not allowed here")
        memory, doorbell = passed
        channel = path.take_over(doorbell, memory, settings(), _text(source), pid)
        borrowed(stream, lambda asker: asker.send(hello.JOIN, _socket.MSG_NOSIGNAL))
        passed.remove(doorbell)
        return Joined(path, channel, doorbell, pid, awaited=False)
    except OSError as error:  # the connecting end died: TCP has the bytes that it sent
        raise Refused.by(error) from error
    finally:
        for descriptor in (stream, *passed):
            genuine.close(descriptor)


def _receive_kept(stream: Any, passed: list[int]) -> bytes:
    """Receives the hello of the thread that waits for this end. Its descriptors go to `passed`. Raises Refused."""
    # That thread needs no lock that others hold: only a stopped process, or an overloaded machine, delays it.
    try:
        deadline = genuine.monotonic() + _KEEPER_PATIENCE * bounded_seconds()
        return soon(lambda: hello.receive(stream, passed), deadline, stream.fileno())  # type: ignore[no-any-return]
    except TimeoutError:
        raise Refused(Reason.PEER_DID_NOT_JOIN, "its process is stopped, or this host is overloaded") from None


def _text(place: tuple[str, int]) -> str:
    family = _socket.AF_INET if len(place[0]) == 8 else _socket.AF_INET6
    return f"{_socket.inet_ntop(family, bytes.fromhex(place[0]))}:{place[1]}"


def _met_at(doorbell: int, claim: Claim | None, source: Any, paths: Sequence[Transport]) -> Joined:
    pid = peer_process(doorbell)
    peer = f"{source[0]}:{source[1]}"
    if claim is not None and claim.pid == pid:
        return Joined(paths[0], claim.join(doorbell, settings(), peer), doorbell, pid, awaited=False)
    if claim is not None:
        claim.give_up()
    reason = Reason.PEER_DECLINED
    for path in paths:
        offer = functools.partial(_offer_path, path, peer=peer, pid=pid)
        try:
            try:
                channel = borrowed(doorbell, offer)
            except Unusable:
                if not path.declined(pid):
                    raise
                channel = borrowed(doorbell, offer)
        except Refused as refused:
            reason = refused.reason
            if reason is Reason.PEER_DID_NOT_JOIN:  # a late answer must not pass for the answer to the next offer
                raise
            chain.log.debug("%s path refused for %s: %s", path.name, source, refused)
            continue
        return Joined(path, channel, doorbell, pid, awaited=False)
    raise Refused(reason)


def _offer_path(path: Any, doorbell: Any, peer: str, pid: int) -> Any:
    """Offers one path and waits the bounded time until the connecting end has joined. Raises Refused or OSError."""
    channel, passed, number = path.offer(doorbell, settings(), peer, pid)
    token = -1
    try:
        token = genuine.eventfd(1, _TOKEN_FLAGS)
        hello.send(doorbell, hello.pack(path.number, number), (token, *passed))
        deadline = genuine.monotonic() + bounded_seconds()
        try:
            if _await_join(doorbell, deadline) == hello.AGAIN:
                doorbell.recv(1)
                raise Unusable(Reason.PEER_DECLINED) if take_token(token) else Refused(Reason.PEER_DECLINED)
        except (TimeoutError, ConnectionError):
            if take_token(token):
                raise Refused(Reason.PEER_DID_NOT_JOIN) from None
            # The other end took the token, and is moving its descriptor. Only a stopped process would take long.
            with contextlib.suppress(TimeoutError, ConnectionError):
                _await_join(doorbell, genuine.monotonic() + 1.0)
        if channel is None:
            # On a bare stream the byte would be payload.
            soon(lambda: doorbell.recv(1), genuine.monotonic() + 1.0, doorbell.fileno())
        else:
            channel.joined()
        return channel
    finally:
        for descriptor in (token, *passed):
            if descriptor >= 0:
                genuine.close(descriptor)


def _await_join(doorbell: Any, deadline: float) -> bytes:
    """Waits for the join byte or hello.AGAIN, and returns it. The byte stays, as the doorbell's first token.

    Raises TimeoutError at the deadline, and ConnectionError if the other end hung up.
    """
    byte: bytes = soon(lambda: doorbell.recv(1, _socket.MSG_PEEK), deadline, doorbell.fileno())
    if not byte:
        raise ConnectionError("the other end hung up")
    return byte
