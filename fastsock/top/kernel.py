"""The kernel's counts of the TCP connections of this network namespace, by the number of their socket's file."""

from __future__ import annotations

import _socket
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_NETLINK_SOCK_DIAG, _BY_FAMILY, _REQUEST_DUMP, _DONE, _ERROR = 4, 20, 0x301, 3, 2
_INFO = 2  # INET_DIAG_INFO
_STATES = 0xFFFF & ~(1 << 10 | 1 << 6)  # neither listening nor TIME_WAIT
_MESSAGE = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBBI48x")
_SEEN = struct.Struct("=BBxx48xIIIII")  # family, state, ..., expires, unread, unsent, user, file
_ADDRESSES = struct.Struct(">HH16s16s")
# of struct tcp_info: tcpi_bytes_received, tcpi_notsent_bytes, tcpi_bytes_sent, tcpi_bytes_retrans
_TCP_INFO = struct.Struct("=128xQ8xI52xQQ")
_PART = struct.Struct("=HH")  # length, kind
_MOST = 1 << 16


class Seen:
    """sent, received: by the program's calls, tokens among them."""

    __slots__ = ("_addresses", "family", "received", "sent")

    def __init__(self, family: int, addresses: bytes, sent: int, received: int) -> None:
        self.family = family
        self._addresses = addresses
        self.sent = sent
        self.received = received

    def addresses(self) -> tuple[tuple[str, int], tuple[str, int]]:
        """This end's and the other one's host and port."""
        own_port, port, own, other = _ADDRESSES.unpack(self._addresses)
        size = 4 if self.family == _socket.AF_INET else 16
        hosts = (_socket.inet_ntop(self.family, each[:size]) for each in (own, other))
        return (next(hosts), own_port), (next(hosts), port)


def connections() -> dict[int, Seen]:
    """Empty where the kernel does not tell."""
    found: dict[int, Seen] = {}
    for family in (_socket.AF_INET, _socket.AF_INET6):
        try:
            for message in _asked(family):
                _add(found, message)
        except OSError:
            continue
    return found


def _asked(family: int) -> Iterator[bytes]:
    """The answers, without their heads."""
    asking: Any = _socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW | _socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG)
    try:
        asking.settimeout(5.0)
        body = _REQUEST.pack(family, _socket.IPPROTO_TCP, 1 << (_INFO - 1), 0, _STATES)
        asking.send(_MESSAGE.pack(_MESSAGE.size + len(body), _BY_FAMILY, _REQUEST_DUMP, 1, 0) + body)
        while True:
            data, at = asking.recv(_MOST), 0
            while len(data) - at >= _MESSAGE.size:
                length, kind, *_ = _MESSAGE.unpack_from(data, at)
                if kind in (_DONE, _ERROR) or length < _MESSAGE.size:
                    return
                yield data[at + _MESSAGE.size : at + length]
                at += (length + 3) & ~3
    finally:
        asking.close()


def _add(found: dict[int, Seen], message: bytes) -> None:
    family, _, _, unread, _, _, file = _SEEN.unpack_from(message)
    at = _info_in(message, family)
    if at is not None:
        received, unsent, sent, again = _TCP_INFO.unpack_from(message, at)
        addresses = message[4 : 4 + _ADDRESSES.size]
        found[file] = Seen(family, addresses, sent - again + unsent, max(received - unread, 0))


_last_at: dict[int, int] = {}  # by family: it is at the same place in most messages


def _info_in(message: bytes, family: int) -> int | None:
    """Where the kernel's record of the connection begins."""
    at = _last_at.get(family, _SEEN.size)
    if not _is_info(message, at):
        at = _SEEN.size
        while at + 4 <= len(message) and not _is_info(message, at):
            length, _ = _PART.unpack_from(message, at)
            if length < 4:
                return None
            at += (length + 3) & ~3
        if at + 4 > len(message):
            return None
        _last_at[family] = at
    return at + 4


def _is_info(message: bytes, at: int) -> bool:
    if at + 4 + _TCP_INFO.size > len(message):
        return False
    length, kind = _PART.unpack_from(message, at)
    return bool(kind == _INFO and length >= 4 + _TCP_INFO.size)
