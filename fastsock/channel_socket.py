"""The socket class where paths other than TCP and memory are there: rdma and rsockets to other hosts, sdp, and those
of other authors.

It is the class of `stream_socket` with what such a connection needs. Nothing of it is imported on a host that has
neither an RDMA device nor a sockets-direct protocol of its kernel, and no other author's path
(`chain.leads_elsewhere()`).
"""

from __future__ import annotations

import _socket
import errno
import struct
import sys
import weakref

from . import chain, stream_socket
from .config import settings
from .connection import channel_calls, elsewhere, foreign, opening, registry, tcp_options
from .connection.standing_in import Plain, is_tcp_stream, pass_for_standard, stand_in
from .core.binding._calls import also_serve
from .core.binding._table import accepted, connected, is_known, is_new, share_doors
from .meeting import names, near, ports, remote
from .meeting.joined import confirm
from .patching import descriptor_table, detached, release
from .system.originals import originals
from .transport import Reason, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .meeting.joined import Joined
    from .meeting.near import NearOffer
    from .meeting.remote import RemoteOffer
    from .transport import Channel, Transport

_Base: Any = _socket.socket
_Stream: Any = stream_socket.socket
# These give plain numbers. The properties of the standard class make a member of an enumeration each time.
_family, _kind, _proto = _Base.family.__get__, _Base.type.__get__, _Base.proto.__get__
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_HALVES = (_socket.SHUT_RD, _socket.SHUT_WR, _socket.SHUT_RDWR)
# These modules ask for the descriptor of a socket that is not connected yet. They watch it later, or only show it.
# asyncore is none of them: a dispatcher of another class gives the number to its poller before it connects.
_ONLY_NOTES = ("asyncio.selector_events", "asyncio.base_events", "asyncio.trsock", "socket", __name__)
# Bound straight onto a socket that has a channel, so that a call costs no Python frame.
_BOUND = ("recv", "recv_into", "send", "sendall")


class socket(stream_socket.socket):
    """A socket of `stream_socket` whose stream may take a path to another host or of another author, or be one that the
    kernel made.

    Where a path takes the connection from TCP, its descriptor becomes the doorbell of a channel, and
    the connection's addresses and options are answered from memory. An error of a path names the path and the other
    end.
    """

    __slots__ = ("__dict__",)

    _fast_channel: Channel | None = None
    _fast_connection: registry.Connection | None = None  # of one that has left TCP, or that a path opened
    _fast_opened: Transport | None = None  # the path that made the descriptor, in place of TCP
    _fast_refused: Refused | None = None  # why it stays on TCP, where it might have left it
    _fast_hears: Any = ()  # while it listens, what hears of connecting ends that may take a path
    _fast_options: dict[tuple[int, int], Any] | None = None
    _fast_pretended = False
    _fast_shut = False
    _fast_in_progress = False
    _fast_watched = False

    def __init__(self, family: int = -1, type: int = -1, proto: int = -1, fileno: int | None = None) -> None:
        _Stream.__init__(self, family, type, proto, fileno)
        if fileno is None:
            return
        # whoever gave the number may have registered it; ssl takes it over from another socket
        self._fast_watched = not foreign.takes_descriptor(self)
        if type in (-1, _socket.SOCK_STREAM):
            self._fast_recognise(family, proto, fileno)
            if is_tcp_stream(self) and _Base.getsockopt(self, _socket.SOL_SOCKET, _socket.SO_ACCEPTCONN):
                self._fast_hear()

    # ---- what it is ----

    @property
    def transport(self) -> str:
        """What carries the bytes: "shm", "tcp", or the name of another path. "plain" for what is no TCP stream."""
        connection = self._fast_connection
        if connection is None:
            return _Stream.transport.__get__(self)  # type: ignore[no-any-return]
        registry.look_again(connection)
        return connection.transport

    # ---- listening ----

    def listen(self, *backlog: int) -> None:
        if chain.may_open() and is_tcp_stream(self):
            opening.open_instead(self, "listen", _Base.getsockname(self))
        _Base.listen(self, *backlog)
        if not self._fast_hears and is_tcp_stream(self):
            self._fast_hear()

    def _fast_hear(self) -> None:
        if self._fast_opened is None:
            local = _Base.getsockname(self)
            self._fast_hears = [*near.listen(local, self._fast_is_dual()), *remote.listen(local)]

    def _fast_is_dual(self) -> bool:
        return _family(self) == _socket.AF_INET6 and not _Base.getsockopt(
            self, _socket.IPPROTO_IPV6, _socket.IPV6_V6ONLY
        )

    def accept(self) -> tuple[socket, Any]:
        sock, address = self._fast_take()
        sock._fast_meet_from(self, address)
        return sock, address

    def _fast_take(self) -> tuple[socket, Any]:
        """The first half of accept(). It waits for the kernel only."""
        descriptor, address = self._accept()  # type: ignore[attr-defined]
        sock: socket = _bare(socket)
        Plain.__init__(sock, _family(self), _kind(self), _proto(self), descriptor)
        if _socket.getdefaulttimeout() is None and self.gettimeout():
            sock.setblocking(True)
        return sock, address

    def _fast_meet_from(self, listener: Any, address: Any) -> None:
        if not address or not is_tcp_stream(listener):
            return
        if listener._fast_options:
            self._fast_options = dict(listener._fast_options)
        self._fast_opened = listener._fast_opened
        if self._fast_opened is not None:
            opening.note(self, self._fast_opened, "accept", _Base.getsockname(self), address)
            return
        if listener._fast_hears:
            local = _Base.getsockname(self)
            try:
                joined = near.claim(address, local) or remote.claim(address, local, _Base.fileno(self))
            except Refused as refused:
                self._fast_refused, joined = refused, None
            if joined is not None:
                self._fast_move("accept", joined, local, address)
                return
        accepted(self)

    # ---- connecting ----

    def connect(self, address: Any, /) -> None:
        result = self._fast_connect(_Base.connect, address)
        if result:
            raise BlockingIOError(result, originals.strerror(result))

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
            return self._fast_connect_again()
        if connection is not None or not is_tcp_stream(self) or is_known(_Base.fileno(self)):
            return _attempt(primitive, self, address)
        offer, self._fast_refused = elsewhere.offer_to(self, address)
        if offer is None:
            return self._fast_connect_tcp(primitive, address)
        try:
            result = _attempt(primitive, self, address)
            if result in (0, errno.EINPROGRESS):
                self._fast_finish_connect(offer, result != 0)
            return result
        finally:
            offer.withdraw()

    def _fast_connect_tcp(self, primitive: Any, address: Any) -> int:
        """TCP, or a socket that a path opens in its place."""
        opened = opening.open_instead(self, "connect", address) if chain.may_open() else None
        if opened is not None and not opened.meets_tcp() and opening.connects(self, opened, address):
            result = 0
        else:
            result = _attempt(primitive, self, address)
        if result in (0, errno.EINPROGRESS):
            if self._fast_opened is not None:
                opening.note(self, self._fast_opened, "connect", None, address)
            else:
                connected(self, address)
        return result

    def _fast_connect_again(self) -> int:
        """A second connect(). TCP tells the end of a non-blocking connect once. Afterwards it raises EISCONN."""
        if _Base.fileno(self) < 0:
            raise OSError(errno.EBADF, originals.strerror(errno.EBADF))
        if not self._fast_in_progress:
            raise OSError(errno.EISCONN, originals.strerror(errno.EISCONN))
        self._fast_in_progress = False
        return 0

    def _fast_finish_connect(self, offer: NearOffer | RemoteOffer, in_progress: bool) -> None:
        """As soon as TCP is connected, the connection moves, or stays on TCP."""
        if in_progress:
            offer.await_tcp(self)
        try:
            peer, local = _Base.getpeername(self), _Base.getsockname(self)
        except OSError:  # or it was reset already: the first use will say so
            self._fast_refused = Refused(offer.still_connecting if in_progress else Reason.SYSTEM_ERROR)
            connected(self, None)
            return
        # programs expect EINPROGRESS from a non-blocking connect; the descriptor is writable at once
        self._fast_in_progress = in_progress
        offer.sent()
        try:
            joined = offer.answer(local, _Base.fileno(self))
        except Refused as refused:
            self._fast_refused = refused
            connected(self, peer)
            return
        self._fast_move("connect", joined, local, peer, offer.held())
        confirm(joined, self)
        if foreign.takes_descriptor(self):
            self._fast_release()

    # ---- leaving TCP ----

    def _fast_move(self, role: str, joined: Joined, local: Any, peer: Any, held: Any = None) -> None:
        """Re-points the descriptor at the doorbell.

        A duplicate of TCP's stays with a path to another host. Of any other path, `held` keeps the connecting end's
        port.
        """
        connection = registry.Connection(
            role, joined.path.name, Reason.JOINED, _family(self), _proto(self), local, peer
        )
        connection.peer_pid = joined.pid
        connection.options = self._fast_options
        descriptor, timeout = _Base.fileno(self), _Base.gettimeout(self)
        if role == "connect":
            _Base.setsockopt(self, _socket.SOL_SOCKET, _socket.SO_LINGER, _RESET_ON_CLOSE)
        originals.dup2(joined.doorbell, descriptor, originals.get_inheritable(descriptor))
        originals.close(joined.doorbell)
        if held is not None:
            connection.port = ports.HeldPort(held, [descriptor])
        _Base.settimeout(self, timeout)
        is_new(descriptor)
        self._fast_connection = connection
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
        kind, own = self.__class__, self.__dict__
        for name in _BOUND:
            if getattr(kind, name) is getattr(_Stream, name):  # a subclass that overrides it is asked first
                own[name] = getattr(channel, name)
        descriptor_table.attach(_Base.fileno(self), self, channel)

    def _fast_unbind(self) -> Any:
        """Takes the channel away and returns it. Of several threads only one gets it; the others get None."""
        channel, own = self._fast_channel, self.__dict__
        for name in _BOUND:
            own.pop(name, None)
        self._fast_channel = None
        if channel is not None:
            descriptor_table.detach(channel.fileno())
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
        known = descriptor_table.recall(self)
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
        connection = self._fast_connection
        if connection is not None and connection.port is not None:
            connection.port.also(descriptor)
        second = channel.duplicate(descriptor)
        second.settimeout(_Base.gettimeout(self))
        self._fast_bind(second)

    # ---- the way out ----

    def _fast_release(self, survives: bool = False) -> None:
        release.release(self, survives)

    def detach(self) -> int:
        self._fast_fall_silent()
        connection = self._fast_connection
        if connection is None:
            return self._fast_detach(sys._getframe(1).f_globals)
        if self._fast_channel is not None and detached.stays_fast(sys._getframe(1).f_globals):
            return detached.keep(self._fast_hand_on())
        self._fast_release()
        if _Base.fileno(self) >= 0:
            registry.closing(connection)
        return Plain.detach(self)

    def _fast_give_to(self, engine: Any, peer: int, in_memory: bool) -> None:
        """See connection/engine_socket.py."""
        if self._fast_connection is None:
            super()._fast_give_to(engine, peer, in_memory)
            return
        descriptor = _Base.detach(self)
        channel = self._fast_unbind()
        try:
            if channel is not None:
                engine.attach_channel(peer, channel)
            else:
                engine.attach_descriptor(peer, descriptor)
        except BaseException:
            originals.close(descriptor)
            raise

    def _fast_given_back(self) -> None:
        if self._fast_connection is None:
            super()._fast_given_back()
        else:
            registry.closing(self._fast_connection)

    def _fast_hand_on(self) -> socket:
        """Makes another object with this one's descriptor and connection. This one is closed."""
        descriptor, timeout = _Base.fileno(self), _Base.gettimeout(self)
        sock: socket = _bare(socket)
        Plain.detach(self)
        channel = self._fast_unbind()
        Plain.__init__(sock, self.family, self.type, self.proto, fileno=descriptor)
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
            return _Stream.dup(self)  # type: ignore[no-any-return]
        descriptor = _socket.dup(_Base.fileno(self))
        sock: socket = _bare(self.__class__)
        Plain.__init__(sock, _family(self), _kind(self), _proto(self), fileno=descriptor)
        sock.settimeout(self.gettimeout())
        sock._fast_connection = self._fast_connection
        sock._fast_options = self._fast_options
        sock._fast_share(channel, descriptor)
        return sock

    def fileno(self) -> int:
        connection, channel = self._fast_connection, self._fast_channel
        if connection is None:
            number = super().fileno()
            if not self._fast_watched and not is_known(number):
                by = foreign.asking(sys._getframe(1))
                self._fast_watched = by is None or by.f_globals.get("__name__") not in _ONLY_NOTES
            return number
        if channel is not None and channel.fileno() >= 0:
            if foreign.calls_c(sys._getframe(1)):
                self._fast_release()
                channel = self._fast_channel
            if channel is not None and channel.fileno() >= 0:
                channel.watch()
        return _Base.fileno(self)  # type: ignore[no-any-return]

    # ---- closing ----

    def _fast_fall_silent(self) -> None:
        hears, self._fast_hears = self._fast_hears, ()
        for hearing in hears:
            hearing.close()

    def _real_close(self, _ss: Any = _Base) -> None:
        if self._fast_hears:
            self._fast_fall_silent()
        channel, connection = self._fast_channel, self._fast_connection
        if connection is None:
            _Stream._real_close(self, _ss)
            return
        if not (connection.holders and self._fast_is_shared_object()):
            registry.closing(connection)
        if channel is None:
            _ss.close(self)
        else:
            reset = self._fast_resets()
            _ss.detach(self)  # first: another thread that finds no channel must not call the kernel on a doorbell
            self._fast_unbind()
            channel.close(reset)
        if connection.port is not None:
            connection.port.look()

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
                raise OSError(errno.ENOTCONN, originals.strerror(errno.ENOTCONN))
            channel.shutdown(how)
            return
        _Stream.shutdown(self, how)
        self._fast_shut = self._fast_shut or how != _socket.SHUT_RD

    # ---- blocking ----

    def settimeout(self, value: float | None, /) -> None:
        _Base.settimeout(self, value)
        self._fast_heed_timeout()

    def setblocking(self, flag: bool, /) -> None:
        _Base.setblocking(self, flag)
        self._fast_heed_timeout()

    def _fast_heed_timeout(self) -> None:
        channel = self._fast_channel
        if channel is not None:
            channel.settimeout(_Base.gettimeout(self))

    # ---- addresses and options: TCP's, answered from memory once the connection has moved ----

    def _fast_moved_connection(self) -> registry.Connection | None:
        connection = self._fast_connection
        if connection is None or connection.is_tcp:
            return None
        if _Base.fileno(self) < 0:
            raise OSError(errno.EBADF, originals.strerror(errno.EBADF))
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
            raise OSError(errno.ENOTCONN, originals.strerror(errno.ENOTCONN))
        return connection.peer

    def setsockopt(self, level: int, option: int, *value: Any) -> None:
        connection = self._fast_moved_connection()
        if connection is None:
            _Stream.setsockopt(self, level, option, *value)
            if not is_tcp_stream(self):
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
                return opening.option(self, level, option, length)
            return _Stream.getsockopt(self, level, option, *length)
        channel = self._fast_channel
        if (level, option) == (_socket.SOL_SOCKET, _socket.SO_ERROR) and channel is not None:
            return channel.take_error()
        return tcp_options.read_back(connection.family, self._fast_options or {}, level, option, length)

    def sendfile(self, file: Any, offset: int = 0, count: int | None = None) -> int:
        if self._fast_channel is None and self._fast_opened is None:
            return super().sendfile(file, offset, count)
        # AF_SMC keeps back what sendfile(2) gave it and says that it has no room.
        if not offset and channel_calls.has_positions(file):  # sendfile(2) begins at 0, not where reading stopped
            file.seek(0)
        return self._sendfile_use_send(file, offset, count)  # type: ignore[attr-defined, no-any-return]


def _bare(kind: Any) -> Any:
    return kind.__new__(kind)


def _attempt(primitive: Any, sock: socket, address: Any) -> int:
    try:
        return primitive(sock, address) or 0
    except BlockingIOError as error:
        return error.errno or errno.EINPROGRESS


pass_for_standard(socket)
stand_in(globals())
also_serve(channel_calls)
share_doors(False)  # its connections may leave TCP
