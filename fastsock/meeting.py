"""How two ends on one host find each other, beside TCP: names in the abstract UNIX namespace.

A listener's presence says that fastsock listens at an address. A connecting end that finds it offers a name made
from its connection's ports, sends its SYN, and the accepting end connects back to that name. Who takes the token
that travels with the hello decides: the connecting end by joining, or the accepting end by giving up. So both end up
on the same path whatever dies or stalls, and no byte of this is ever seen on the TCP connection.

Two processes that met before need no talk: what the connecting end reserved before its SYN is the token, which the
accepting end takes alone. The connecting end learns of it when its program first uses the socket.

Where the accepting end has not even accepted, or may not be waited for, the connecting end goes ahead (custody.py):
the accepting end connects back to another name, is handed its side, and its one byte in answer is its joining.

DESIGN: the namespace is private to a network namespace, exactly the scope in which an address means one listener.
"""

from __future__ import annotations

import _socket
import binascii
import contextlib
import errno
import functools
import itertools
import posix
import select
import struct
import sys
from _thread import _local
from collections.abc import Callable, Iterator, Sequence

from . import abstract, chain, core, learned
from .config import settings
from .genuine import genuine
from .hidden import Hidden
from .transport import Claim, Reason, Refused, Reservation, Transport

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

Raw = _socket.socket
_DATAGRAM = _socket.SOCK_DGRAM | _socket.SOCK_NONBLOCK | _socket.SOCK_CLOEXEC
_UNIX = _socket.AF_UNIX
_HELLO = struct.Struct("<8sHH4xQ")  # magic, version, the path's number, a number of the path
_MAGIC = b"FASTSOCK"
_VERSION = 2
_JOIN = b"J"
_AGAIN = b"M"  # instead of joining: once more, with everything that the path needs
_DESCRIPTOR_SPACE = _socket.CMSG_SPACE(4 * struct.calcsize("i"))
WILDCARDS = ("0.0.0.0", "::")
_SOURCE_OF_LOOPBACK = "7f000001"
_SPIN_SECONDS = 40e-6
_KEEPER_PATIENCE = 5
_CLAIM_SLICE_MS = 20  # an accepting end that gave up its claim can tell nobody
_WHAT_IT_DID = {
    None: "the server had not connected back {}",
    False: "the server had not called accept() {}",
    True: "the server had accepted it, and not connected back {}",
}
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
_TOKEN_FLAGS = posix.EFD_NONBLOCK | posix.EFD_CLOEXEC
_POLLIN, _POLLRDHUP = select.POLLIN, select.POLLRDHUP


# ---- names ----


@functools.lru_cache(maxsize=4096)
def packed(ip: str) -> str:
    """One text for an address, however it was written; an IPv4 address mapped into IPv6 is the IPv4 one."""
    if ":" not in ip:
        return _socket.inet_pton(_socket.AF_INET, ip).hex()
    raw = _socket.inet_pton(_socket.AF_INET6, ip.partition("%")[0])
    return raw[12:].hex() if raw[:12] == bytes(10) + b"\xff\xff" else raw.hex()


@functools.lru_cache(maxsize=4096)
def _presence_names(ip: str, port: int) -> tuple[bytes, bytes]:
    """Of a listener at that address, and of one at every address."""
    key = packed(ip)
    return _presence_name(key, port), _presence_name("any4" if len(key) == 8 else "any6", port)


def _presence_name(where: str, port: int) -> bytes:
    return b"\0fastsock/1/listen/%s/%d" % (where.encode(), port)


def _connection_name(kind: str, source: tuple[str, int], target: tuple[str, int]) -> bytes:
    """A name that tells both addresses, so that they can be read off the descriptor by whoever gets it."""
    return f"\0fastsock/1/{kind}/{source[0]}/{source[1]}/{target[0]}/{target[1]}".encode()


def _ticket(name: bytes, port: int) -> int:
    """The number by which both ends know a reservation, from the offer's name and the connecting end's port."""
    return binascii.crc32(name) << 16 | port


def _address(key: str, port: str, family: int) -> tuple[Any, ...]:
    raw = bytes.fromhex(key)
    if family == _socket.AF_INET:
        return _socket.inet_ntop(family, raw), int(port)
    return _socket.inet_ntop(family, raw if len(raw) == 16 else bytes(10) + b"\xff\xff" + raw), int(port), 0, 0


def addresses_of(descriptor: int, family: int) -> tuple[Any, Any] | None:
    """(local, peer) of the TCP connection that became this UNIX stream socket, or None where it is none of ours."""
    stream = Raw(_UNIX, _socket.SOCK_STREAM, 0, descriptor)
    try:
        own, other = stream.getsockname(), stream.getpeername()
    except OSError:  # not connected
        return None
    finally:
        stream.detach()
    for name, is_source in ((own, True), (other, False)):
        if not isinstance(name, bytes) or not name.startswith(b"\0fastsock/1/"):
            continue
        try:
            kind, source, source_port, target, target_port = name.decode().split("/")[2:7]
            if family == _socket.AF_UNSPEC:
                family = _socket.AF_INET if len(target) == 8 else _socket.AF_INET6
            ends = _address(source, source_port, family), _address(target, target_port, family)
        except (ValueError, OSError):
            return None
        return ends if is_source or kind == "bridge" else (ends[1], ends[0])
    return None


_bridges = itertools.count()


def name_bridge(stream: Any, local: Any, peer: Any) -> None:
    """Lets the fresh stream socket of a bridge tell the connection's addresses, as a doorbell does."""
    name = _connection_name("bridge", (packed(local[0]), local[1]), (packed(peer[0]), peer[1]))
    with contextlib.suppress(OSError):  # only a later owner of the descriptor would miss it
        stream.bind(b"%s/%d.%d" % (name, genuine.getpid(), next(_bridges)))


def is_numeric(host: Any) -> bool:
    """Whether it is an address, and not a name for one."""
    try:
        packed(host)
    except (OSError, TypeError, ValueError):
        return False
    return True


def is_loopback(ip: str) -> bool:
    return ip.startswith("127.") or ip == "::1" or ip.startswith("::ffff:127.")


def is_local(ip: str, family: int) -> bool:
    """Whether the kernel reaches `ip` without leaving this host: then it sends from that very address."""
    if is_loopback(ip):
        return True
    probe = Raw(family, _DATAGRAM)
    try:
        probe.connect((ip, 9))
        return packed(probe.getsockname()[0]) == packed(ip)
    except OSError:
        return False
    finally:
        probe.close()


# ---- presence ----


class Presence:
    """A bound presence name, held until closed or dropped."""

    def __init__(self, name: bytes) -> None:
        """Raises OSError; EADDRINUSE where another listener at the address holds the name."""
        self._holder: Hidden | None = None
        holder = Raw(_UNIX, _DATAGRAM)
        try:
            holder.bind(name)
        except BaseException:
            holder.close()
            raise
        # a listener that is dropped warns by itself; this must not warn again
        self._holder = Hidden(holder.detach())

    def close(self) -> None:
        if self._holder is not None:
            self._holder.close()

    def is_held(self) -> bool:
        """Whether the program has not closed it behind our back."""
        return self._holder is not None and self._holder.is_ours()

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_ending():  # else what this module knows may be gone, and the kernel closes
            self.close()

    def identity(self) -> tuple[int, int]:
        """Descriptor and inode."""
        assert self._holder is not None
        return self._holder.number, self._holder.inode


def announce(local: Any, dual_stack: bool) -> tuple[list[Presence], bool]:
    """Binds the presence names of a listener at `local`; somebody else's is as good. Also whether all are ours."""
    ip, port = local[0], local[1]
    if ip == "0.0.0.0":
        places = ["any4"]
    elif ip == "::":
        places = ["any6", "any4"] if dual_stack else ["any6"]
    else:
        places = [packed(ip)]
    held = []
    for place in places:
        with contextlib.suppress(OSError):
            held.append(Presence(_presence_name(place, port)))
    return held, len(held) == len(places)


def has_presence(ip: str, port: int) -> bool:
    """Whether a listener at that address, or at every address of its port, says that it is ours.

    It is told that somebody asked, so that it looks for offers only where there may be some.
    """
    exact, anywhere = _presence_names(ip, port)
    return abstract.knock(exact) or abstract.knock(anywhere)


# ---- who may ----


def _peer_process(doorbell: int) -> int:
    """The other end's process, 0 where its number means nothing here: in a PID namespace that this one cannot see.

    Raises Refused.
    """
    pid, user = abstract.peer(doorbell)
    if not _is_welcome(user):
        raise Refused(Reason.OTHER_USER, f"user {user}")
    return pid


def _is_welcome(user: int) -> bool:
    return abstract.is_own_user(user) or settings().peers == "any"


class Joined:
    """What a meeting gave: the path, its channel (None: the doorbell is the stream), the doorbell, the other's pid.

    awaited: the accepting end waits for confirm().
    """

    __slots__ = ("awaited", "channel", "doorbell", "path", "pid")

    def __init__(self, path: Any, channel: Any, doorbell: int, pid: int, awaited: bool) -> None:
        self.path = path
        self.channel = channel
        self.doorbell = doorbell
        self.pid = pid
        self.awaited = awaited


def confirm(joined: Joined, stream: Any) -> None:
    """The connecting end's last word, over `stream`, to which the doorbell has moved.

    Not before: once the accepting end returns, other threads may use the connecting socket too.
    """
    if not joined.awaited:
        return
    # an accepting end that died meanwhile is found dead by the first receive
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        if joined.channel is None:
            Raw.send(stream, _JOIN, _socket.MSG_NOSIGNAL)
        else:
            joined.channel.knock()


class _Unusable(Refused):
    """What was offered cannot serve here: something else may."""


def refused_by(error: OSError) -> Refused:
    reason = Reason.NO_DESCRIPTORS if error.errno in _NO_DESCRIPTORS else Reason.SYSTEM_ERROR
    return Refused(reason, str(error))


# ---- the connecting end ----


class Offer:
    """A name at which the accepting end may connect back. Made before the SYN is sent, closed after the answer."""

    def __init__(
        self, bound: Any, ip: str, port: int, paths: Sequence[Transport], ahead: bool, held: Hidden
    ) -> None:
        """`bound` is where the socket is bound, ip and port what it will connect to. Raises Refused.

        ahead: this end goes ahead, and never waits. held: what holds its port, closed where the offer is withdrawn.
        """
        self._held: Hidden | None = held
        self._where = (ip, port)
        self._ahead = ahead
        self.paths = paths
        self._reservation: Reservation | None = None
        self._listener = self._doorbell = -1
        self._sent_at = self._deadline = 0.0
        target = packed(ip)
        self._source = packed(bound[0])
        if bound[0] in WILDCARDS:  # what the kernel will choose
            self._source = _SOURCE_OF_LOOPBACK if target.startswith("7f") else target
        self._ends = (self._source, bound[1]), (target, port)
        name = _connection_name("custody" if ahead else "offer", *self._ends)
        self._pid = 0 if ahead else learned.who_accepts(self._where)
        if self._pid:
            for path in paths:
                self._reservation = path.reserve(self._pid, _ticket(name, bound[1]))
                if self._reservation is not None:
                    self._path = path
                    break
        try:
            self._listener = abstract.listen(name)
            self._hidden = Hidden(self._listener)
        except OSError as error:
            self.withdraw()
            raise refused_by(error) from error

    @property
    def is_reserved(self) -> bool:
        """Whether the accepting end need not wait for the answer."""
        return self._reservation is not None

    def sent(self) -> None:
        """From now on the accepting end may find it: the bounded time begins."""
        self._sent_at = genuine.monotonic()
        self._deadline = self._sent_at + _bounded_seconds()

    @property
    def goes_ahead(self) -> bool:
        """Whether this end need not wait for anybody: what it goes ahead with can be handed over at any time."""
        return self._ahead

    def listener(self, local: Any) -> int:
        """Gives away the descriptor of the listener at the offer's name. Raises Refused."""
        if packed(local[0]) != self._source:  # the accepting end cannot find the name
            raise Refused(Reason.PEER_NOT_LOCAL, f"connected from {local[0]}")
        listener, self._listener = self._listener, -1
        return listener

    def name_of(self, what: str) -> bytes:
        """A name that nothing else has, from which both addresses of the connection can be told."""
        return b"%s/%d.%d" % (_connection_name(what, *self._ends), genuine.getpid(), next(_bridges))

    def withdraw(self) -> bool:
        """Ends the offer, unless the accepting end claimed what was reserved; whether it ended."""
        if self._reservation is not None:
            if not self._reservation.withdraw():
                return False
            self._reservation = None
        self._close()
        self._let_port_go()
        return True

    def abandon(self) -> None:
        """In a forked child: the parent's meeting goes on without it."""
        self._reservation = None
        self._close()
        self._let_port_go()

    def held(self) -> Hidden:
        """Gives away what holds the port, once."""
        held, self._held = self._held, None
        assert held is not None
        return held

    def _let_port_go(self) -> None:
        if self._held is not None:
            self.held().close()

    def _close(self) -> None:
        if self._listener >= 0:
            self._hidden.close()
        if self._doorbell >= 0:
            genuine.close(self._doorbell)
        self._listener = self._doorbell = -1

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_ending():
            self.withdraw()
            self._close()
            self._let_port_go()

    def answer(self, local: Any, descriptor: int, may_go_ahead: bool = False) -> Joined | None:
        """Waits the bounded time for the accepting end. Raises Refused: then both ends stay on TCP.

        None, if that is allowed: it has not accepted the connection yet, and this end goes ahead.
        descriptor is the TCP socket's, which is lost where this raises OSError. An exception of a signal handler leaves
        a reserved offer as it was, to be called again.
        """
        try:
            if packed(local[0]) != self._source:  # the accepting end cannot find the name
                raise Refused(Reason.PEER_NOT_LOCAL, f"connected from {local[0]}")
            joined = self._meet(descriptor, local, may_go_ahead)
            if joined is None:
                return None
        except (OSError, Refused) as error:
            if not self.withdraw() or isinstance(error, Refused):
                raise
            raise refused_by(error) from error
        self._doorbell = -1
        self._reservation = None
        self._close()
        learned.joined(self._where, joined.pid)
        return joined

    def _meet(self, descriptor: int, local: Any, may_go_ahead: bool) -> Joined | None:
        reservation, late, failure = self._reservation, False, 0
        if self._doorbell < 0 and (reservation is None or not reservation.is_claimed()):
            try:
                self._doorbell = _soon(self._accept, self._deadline, self._listener, descriptor)
            except TimeoutError:
                late = True
            except EOFError:
                failure = errno.ECONNRESET
            except OSError as error:
                failure = error.errno or errno.EIO
        ahead = -1
        accepted = core.accepted(local, self._where) if late and core.available else None
        if accepted is False and may_go_ahead:
            ahead = abstract.listen(_connection_name("custody", *self._ends))
        if reservation is not None:
            # a doorbell without a claim is that of an accepting end that knows nothing of the reserved
            if not reservation.withdraw(useless=self._doorbell >= 0):
                if ahead >= 0:
                    genuine.close(ahead)
                return self._as_reserved(reservation, descriptor)
            self._reservation = None
        if ahead >= 0:
            # whoever connected back to the first name meanwhile is hung up on, and tries the other one
            self._hidden.close()
            self._listener, self._hidden, self._ahead = ahead, Hidden(ahead), True
            return None
        if late:
            learned.lapsed(self._where)
            after = f"after {(genuine.monotonic() - self._sent_at) * 1e3:.0f} ms"
            raise Refused(Reason.LISTENER_DID_NOT_ANSWER, _WHAT_IT_DID[accepted].format(after))
        if failure:
            raise OSError(failure, genuine.strerror(failure))
        return self._join()

    def _accept(self) -> int:
        if not self._hidden.is_ours():
            raise OSError(errno.EBADF, genuine.strerror(errno.EBADF))
        return abstract.accept(self._listener)

    def _as_reserved(self, reservation: Reservation, descriptor: int) -> Joined:
        """The accepting end decided, and connects right then: nothing here may fail any more, except by its death."""
        while self._doorbell < 0 or not self._is_awaited(self._doorbell):
            if self._doorbell >= 0:
                genuine.close(self._doorbell)
                self._doorbell = -1
            try:
                self._doorbell = self._accept()
            except BlockingIOError:
                if not reservation.is_claimed():
                    self.withdraw()
                    raise Refused(Reason.PEER_DECLINED, "the other end could not connect back") from None
                if not _comes_first(self._listener, descriptor, self._pid):
                    self._reservation = None
                    raise Refused(Reason.PEER_DID_NOT_JOIN, "the other end is gone") from None
            except OSError as error:
                if error.errno not in _NO_DESCRIPTORS:
                    raise
                self._doorbell = self._accept_without_spare(descriptor)
        if not reservation.is_claimed():  # given up meanwhile: it goes on as with anybody
            reservation.withdraw()
            self._reservation = None
            return self._join()
        channel = reservation.join(self._doorbell, settings(), f"{self._where[0]}:{self._where[1]}")
        return Joined(self._path, channel, self._doorbell, self._pid, awaited=False)

    def _is_awaited(self, doorbell: int) -> bool:
        """Whether it is of the process that claimed, as the user that it was when the two met."""
        pid, user = abstract.peer(doorbell)
        return pid == self._pid and _is_welcome(user)

    def _accept_without_spare(self, descriptor: int) -> int:
        """The TCP socket is done with: its number serves the listener, and the listener's the doorbell."""
        genuine.dup2(self._listener, descriptor, False)
        self._hidden.close()
        self._listener = -1
        give_up_at = genuine.monotonic() + 1.0
        while True:
            try:
                return abstract.accept(descriptor)
            except OSError as error:  # another thread was faster
                if error.errno not in _NO_DESCRIPTORS or genuine.monotonic() > give_up_at:
                    raise
                genuine.sleep(1e-3)

    def _join(self) -> Joined:
        pid = _peer_process(self._doorbell)
        refused: Refused | None = None
        while True:
            try:
                return self._try_join(pid, refused)
            except _Unusable as error:
                refused = Refused(error.reason, error.detail)
                with contextlib.suppress(OSError):  # gone already: the next hello does not come
                    _borrowed(self._doorbell, lambda stream: stream.send(_AGAIN, _socket.MSG_NOSIGNAL))

    def _try_join(self, pid: int, refused: Refused | None) -> Joined:
        """refused: why what was offered before could not serve."""
        doorbell = self._doorbell
        passed: list[int] = []

        def receive() -> Any:
            space = _DESCRIPTOR_SPACE
            return _borrowed(doorbell, lambda stream: stream.recvmsg(_HELLO.size, space, _socket.MSG_CMSG_CLOEXEC))

        try:
            data, ancillary, _, _ = _soon(receive, self._deadline, doorbell)
            for level, kind, content in ancillary:
                if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
                    passed.extend(struct.unpack(f"{len(content) // 4}i", content[: len(content) // 4 * 4]))
            return self._heed(data, passed, pid, refused)
        except TimeoutError:
            raise refused or Refused(Reason.LISTENER_DID_NOT_ANSWER) from None
        finally:
            for descriptor in passed:
                genuine.close(descriptor)

    def _heed(self, hello: bytes, passed: list[int], pid: int, refused: Refused | None) -> Joined:
        if len(hello) != _HELLO.size or not passed:
            raise refused or Refused(Reason.PEER_DECLINED, "the other end hung up")
        magic, version, path_number, number = _HELLO.unpack(hello)
        if magic != _MAGIC or version != _VERSION:
            raise Refused(Reason.PEER_VERSION, f"version {version}")
        path = chain.by_number(path_number)
        allowed, reason = chain.candidates("connect", *self._where)
        if path is None or path not in allowed:
            raise Refused(Reason.PEER_DECLINED if allowed else reason, f"path {path_number} is not allowed here")
        token, memory_descriptors = passed[0], passed[1:]
        where = f"{self._where[0]}:{self._where[1]}"
        try:
            channel = _borrowed(
                self._doorbell, lambda stream: path.join(stream, memory_descriptors, number, settings(), where, pid)
            )
        except Refused as error:
            raise _Unusable(error.reason, error.detail) from error
        if not _take(token):
            raise Refused(Reason.PEER_DID_NOT_JOIN, "the other end gave up first")
        return Joined(path, channel, self._doorbell, pid, awaited=True)


# ---- the accepting end ----


def connect_back(source: Any, local: Any, paths: Sequence[Transport]) -> Joined | None:
    """Meets the connecting end of an accepted connection from `source`, over one of `paths`, or None: it made no offer.

    Raises Refused.
    """
    ip, port = local[0], local[1]
    key, source_key = packed(ip), packed(source[0])
    if source_key != key and not is_loopback(source[0]):
        raise Refused(Reason.PEER_NOT_LOCAL)
    name = _connection_name("offer", (source_key, source[1]), (key, port))
    claim = paths[0].claim(_ticket(name, source[1]))
    doorbell = -1
    try:
        doorbell = abstract.reach(name)
        if doorbell >= 0:
            return _met_at(doorbell, claim, source, paths)
        if claim is not None:
            claim.give_up()
        return _met_ahead((source_key, source[1]), (key, port), paths)
    except BaseException as error:
        if claim is not None:
            claim.give_up()
        if doorbell >= 0:
            genuine.close(doorbell)
        hung_up = isinstance(error, ConnectionError)
        hung_up = hung_up or (isinstance(error, Refused) and error.reason is Reason.PEER_DID_NOT_JOIN)
        if hung_up and doorbell >= 0:  # perhaps to go ahead
            joined = _met_ahead((source_key, source[1]), (key, port), paths)
            if joined is not None:
                return joined
        if isinstance(error, OSError):
            raise refused_by(error) from error
        raise


def _met_ahead(source: tuple[str, int], local: tuple[str, int], paths: Sequence[Transport]) -> Joined | None:
    """Takes what a connecting end that went ahead has kept for us, if there is one. Raises Refused."""
    try:
        stream = abstract.reach(_connection_name("custody", source, local))
    except OSError as error:
        raise refused_by(error) from error
    if stream < 0:
        return None
    passed: list[int] = []
    try:
        pid = _peer_process(stream)
        data = _borrowed(stream, functools.partial(_receive_kept, passed=passed))
        if len(data) != _HELLO.size or len(passed) != 2:
            raise Refused(Reason.PEER_DECLINED, "the other end hung up")
        magic, version, path_number, _ = _HELLO.unpack(data)
        path = chain.by_number(path_number)
        if magic != _MAGIC or version != _VERSION:
            raise Refused(Reason.PEER_VERSION, f"version {version}")
        if path is None or path not in paths:
            raise Refused(Reason.EXCLUDED_BY_SETTING, f"path {path_number} is not allowed here")
        memory, doorbell = passed
        channel = path.take_over(doorbell, memory, settings(), _text(source), pid)
        _borrowed(stream, lambda asker: asker.send(_JOIN, _socket.MSG_NOSIGNAL))
        passed.remove(doorbell)
        return Joined(path, channel, doorbell, pid, awaited=False)
    except OSError as error:  # it died: what it had sent is on TCP
        raise refused_by(error) from error
    finally:
        for descriptor in (stream, *passed):
            genuine.close(descriptor)


def _receive_kept(stream: Any, passed: list[int]) -> bytes:
    """The message of a thread that is waiting for us; what travels with it goes to `passed`. Raises Refused."""

    def receive() -> Any:
        return stream.recvmsg(_HELLO.size, _DESCRIPTOR_SPACE, _socket.MSG_CMSG_CLOEXEC)

    # its thread needs no lock of anybody: only a stopped process, or a machine with too much to do, keeps us waiting
    try:
        data, ancillary, _, _ = _soon(
            receive, genuine.monotonic() + _KEEPER_PATIENCE * _bounded_seconds(), stream.fileno()
        )
    except TimeoutError:
        raise Refused(Reason.PEER_DID_NOT_JOIN, "its process does not run") from None
    for level, kind, content in ancillary:
        if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
            passed.extend(struct.unpack(f"{len(content) // 4}i", content[: len(content) // 4 * 4]))
    return bytes(data)


def kept_hello(path: Any) -> bytes:
    """What a connecting end that goes ahead over `path` says to whoever connects back."""
    return _HELLO.pack(_MAGIC, _VERSION, path.number, 0)


def _text(place: tuple[str, int]) -> str:
    family = _socket.AF_INET if len(place[0]) == 8 else _socket.AF_INET6
    return f"{_socket.inet_ntop(family, bytes.fromhex(place[0]))}:{place[1]}"


def has_patience() -> bool:
    """Whether this thread knows that the other end will come, and waits for it."""
    return getattr(_patience, "seconds", None) is not None


def _met_at(doorbell: int, claim: Claim | None, source: Any, paths: Sequence[Transport]) -> Joined:
    pid = _peer_process(doorbell)
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
                channel = _borrowed(doorbell, offer)
            except _Unusable:
                if not path.declined(pid):
                    raise
                channel = _borrowed(doorbell, offer)
        except Refused as refused:
            reason = refused.reason
            if reason is Reason.PEER_DID_NOT_JOIN:  # its late answer must not be taken for one to the next offer
                raise
            chain.log.debug("%s path refused for %s: %s", path.name, source, refused)
            continue
        return Joined(path, channel, doorbell, pid, awaited=False)
    raise Refused(reason)


def _offer_path(path: Any, doorbell: Any, peer: str, pid: int) -> Any:
    """Offers one path and waits the bounded time until the connecting end joined. Raises Refused or OSError."""
    channel, passed, number = path.offer(doorbell, settings(), peer, pid)
    token = -1
    try:
        token = genuine.eventfd(1, _TOKEN_FLAGS)
        rights = struct.pack(f"{1 + len(passed)}i", token, *passed)
        hello = _HELLO.pack(_MAGIC, _VERSION, path.number, number)
        doorbell.sendmsg([hello], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)], _socket.MSG_NOSIGNAL)
        deadline = genuine.monotonic() + _bounded_seconds()
        try:
            if _await_join(doorbell, deadline) == _AGAIN:
                doorbell.recv(1)
                raise _Unusable(Reason.PEER_DECLINED) if _take(token) else Refused(Reason.PEER_DECLINED)
        except (TimeoutError, ConnectionError):
            if _take(token):
                raise Refused(Reason.PEER_DID_NOT_JOIN) from None
            # it joined, and is moving its descriptor: only a stopped process would take long
            with contextlib.suppress(TimeoutError, ConnectionError):
                _await_join(doorbell, genuine.monotonic() + 1.0)
        if channel is None:
            # on a bare stream the byte must not be taken for payload
            _soon(lambda: doorbell.recv(1), genuine.monotonic() + 1.0, doorbell.fileno())
        return channel
    finally:
        for descriptor in (token, *passed):
            if descriptor >= 0:
                genuine.close(descriptor)


def _await_join(doorbell: Any, deadline: float) -> bytes:
    """The join byte, or _AGAIN; it stays, as the doorbell's first token. Raises TimeoutError, ConnectionError."""
    byte: bytes = _soon(lambda: doorbell.recv(1, _socket.MSG_PEEK), deadline, doorbell.fileno())
    if not byte:
        raise ConnectionError("the other end hung up")
    return byte


# ---- waiting ----

_patience = _local()


@contextlib.contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Inside, meetings of this thread may last so long: for whoever knows that the other end is ours and will come."""
    before = getattr(_patience, "seconds", None)
    _patience.seconds = seconds
    try:
        yield
    finally:
        _patience.seconds = before


def _bounded_seconds() -> float:
    own: float | None = getattr(_patience, "seconds", None)
    return settings().meeting_ms / 1e3 if own is None else own


def has_hung_up(stream: Any) -> bool:
    """Whether the other end of a UNIX stream is closed or shut its writing half."""
    poller = genuine.poll()
    poller.register(Raw.fileno(stream), _POLLRDHUP)
    return bool(poller.poll(0))


def _take(token: int) -> bool:
    try:
        genuine.read(token, 8)
    except BlockingIOError:
        return False
    return True


def _comes_first(listener: int, stream: int, pid: int) -> bool:
    """Waits a while for a connection at `listener`; False where `stream` or the process ended instead."""
    poller = genuine.poll()
    poller.register(listener, _POLLIN)
    poller.register(stream, _POLLRDHUP)
    process = -1
    try:
        process = genuine.pidfd_open(pid)  # a child of it may hold the stream open
        poller.register(process, _POLLIN)
    except ProcessLookupError:
        return False
    except OSError:  # an old kernel, or no descriptor now
        pass
    try:
        found = poller.poll(_CLAIM_SLICE_MS)
    finally:
        if process >= 0:
            genuine.close(process)
    return not found or any(descriptor == listener for descriptor, _ in found)


def _borrowed(descriptor: int, action: Callable[[Any], Any]) -> Any:
    """What `action` gives for a socket object over the non-blocking UNIX stream `descriptor`."""
    stream = Raw(_UNIX, _socket.SOCK_STREAM, 0, descriptor)
    try:
        stream.settimeout(0)
        return action(stream)
    finally:
        stream.detach()


def _soon(attempt: Any, deadline: float, descriptor: int, stream: int = -1) -> Any:
    """The result of the non-blocking `attempt`: tried in a short spin, then whenever `descriptor` becomes readable.

    The other end is mostly in the middle of answering, so that a sleep costs more than the whole meeting.
    Raises TimeoutError, and EOFError where the other end of `stream` hung up meanwhile.
    """
    spin_until = genuine.monotonic() + _SPIN_SECONDS
    while True:
        try:
            return attempt()
        except BlockingIOError:
            pass
        now = genuine.monotonic()
        if now < spin_until:
            continue
        if now >= deadline:
            raise TimeoutError
        poller = genuine.poll()
        poller.register(descriptor, _POLLIN)
        if stream >= 0:
            poller.register(stream, _POLLRDHUP)
        found = poller.poll((deadline - now) * 1e3)
        if [each for each, _ in found] == [stream]:
            raise EOFError
