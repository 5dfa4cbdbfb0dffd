"""Makes and reads the name of a connection that left TCP, and tells which addresses are of this host."""

from __future__ import annotations

import _socket
import contextlib
import functools
import itertools

from ..system.originals import originals
from .unix_calls import DATAGRAM, UNIX, Raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

WILDCARDS = ("0.0.0.0", "::")
_numbers = itertools.count()


@functools.lru_cache(maxsize=4096)
def packed(ip: str) -> str:
    """One text for an address, however it was written. An IPv4 address mapped into IPv6 gives the IPv4 one."""
    if ":" not in ip:
        return _socket.inet_pton(_socket.AF_INET, ip).hex()
    raw = _socket.inet_pton(_socket.AF_INET6, ip.partition("%")[0])
    return raw[12:].hex() if raw[:12] == bytes(10) + b"\xff\xff" else raw.hex()


@functools.lru_cache(maxsize=4096)
def presence_names(ip: str, port: int) -> tuple[bytes, bytes]:
    """The names of a listener at that address, and of a listener at every address."""
    key = packed(ip)
    return presence_name(key, port), presence_name("any4" if len(key) == 8 else "any6", port)


def presence_name(where: str, port: int) -> bytes:
    """The name of a listener at that packed address, or at "any4" or "any6"."""
    return b"\0fastsock/1/listen/%s/%d" % (where.encode(), port)


def connection_name(kind: str, source: tuple[str, int], target: tuple[str, int]) -> bytes:
    """A name that tells both addresses. A process that gets the descriptor reads them from it."""
    return f"\0fastsock/1/{kind}/{source[0]}/{source[1]}/{target[0]}/{target[1]}".encode()


def unique(name: bytes) -> bytes:
    """The name, made unique. The addresses can still be read from it."""
    return b"%s/%d.%d" % (name, originals.getpid(), next(_numbers))


def _address(key: str, port: str, family: int) -> tuple[Any, ...]:
    raw = bytes.fromhex(key)
    if family == _socket.AF_INET:
        return _socket.inet_ntop(family, raw), int(port)
    return _socket.inet_ntop(family, raw if len(raw) == 16 else bytes(10) + b"\xff\xff" + raw), int(port), 0, 0


def addresses_of(descriptor: int, family: int) -> tuple[Any, Any] | None:
    """(local, peer) of the TCP connection that became this UNIX stream. None: fastsock did not make it."""
    stream = Raw(UNIX, _socket.SOCK_STREAM, 0, descriptor)
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


def name_bridge(stream: Any, local: Any, peer: Any) -> None:
    """Lets the fresh stream socket of a bridge tell the connection's addresses, as a doorbell does."""
    name = connection_name("bridge", (packed(local[0]), local[1]), (packed(peer[0]), peer[1]))
    with contextlib.suppress(OSError):  # only a later owner of the descriptor would miss it
        stream.bind(unique(name))


def is_loopback(ip: str) -> bool:
    return ip.startswith("127.") or ip == "::1" or ip.startswith("::ffff:127.")


def is_local(ip: str, family: int) -> bool:
    """Whether the kernel reaches `ip` within this host. It then sends from that very address."""
    if is_loopback(ip):
        return True
    probe = Raw(family, DATAGRAM)
    try:
        probe.connect((ip, 9))
        return packed(probe.getsockname()[0]) == packed(ip)
    except OSError:
        return False
    finally:
        probe.close()
