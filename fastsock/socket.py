"""Drop-in for the standard module `socket`: the same names, and a class whose TCP streams take the fastest path.

    from fastsock import socket

Everything that the standard module exports is here. `socket`, `SocketType`, `create_connection`, `create_server`,
`socketpair` and `fromfd` make sockets of the fast class, which adds `transport`, `send_array`, `recv_array` and
`recv_array_into`.
"""

from __future__ import annotations

import _socket
import contextlib
import errno
import socket as _standard
import struct
import sys
import types
import weakref

from . import arrays, chain, core, unix
from .config import settings
from .connection import channel_calls, connecting, fallback, foreign, registry, repeated, tcp_options
from .connection.pending import Pending
from .meeting import answer, custody, history, names, ports, presence, waiting
from .meeting.joined import Joined, confirm
from .patching import detached, guards, numbers, release
from .system.genuine import genuine
from .transport import Reason, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .meeting.offer import Offer
    from .meeting.remote import RemoteOffer
    from .transport import Channel, Transport

_Base: Any = _socket.socket
if TYPE_CHECKING:
    _Plain = _standard.socket
else:  # also where a fast class stands in its place
    _Plain = _standard.socket.__mro__[_standard.socket.__mro__.index(_Base) - 1]
_NOTHING: Any = contextlib.nullcontext()
# These give plain numbers. The properties of the standard class make a member of an enumeration each time.
_family, _kind, _proto = _Base.family.__get__, _Base.type.__get__, _Base.proto.__get__
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_FAST_OPEN, _CLOSE_ON_EXEC = 0x20000000, 0x40000000  # MSG_FASTOPEN, MSG_CMSG_CLOEXEC
_HALVES = (_socket.SHUT_RD, _socket.SHUT_WR, _socket.SHUT_RDWR)
_STREAM_KINDS = (_socket.AF_INET, _socket.AF_INET6)
_TCP_PROTOCOLS = (0, _socket.IPPROTO_TCP)
# These modules ask for the descriptor of a socket that is not connected yet. They watch it later, or only show it.
# asyncore is none of them: a dispatcher of another class gives the number to its poller before it connects.
_ONLY_NOTES = ("asyncio.selector_events", "asyncio.base_events", "asyncio.trsock", "socket", __name__)
# Bound straight onto a connected socket, so that a call costs no Python frame.
_BOUND = ("recv", "recv_into", "send", "sendall")


def _hear_other_hosts(local: Any) -> Any:
    """What hears of connecting ends on other hosts for a listener at `local`."""
    if chain.between_hosts("listen", local[0], local[1])[0] is None:
        return ()
    from .meeting import remote  # most hosts have no device for it

    return remote.listen(local)


class socket(_Plain):
    """A socket of the standard class whose TCP stream takes the fastest path that both ends share.

    Everything of `socket.socket` keeps its meaning. An error of a path names the path and the other end.

    With the native core, `fallback.bind_class` puts the calls of `connection/_fallback.pyx` over `connect`, `accept`,
    `recv`, `send`, `close` and their kin. These serve a connection that stays on TCP, and lead to the calls here for
    any other one. `repeated.bind_class` does the same for connections of processes that met before
    (`connection/_repeated.pyx`). A connected socket has `recv`, `recv_into`, `send` and `sendall` of its channel, bound
    onto itself.
    """

    __slots__ = ("__dict__", "_fast_held_channel", "_fast_held_connection")

    _fast_channel: Channel | None = fallback.Held("_fast_channel")  # type: ignore[assignment]  # a descriptor
    _fast_connection: Any = fallback.Held("_fast_connection")  # registry.Connection or None
    _fast_pending: Pending | None = None
    _fast_opened: Transport | None = None  # the path that made the descriptor, in place of TCP
    _fast_presence: list[Any] | None = None  # while it listens on TCP
    _fast_hears: Any = ()  # meanwhile, what hears of connecting ends on other hosts
    _fast_listening: Any = None  # fallback.listening(): about the connections that it will accept
    _fast_listens_at: Any = None  # the local address of all connections that it accepts, where they share one
    _fast_options: dict[tuple[int, int], Any] | None = None
    _fast_pretended = False
    _fast_shut = False
    _fast_in_progress = False
    _fast_watched = False
    _fast_accepts = 0
    _fast_is_unsigned = False  # a listener that the next accept() signs

    def __init__(self, family: int = -1, type: int = -1, proto: int = -1, fileno: int | None = None) -> None:
        _Plain.__init__(self, family, type, proto, fileno)
        if fileno is None:
            return
        # whoever gave the number may have registered it; ssl takes it over from another socket
        self._fast_watched = not foreign.takes_descriptor(self)
        if type in (-1, _socket.SOCK_STREAM):
            self._fast_recognise(family, proto, fileno)
            if self._fast_is_tcp_stream() and _Base.getsockopt(self, _socket.SOL_SOCKET, _socket.SO_ACCEPTCONN):
                self._fast_announce()

    # ---- what it is ----

    @property
    def transport(self) -> str:
        """The path that the bytes take: "shm", "unix", "sdp" or "tcp". It is "plain" for anything but a TCP stream."""
        connection: registry.Connection | None = self._fast_connection
        if connection is not None:
            registry.look_again(connection)
            kept = connection.kept  # once: another thread may settle it
            return connection.transport if kept is None else kept.told()[0]
        return "tcp" if self._fast_is_tcp_stream() else "plain"

    def _fast_is_tcp_stream(self) -> bool:
        return (
            _family(self) in _STREAM_KINDS
            and _kind(self) & 0xF == _socket.SOCK_STREAM
            and _proto(self) in _TCP_PROTOCOLS
        )

    # ---- listening ----

    def listen(self, *backlog: int) -> None:
        if chain.may_open() and self._fast_is_tcp_stream():
            self._fast_open_instead("listen", _Base.getsockname(self))
        _Base.listen(self, *backlog)
        if self._fast_presence is None and self._fast_is_tcp_stream():
            self._fast_announce(first=True)

    def _fast_announce(self, first: bool = False) -> None:
        local = _Base.getsockname(self)
        self._fast_listens_at = local if local[0] not in names.WILDCARDS else None
        if first or not self._fast_hears:
            self._fast_hears = _hear_other_hosts(local)
        paths, reason = chain.candidates("listen", local[0], local[1])
        if self._fast_opened is not None:
            self._fast_presence = presence.announce(local, self._fast_is_dual())[0] if paths else []
            return  # native code accepts for TCP only
        self._fast_is_unsigned = bool(paths) and core.available
        if not paths:
            chain.log.debug("listener at %s stays on tcp: %s", local, reason)
            self._fast_presence, complete = [], False
        else:
            self._fast_presence, complete = presence.announce(local, self._fast_is_dual())
        if not self._fast_hears:  # else each accept asks
            why = None if paths else reason
            self._fast_listening = fallback.listening(self._fast_presence, complete, self._fast_listens_at, why, first)

    def _fast_open_instead(self, direction: str, address: Any) -> Transport | None:
        from .connection import opening  # only where the settings name such a path

        return opening.open_instead(self, direction, address)

    def _fast_connects_by(self, path: Transport, address: Any) -> bool:
        from .connection import opening

        return opening.connects(self, path, address)

    def _fast_is_dual(self) -> bool:
        return _family(self) == _socket.AF_INET6 and not _Base.getsockopt(
            self, _socket.IPPROTO_IPV6, _socket.IPV6_V6ONLY
        )

    def _fast_announce_again(self) -> None:
        """Asks again, from time to time, for the presence of a listener that has none.

        Another process may have held the name and left. Or the program closed all numbers but its listener's, as
        daemons do, and with them the presence's.
        """
        if self._fast_presence:
            self._fast_withdraw()
            self._fast_accepts = 0
        if self._fast_accepts % 16 == 0:
            try:
                self._fast_announce()
            except OSError:  # another thread has closed it since the kernel accepted
                if _Base.fileno(self) >= 0:
                    raise
            if _Base.fileno(self) < 0:
                self._fast_withdraw()
        self._fast_accepts += 1

    def _fast_sign(self) -> None:
        """Before the kernel accepts: tells connecting ends that this class accepts here.

        Foreign code accepts by the listener's number, so it never comes by. Between the kernel's accept and the next
        step here, a thread may have to wait for the interpreter's lock. The sign says that it will come.
        """
        self._fast_is_unsigned = False
        with contextlib.suppress(OSError):  # such connections keep the bounded time, as with an older kernel
            core.sign(_Base.fileno(self), True)

    def accept(self) -> tuple[socket, Any]:
        sock, address = self._fast_take()
        sock._fast_meet_from(self, address)
        return sock, address

    def _fast_take(self) -> tuple[socket, Any]:
        """The first half of accept(). It waits for the kernel only. The other half waits for the connecting end."""
        if self._fast_is_unsigned:
            self._fast_sign()
        descriptor, address = self._accept()  # type: ignore[attr-defined]
        sock = socket.__new__(socket)
        _Plain.__init__(sock, _family(self), _kind(self), _proto(self), fileno=descriptor)
        if _socket.getdefaulttimeout() is None and self.gettimeout():
            sock.setblocking(True)
        return sock, address

    def _fast_meet_from(self, listener: socket, address: Any) -> None:
        if address and listener._fast_is_tcp_stream():
            self._fast_meet_connecting_end(listener, address)

    def _fast_meet_connecting_end(self, listener: socket, address: Any, reached: tuple[str, int] | None = None) -> None:
        """reached: the kind of a name of the connecting end's, and a stream to it, where one is there already."""
        presences, listening = listener._fast_presence, listener._fast_listening
        held = listening is not None and listening.holds_names()
        if not held and (not presences or not all(presence.is_held() for presence in presences)):
            listener._fast_announce_again()
        if listener._fast_options:
            self._fast_options = dict(listener._fast_options)
        self._fast_opened = listener._fast_opened
        local = listener._fast_listens_at or _Base.getsockname(self)
        if listener._fast_hears:
            from .meeting import remote  # only where there is an RDMA device

            joined = remote.claim(address, local, _Base.fileno(self))
            if joined is not None:
                self._fast_move("accept", joined, local, address)
                return
        paths, reason = chain.candidates("listen", local[0], local[1])
        if not paths:
            if reached is not None:
                genuine.close(reached[1])
            self._fast_stay("accept", reason, local, address)
            return
        listening = listener._fast_listening
        try:
            joined = answer.connect_back(address, local, paths, reached)
        except Refused as refused:
            if core.available and refused.reason is not Reason.PEER_NOT_LOCAL:
                with contextlib.suppress(OSError):  # an older kernel has no sign
                    core.sign(_Base.fileno(self), False)  # else the other end would wait for this one
            self._fast_stay("accept", refused.reason, local, address, refused.detail)
            return
        if listening is not None:
            (listening.missed if joined is None else listening.found)()
        if joined is None:
            self._fast_stay("accept", Reason.NO_OFFER, local, address)
        else:
            self._fast_move("accept", joined, local, address)

    # ---- connecting ----

    def connect(self, address: Any, /) -> None:
        result = self._fast_connect(_Base.connect, address)
        if result:
            raise BlockingIOError(result, genuine.strerror(result))

    def connect_ex(self, address: Any, /) -> int:
        try:
            return self._fast_connect(_Base.connect_ex, address)
        except OSError as error:
            if error.errno is None or isinstance(error, (_socket.gaierror, _socket.herror)):
                raise
            return error.errno

    def _fast_connect(self, primitive: Any, address: Any) -> int:
        """Connects by `primitive`, the standard class's connect() or connect_ex().

        Returns 0, EINPROGRESS, or another error number of connect_ex().
        """
        connection = self._fast_connection
        if connection is not None and not connection.is_tcp:
            self._fast_connect_again(connection)
            return 0
        if connection is not None or not self._fast_is_tcp_stream():
            return _attempt(primitive, self, address)
        offer, reason = connecting.offer_to(self, address)
        if offer is None:
            opened = self._fast_open_instead("connect", address) if chain.may_open() else None
            if opened is not None and not opened.meets_tcp() and self._fast_connects_by(opened, address):
                result = 0
            else:
                result = _attempt(primitive, self, address)
            if result in (0, errno.EINPROGRESS):
                self._fast_stay("connect", reason, None, address)
                if opened is None:
                    fallback.remember(address, reason)
            return result
        try:
            result = _attempt(primitive, self, address)
            if result in (0, errno.EINPROGRESS):
                self._fast_finish_connect(offer, result != 0, address)
        finally:
            if self._fast_pending is None:
                offer.withdraw()
        return result

    def _fast_connect_again(self, connection: registry.Connection) -> None:
        """A second connect(). TCP tells the end of a non-blocking connect once. Afterwards it raises EISCONN."""
        if _Base.fileno(self) < 0:
            raise OSError(errno.EBADF, genuine.strerror(errno.EBADF))
        if not self._fast_in_progress:
            raise OSError(errno.EISCONN, genuine.strerror(errno.EISCONN))
        self._fast_in_progress = False

    def _fast_finish_connect(self, offer: Offer | RemoteOffer, in_progress: bool, address: Any) -> None:
        """Begins the meeting, as soon as TCP is connected."""
        if in_progress:
            offer.await_tcp(self)
        try:
            peer = _Base.getpeername(self)
            local = _Base.getsockname(self)
        except OSError:  # or it was reset already: the first use will say so
            reason = offer.still_connecting if in_progress else Reason.SYSTEM_ERROR
            self._fast_stay("connect", reason, None, address if in_progress else None)
            return
        # programs expect EINPROGRESS from a non-blocking connect; the descriptor is writable at once
        self._fast_in_progress = in_progress
        if offer.goes_ahead:
            self._fast_go_ahead(offer, local, peer)
            return
        offer.sent()
        pending = Pending(self, offer, local, peer)
        for held in _HELD:
            held.forget(self)
        self._fast_pending = pending
        if not offer.is_reserved or self._fast_in_progress or foreign.takes_descriptor(self):
            self._fast_decide()

    def _fast_decide(self, may_go_ahead: bool = True) -> None:
        """Takes part in the meeting under way, if there is one. Then the connection stays on TCP or moves."""
        pending = self._fast_pending
        if pending is None:
            return
        with pending.lock:
            if self._fast_pending is not pending or pending.begun:
                return
            pending.begun = True
            try:
                self._fast_take_part(pending, may_go_ahead)
            finally:
                pending.begun = False
                if _HELD[0].known(self):
                    self._fast_pending = None
                    pending.over()
        if foreign.takes_descriptor(self):
            self._fast_release()

    def _fast_take_part(self, pending: Pending, may_go_ahead: bool) -> None:
        offer, local, peer = pending.offer, pending.local, pending.peer
        may_go_ahead = may_go_ahead and custody.is_possible(offer.paths) and not foreign.takes_descriptor(self)
        try:
            joined = offer.answer(local, _Base.fileno(self), may_go_ahead and not waiting.has_patience())
        except Refused as refused:
            self._fast_stay("connect", refused.reason, local, peer, refused.detail)
            return
        if joined is None:
            self._fast_go_ahead(offer, local, peer)
        else:
            self._fast_move("connect", joined, local, peer, held=offer.held())
            confirm(joined, self)

    def _fast_go_ahead(self, offer: Any, local: Any, peer: Any) -> None:
        """Moves before the other end has come."""
        try:
            joined, kept = custody.begin(offer, local, peer)
        except Refused as refused:
            self._fast_stay("connect", refused.reason, local, peer, refused.detail)
            return
        self._fast_move("connect", joined, local, peer, kept)
        custody.opened(self)

    # ---- staying and moving ----

    def _fast_stay(self, role: str, reason: Reason, local: Any, peer: Any, detail: str = "") -> None:
        if self._fast_opened is not None:
            from .connection import opening

            opening.note(self, self._fast_opened, role, local, peer)
            return
        fallback.note(self, role, reason, local, peer)
        if detail:
            self._fast_connection.detail = detail
        if settings().trace:
            chain.log.info("%s %s -> tcp: %s%s", role, peer, reason, detail and f" ({detail})")

    def _fast_move(self, role: str, joined: Joined, local: Any, peer: Any, kept: Any = None, held: Any = None) -> None:
        """Re-points the descriptor at the doorbell. TCP ends by a reset, so that nothing is left in TIME_WAIT."""
        connection = registry.Connection(
            role, joined.path.name, Reason.JOINED, _family(self), _proto(self), local, peer
        )
        connection.peer_pid = joined.pid
        connection.kept = kept
        if role == "connect":
            connection.began = genuine.monotonic()
        connection.options = self._fast_options
        descriptor, timeout = _Base.fileno(self), _Base.gettimeout(self)
        if role == "connect" and kept is None:
            _Base.setsockopt(self, _socket.SOL_SOCKET, _socket.SO_LINGER, _RESET_ON_CLOSE)
        genuine.dup2(joined.doorbell, descriptor, genuine.get_inheritable(descriptor))
        genuine.close(joined.doorbell)
        if held is not None:
            connection.port = ports.HeldPort(held, [descriptor])
        _Base.settimeout(self, timeout)
        self._fast_connection = connection
        if joined.channel is not None:
            joined.channel.rebind(descriptor)
            joined.channel.settimeout(timeout)
            self._fast_bind(joined.channel)
        if self._fast_options:
            tcp_options.apply(self, joined.channel, self._fast_options, self._fast_options)
        registry.opened(connection, self)
        if settings().trace:
            chain.log.info("%s %s -> %s", role, peer, joined.path.name)

    def _fast_bind(self, channel: Channel) -> None:
        self._fast_channel = channel
        connection = self._fast_connection
        if connection is not None:
            connection.holders = [*connection.holders, weakref.ref(self)]
            if connection.channel is None:
                connection.channel = channel
        kind, own = type(self), self.__dict__
        for name in _BOUND:
            if getattr(kind, name) is _OWN[name]:  # a subclass that overrides it is asked first
                own[name] = getattr(channel, name)
        numbers.attach(_Base.fileno(self), self, channel)

    def _fast_unbind(self) -> Any:
        """Takes the channel away and returns it. Of several threads only one gets it; the others get None."""
        channel, own = self._fast_channel, self.__dict__
        for name in _BOUND:
            own.pop(name, None)
        self._fast_channel = None
        if channel is not None:
            numbers.detach(channel.fileno())
        return channel

    def _fast_recognise(self, family: int, proto: int, descriptor: int) -> None:
        """Finds out whether the descriptor is a fast one: a duplicate, a detached one, or another process's."""
        domain = _Base.getsockopt(self, _socket.SOL_SOCKET, _socket.SO_DOMAIN)
        if domain != _socket.AF_UNIX:
            self._fast_opened = chain.opener_of(domain)
            if self._fast_opened is not None and -1 in (family, proto):
                self._fast_recognise_opened(family, proto, descriptor)
            return
        addresses = names.addresses_of(descriptor, _socket.AF_UNSPEC if family == -1 else family)
        if addresses is None:
            return
        if family == -1 or proto == -1:  # the kernel knows only the UNIX socket: fill in TCP's values
            if family == -1:
                family = _socket.AF_INET if len(addresses[0]) == 2 else _socket.AF_INET6
            proto = _socket.IPPROTO_TCP if proto == -1 else proto
            _Base.__init__(self, family, _socket.SOCK_STREAM, proto, descriptor)
        known = numbers.recall(self)
        if known is not None:
            self._fast_connection, self._fast_options = known._fast_connection, known._fast_options
            self._fast_share(known._fast_channel, descriptor)
            return
        connection = registry.Connection("received", "unix", Reason.DESCRIPTOR_TAKEN, family, _proto(self), *addresses)
        connection.port = ports.held_for(descriptor)
        self._fast_connection = connection
        registry.opened(connection, self)

    def _fast_recognise_opened(self, family: int, proto: int, descriptor: int) -> None:
        """The kernel tells the kind of the path's own sockets. The program means that of TCP's."""
        if family == -1:
            family = _socket.AF_INET if len(_Base.getsockname(self)) == 2 else _socket.AF_INET6
        _Base.__init__(self, family, _socket.SOCK_STREAM, _socket.IPPROTO_TCP if proto == -1 else proto, descriptor)

    def _fast_share(self, channel: Channel, descriptor: int) -> None:
        """A second socket object over the same connection, with a descriptor and a timeout of its own."""
        if self._fast_connection.port is not None:
            self._fast_connection.port.also(descriptor)
        second = channel.duplicate(descriptor)
        second.settimeout(_Base.gettimeout(self))
        self._fast_bind(second)

    # ---- the way out ----

    def _fast_release(self, survives: bool = False) -> None:
        release.release(self, survives)

    def _fast_leave_custody(self, survives: bool) -> bool:
        return release.leave_custody(self, survives)

    def detach(self) -> int:
        self._fast_withdraw()
        if self._fast_channel is not None and detached.stays_fast(sys._getframe(1).f_globals):
            return detached.keep(self._fast_hand_on())
        self._fast_release()
        connection = self._fast_connection
        if connection is not None and _Base.fileno(self) >= 0:
            registry.closing(connection)
        return super().detach()

    def _fast_give_to(self, engine: Any, peer: int, in_memory: bool) -> None:
        """See connection/engine_socket.py. No connection of this class stays TCP and has memory."""
        descriptor = _Base.detach(self)
        channel = self._fast_unbind()
        try:
            if channel is not None:
                engine.attach_channel(peer, channel)
            else:
                engine.attach_descriptor(peer, descriptor)
        except BaseException:
            genuine.close(descriptor)
            raise

    def _fast_given_back(self) -> None:
        connection = self._fast_connection
        if connection is not None:
            registry.closing(connection)

    def _fast_hand_on(self) -> socket:
        """Makes another object with this one's descriptor and connection. This one is closed."""
        descriptor, timeout = _Base.fileno(self), _Base.gettimeout(self)
        sock = socket.__new__(socket)
        super().detach()
        channel = self._fast_unbind()
        _Plain.__init__(sock, self.family, self.type, self.proto, fileno=descriptor)
        _Base.settimeout(sock, timeout)
        sock._fast_connection, sock._fast_options = self._fast_connection, self._fast_options
        sock._fast_bind(channel)
        assert sock._fast_connection is not None
        registry.handed_on(sock._fast_connection, sock)
        return sock

    def dup(self) -> socket:
        channel = self._fast_channel
        if channel is None:
            self._fast_watched = True  # the duplicate is the same open file, and must stay so
            return super().dup()
        descriptor = _socket.dup(_Base.fileno(self))
        sock = type(self).__new__(type(self))
        _Plain.__init__(sock, _family(self), _kind(self), _proto(self), fileno=descriptor)
        sock.settimeout(self.gettimeout())
        sock._fast_connection = self._fast_connection
        sock._fast_options = self._fast_options
        sock._fast_share(channel, descriptor)
        return sock

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Only multiprocessing may pickle a socket: it passes sockets to other processes."""
        reduction = sys.modules.get("multiprocessing.reduction")
        if reduction is None or sys._getframe(1).f_globals is not vars(reduction):
            return super().__reduce_ex__(protocol)
        return reduction._reduce_socket(self)

    def fileno(self) -> int:
        channel = self._fast_channel
        if channel is not None:
            connection = self._fast_connection
            kept = connection is not None and connection.kept is not None
            asking = sys._getframe(1)
            if channel.fileno() >= 0 and foreign.calls_c(asking):
                self._fast_release()
                channel = self._fast_channel
            # ssl asks before it detaches the socket. In custody it becomes TCP's then, if it is not watched.
            for_ssl = kept and asking.f_globals.get("__name__") == "ssl"
            if channel is not None and channel.fileno() >= 0 and not for_ssl:
                channel.watch()
        elif self._fast_connection is None and not self._fast_watched:
            by = foreign.asking(sys._getframe(1))
            self._fast_watched = by is None or by.f_globals.get("__name__") not in _ONLY_NOTES
        return _Base.fileno(self)  # type: ignore[no-any-return]

    # ---- closing ----

    def _fast_withdraw(self) -> None:
        if self._fast_presence:
            for presence in self._fast_presence:
                presence.close()
        self._fast_presence = None
        for hearing in self._fast_hears:
            hearing.close()
        self._fast_hears = ()

    def _real_close(self, _ss: Any = _Base) -> None:
        if self._fast_presence is not None:
            self._fast_withdraw()
        pending = self._fast_pending
        if pending is not None and pending.withdraw():
            self._fast_pending = None
            self._fast_stay("connect", Reason.CLOSED_BEFORE_MEETING, pending.local, pending.peer)
            if settings().short_lived == "tcp":
                history.closed_unused(pending.peer[:2], genuine.monotonic() - pending.began)
        channel, connection = self._fast_channel, self._fast_connection
        if connection is not None and not (connection.holders and self._fast_is_shared_object()):
            registry.closing(connection)
            if connection.began and settings().short_lived == "tcp":
                history.ended(connection.peer[:2], genuine.monotonic() - connection.began, connection.final or {})
        if channel is None:
            through = connection is not None and not connection.is_tcp and not connection.bridged
            if connection is not None and through and foreign.takes_descriptor(self):
                self._fast_linger(connection)
            _ss.close(self)
        else:
            reset = self._fast_resets()
            _ss.detach(self)  # first: another thread that finds no channel must not call the kernel on a doorbell
            self._fast_unbind()
            channel.close(reset)
        if connection is not None and connection.port is not None:
            connection.port.look()

    def _fast_linger(self, connection: registry.Connection) -> None:
        """OpenSSL at the other end may answer the end of the stream by an alert. TCP would take that alert."""
        descriptor = _Base.fileno(self)
        alone = connection.forks == (core.forks() if core.available else None) and descriptor >= 0
        with contextlib.suppress(OSError):  # the number was closed already, or too many are open
            if alone and not genuine.get_inheritable(descriptor) and not self._fast_resets():
                core.linger(descriptor)

    def _fast_resets(self) -> bool:
        return self._fast_options is not None and tcp_options.resets_on_close(self._fast_options)

    def _fast_is_shared_object(self) -> bool:
        """Whether another socket object (a duplicate) goes on using the connection."""
        connection = self._fast_connection
        return connection is not None and any(sock is not self and not sock._closed for sock in connection.sockets())

    def shutdown(self, how: int, /) -> None:
        channel = self._fast_channel  # once: another thread may close meanwhile
        if channel is not None:
            if how in _HALVES and channel.was_reset():
                raise OSError(errno.ENOTCONN, genuine.strerror(errno.ENOTCONN))
            channel.shutdown(how)
        else:
            _Base.shutdown(self, how)
            self._fast_shut = self._fast_shut or how != _socket.SHUT_RD

    # ---- blocking ----

    def settimeout(self, value: float | None, /) -> None:
        self._fast_set_waiting(_Base.settimeout, value)

    def setblocking(self, flag: bool, /) -> None:
        self._fast_set_waiting(_Base.setblocking, flag)

    def _fast_set_waiting(self, primitive: Any, value: Any) -> None:
        pending = self._fast_pending
        with pending.lock if pending is not None else _NOTHING:
            primitive(self, value)
            channel = self._fast_channel if self._fast_pending is None else None
            if channel is not None:
                channel.settimeout(_Base.gettimeout(self))

    # ---- addresses and options: TCP's, answered from memory once the connection has moved ----

    def _fast_moved_connection(self) -> registry.Connection | None:
        connection: registry.Connection | None = self._fast_connection
        if connection is None or connection.is_tcp:
            return None
        if _Base.fileno(self) < 0:
            raise OSError(errno.EBADF, genuine.strerror(errno.EBADF))
        return connection

    def getsockname(self) -> Any:
        connection = self._fast_moved_connection()
        return _Base.getsockname(self) if connection is None else connection.local

    def getpeername(self) -> Any:
        connection = self._fast_moved_connection()
        if connection is None:
            return _Base.getpeername(self)
        channel = self._fast_channel
        if connection.reset or (channel is not None and channel.is_over()):
            raise OSError(errno.ENOTCONN, genuine.strerror(errno.ENOTCONN))
        return connection.peer

    def setsockopt(self, level: int, option: int, *value: Any) -> None:
        pending = self._fast_pending
        with pending.lock if pending is not None else _NOTHING:
            # The meeting under way may go on: an option that is set now holds on either path.
            connection = self._fast_moved_connection() if self._fast_pending is None else None
            if connection is None:
                _Base.setsockopt(self, level, option, *value)
                if not self._fast_is_tcp_stream():
                    return
            else:
                tcp_options.check(connection.family, level, option, value)
            if self._fast_options is None:
                self._fast_options = {}
                if connection is not None:
                    connection.options = self._fast_options
            self._fast_options[level, option] = value
            if connection is not None:
                changed = {(level, option): value}
                tcp_options.apply(self, self._fast_channel, self._fast_options, changed)

    def getsockopt(self, level: int, option: int, *length: int) -> Any:
        connection = self._fast_moved_connection()
        if connection is None:
            if self._fast_opened is not None:
                from .connection import opening

                return opening.option(self, level, option, length)
            return _Base.getsockopt(self, level, option, *length)
        channel = self._fast_channel
        if (level, option) == (_socket.SOL_SOCKET, _socket.SO_ERROR) and channel is not None:
            return channel.take_error()
        return tcp_options.read_back(connection.family, self._fast_options or {}, level, option, length)

    # ---- data: used where a subclass overrides a method, or the kernel carries the bytes ----

    def send(self, data: Any, flags: int = 0, /) -> int:
        channel = self._fast_channel
        if channel is not None:
            return channel.send(data, flags)
        self._fast_check_sending(flags)
        try:
            return _Base.send(self, data, flags)  # type: ignore[no-any-return]
        except BrokenPipeError:
            length = memoryview(data).nbytes
            if self._fast_forgive(length):
                return min(length, unix.TAKEN_FOR_NOBODY)
            raise

    def sendall(self, data: Any, flags: int = 0, /) -> None:
        channel = self._fast_channel
        if channel is not None:
            channel.sendall(data, flags)
            return
        self._fast_check_sending(flags)
        try:
            _Base.sendall(self, data, flags)
        except BrokenPipeError:
            length = memoryview(data).nbytes
            if not self._fast_forgive(length) or length > unix.TAKEN_FOR_NOBODY:
                raise

    def _fast_check_sending(self, flags: int) -> None:
        if flags & _FAST_OPEN and self._fast_moved_connection() is not None:
            raise OSError(errno.EISCONN, genuine.strerror(errno.EISCONN))

    def _fast_check_receiving(self, flags: int) -> bool:
        """Whether the flags ask to throw the bytes away. TCP heeds such flags, but a UNIX stream ignores them."""
        if not flags & (_socket.MSG_TRUNC | _socket.MSG_ERRQUEUE) or self._fast_moved_connection() is None:
            return False
        if flags & _socket.MSG_ERRQUEUE:  # the queue is always empty, so a socket with a timeout waits in vain
            timeout = _Base.gettimeout(self)
            if timeout:
                genuine.sleep(timeout)
                raise TimeoutError("timed out")
            raise BlockingIOError(errno.EAGAIN, genuine.strerror(errno.EAGAIN))
        return not flags & _socket.MSG_OOB

    def _fast_forgive(self, length: int) -> bool:
        """Whether a send may succeed although the other end is closed.

        TCP lets the first send of any bytes succeed then. A UNIX stream does not.
        """
        connection = self._fast_connection
        if connection is None or connection.is_tcp or self._fast_pretended or self._fast_shut:
            return False
        self._fast_pretended = length > 0
        return waiting.has_hung_up(self)  # else this end was shut, by a process that shares the socket

    def _fast_note_reset(self) -> None:
        """The program has been told of a reset, so its next send must fail."""
        self._fast_pretended = True

    def sendto(self, data: Any, *rest: Any) -> int:
        connection = self._fast_moved_connection()
        if connection is None:
            return _Base.sendto(self, data, *rest)  # type: ignore[no-any-return]
        if not rest:
            raise TypeError("sendto() takes 2 or 3 arguments (1 given)")
        return self.send(data, rest[0] if len(rest) > 1 else 0)  # a connected TCP stream ignores the address

    def sendmsg(self, buffers: Any, ancdata: Any = (), flags: int = 0, address: Any = None, /) -> int:
        channel = self._fast_channel
        buffers = list(buffers)
        if channel is None:
            self._fast_check_sending(flags)
            try:
                return super().sendmsg(buffers, ancdata, flags, address)
            except BrokenPipeError:
                length = sum(memoryview(buffer).nbytes for buffer in buffers)
                if self._fast_forgive(length):
                    return min(length, unix.TAKEN_FOR_NOBODY)
                raise
        if ancdata or flags or address is not None:  # a TCP stream ignores them if well-formed, else it refuses them
            tcp_options.check_arguments(_Base.sendmsg, [], ancdata, flags, address)
        return channel.sendmsg(buffers, flags)

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        channel = self._fast_channel
        if channel is not None:
            return channel.recv(bufsize, flags)
        thrown_away = flags and self._fast_check_receiving(flags)
        try:
            data: bytes = _Base.recv(self, bufsize, flags)
            return bytes(len(data)) if thrown_away else data
        except ConnectionResetError:
            self._fast_note_reset()
            raise

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        channel = self._fast_channel
        if channel is not None:
            return channel.recv_into(buffer, nbytes, flags)
        if flags and self._fast_check_receiving(flags):
            return len(_Base.recv(self, nbytes or memoryview(buffer).nbytes, flags))
        return _Base.recv_into(self, buffer, nbytes, flags)  # type: ignore[no-any-return]

    def recvfrom(self, bufsize: int, flags: int = 0, /) -> tuple[bytes, Any]:
        if self._fast_moved_connection() is not None:
            return self.recv(bufsize, flags), None
        return _Base.recvfrom(self, bufsize, flags)  # type: ignore[no-any-return]

    def recvfrom_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> tuple[int, Any]:
        if self._fast_moved_connection() is not None:
            return self.recv_into(buffer, nbytes, flags), None
        return _Base.recvfrom_into(self, buffer, nbytes, flags)  # type: ignore[no-any-return]

    def recvmsg(self, bufsize: int, ancbufsize: int = 0, flags: int = 0, /) -> tuple[bytes, list[Any], int, Any]:
        if self._fast_moved_connection() is None:
            return _Base.recvmsg(self, bufsize, ancbufsize, flags)  # type: ignore[no-any-return]
        tcp_options.check_arguments(_Base.recvmsg, 0, ancbufsize, flags)
        return self.recv(bufsize, flags), [], flags & _CLOSE_ON_EXEC, None

    def recvmsg_into(self, buffers: Any, ancbufsize: int = 0, flags: int = 0, /) -> tuple[int, list[Any], int, Any]:
        channel = self._fast_channel
        if channel is None:
            count, ancillary, kinds, address = _Base.recvmsg_into(self, buffers, ancbufsize, flags)
            return count, ancillary, kinds, None if self._fast_moved_connection() is not None else address
        buffers = list(buffers)
        tcp_options.check_arguments(_Base.recvmsg_into, buffers, ancbufsize, flags)
        views = [memoryview(buffer).cast("B") for buffer in buffers]
        data = memoryview(channel.recv(sum(len(view) for view in views), flags))
        taken = 0
        for view in views:
            part = data[taken : taken + len(view)]
            view[: len(part)] = part
            taken += len(part)
        return taken, [], 0, None

    def sendfile(self, file: Any, offset: int = 0, count: int | None = None) -> int:
        if self._fast_channel is None and self._fast_opened is None:
            return super().sendfile(file, offset, count)
        # AF_SMC keeps back what sendfile(2) gave it and says that it has no room.
        if not offset and channel_calls.has_positions(file):  # sendfile(2) begins at 0, not where reading stopped
            file.seek(0)
        return self._sendfile_use_send(file, offset, count)  # type: ignore[attr-defined, no-any-return]

    # ---- typed arrays ----

    # Typed arrays and slices go straight from their memory, as in write(int buf[], off, len) of Java Fast Sockets
    # (F-MPJ thesis, section 3.1.1).
    send_array = arrays.send_array
    recv_array = arrays.recv_array
    recv_array_into = arrays.recv_array_into


def _pass_for_standard() -> None:
    """Makes the class look like the standard one.

    Its annotations go, because they name types that are imported for type checkers only. A call without a docstring
    gets the standard class's.
    """
    del socket.__annotations__
    for name, function in vars(socket).items():
        if isinstance(function, types.FunctionType):
            function.__annotations__ = {}
            function.__doc__ = function.__doc__ or getattr(getattr(_Plain, name, None), "__doc__", None)


_pass_for_standard()
_OWN: dict[str, Any] = {}
repeated.bind_class(socket, _OWN, numbers.attach, numbers.detach)
fallback.bind_class(socket, _Plain)
_OWN.update((name, getattr(socket, name)) for name in _BOUND)
_HELD = (vars(socket)["_fast_connection"], vars(socket)["_fast_channel"])


def _attempt(primitive: Any, sock: socket, address: Any) -> int:
    try:
        return primitive(sock, address) or 0
    except BlockingIOError as error:
        return error.errno or errno.EINPROGRESS


def _with_our_names(function: Any) -> Any:
    """A copy of the standard function that looks its names up in this module.

    So each Python version keeps its own behaviour.
    """
    copy = types.FunctionType(
        function.__code__, globals(), function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__, copy.__doc__ = function.__kwdefaults__, function.__doc__
    return copy


_Meeting = socket  # whose connections leave TCP before connect() returns


def _chosen() -> Any:
    """The class that the settings in force choose."""
    if not settings().upgrade:
        return _Meeting
    if not core.available:
        from .connection import without_core

        return without_core.socket
    if chain.leads_elsewhere():
        from . import channel_socket

        return channel_socket.socket
    from . import stream_socket

    return stream_socket.socket


if not TYPE_CHECKING:
    socket = _chosen()
_ours = {"socket", "SocketType"}
globals().update({n: v for n, v in vars(_standard).items() if n not in _ours and not n.startswith("__")})
SocketType = socket
if TYPE_CHECKING:
    # What type checkers see. The names of the standard module that are not here have any type.
    from typing import SupportsIndex

    AF_INET = _standard.AF_INET
    AF_INET6 = _standard.AF_INET6
    AF_UNIX = _standard.AF_UNIX
    AI_PASSIVE = _standard.AI_PASSIVE
    INADDR_ANY = _standard.INADDR_ANY
    IPPROTO_IPV6 = _standard.IPPROTO_IPV6
    IPPROTO_TCP = _standard.IPPROTO_TCP
    IPV6_V6ONLY = _standard.IPV6_V6ONLY
    MSG_DONTWAIT = _standard.MSG_DONTWAIT
    MSG_NOSIGNAL = _standard.MSG_NOSIGNAL
    MSG_PEEK = _standard.MSG_PEEK
    MSG_WAITALL = _standard.MSG_WAITALL
    SHUT_RD = _standard.SHUT_RD
    SHUT_RDWR = _standard.SHUT_RDWR
    SHUT_WR = _standard.SHUT_WR
    SO_KEEPALIVE = _standard.SO_KEEPALIVE
    SO_LINGER = _standard.SO_LINGER
    SO_RCVBUF = _standard.SO_RCVBUF
    SO_REUSEADDR = _standard.SO_REUSEADDR
    SO_REUSEPORT = _standard.SO_REUSEPORT
    SO_SNDBUF = _standard.SO_SNDBUF
    SOCK_DGRAM = _standard.SOCK_DGRAM
    SOCK_STREAM = _standard.SOCK_STREAM
    SOL_SOCKET = _standard.SOL_SOCKET
    SOMAXCONN = _standard.SOMAXCONN
    TCP_NODELAY = _standard.TCP_NODELAY
    AddressFamily = _standard.AddressFamily
    SocketKind = _standard.SocketKind
    error = _standard.error
    gaierror = _standard.gaierror
    getaddrinfo = _standard.getaddrinfo
    getdefaulttimeout = _standard.getdefaulttimeout
    getfqdn = _standard.getfqdn
    gethostbyname = _standard.gethostbyname
    gethostname = _standard.gethostname
    getnameinfo = _standard.getnameinfo
    has_dualstack_ipv6 = _standard.has_dualstack_ipv6
    has_ipv6 = _standard.has_ipv6
    herror = _standard.herror
    inet_aton = _standard.inet_aton
    inet_ntoa = _standard.inet_ntoa
    inet_ntop = _standard.inet_ntop
    inet_pton = _standard.inet_pton
    setdefaulttimeout = _standard.setdefaulttimeout
    timeout = _standard.timeout

    _Host = tuple[str | None, int]

    def create_connection(
        address: _Host,
        timeout: float | None = ...,
        source_address: tuple[str, int] | None = None,
        *,
        all_errors: bool = False,
    ) -> socket: ...

    def create_server(
        address: tuple[Any, ...] | str,
        *,
        family: int = ...,
        backlog: int | None = None,
        reuse_port: bool = False,
        dualstack_ipv6: bool = False,
    ) -> socket: ...

    def socketpair(
        family: int | AddressFamily | None = None, type: int | SocketKind = ..., proto: int = 0
    ) -> tuple[socket, socket]: ...

    def fromfd(fd: SupportsIndex, family: int, type: int, proto: int = 0) -> socket: ...

    def __getattr__(name: str) -> Any: ...

else:
    create_connection = _with_our_names(_standard.create_connection)
    create_server = _with_our_names(_standard.create_server)
    socketpair = _with_our_names(_standard.socketpair)
    fromfd = _with_our_names(_standard.fromfd)
__all__ = [*_standard.__all__]

if core.available:
    core.configure(look_us=settings().look_us)
numbers.before_first_attach(guards.activate)
