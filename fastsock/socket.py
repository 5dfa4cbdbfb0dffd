"""Drop-in for the standard module `socket`: the same names, and a class whose TCP streams take the fastest path.

    from fastsock import socket

Everything that the standard module exports is here. `socket`, `SocketType`, `create_connection`, `create_server`,
`socketpair` and `fromfd` make sockets of the fast class, which adds `transport`, `send_array`, `recv_array` and
`recv_array_into`.

The class is that of `stream_socket`, whose connections stay TCP and gain memory while they live. It is that of
`channel_socket` where a path to another host, or a socket in place of TCP's, may be taken, and that of
`connection/without_core` where the native core is not there.
"""

from __future__ import annotations

import socket as _standard

from . import chain, core
from .connection.standing_in import stand_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .stream_socket import socket as socket


def chosen() -> Any:
    """The module with the class that the settings in force and this host ask for."""
    if not core.available:
        from .connection import without_core

        return without_core
    if chain.leads_elsewhere():
        from . import channel_socket

        return channel_socket
    from . import stream_socket

    return stream_socket


if not TYPE_CHECKING:
    socket = chosen().socket
SocketType = socket
stand_in(globals())
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
