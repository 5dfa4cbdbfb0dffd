"""Where a wire-up server listens, as text: ``unix:NAME`` (abstract, so of one network namespace) or ``tcp:IP:PORT``."""

from __future__ import annotations

import _socket
import contextlib
import errno

from ...system.originals import originals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Raw = _socket.socket
STREAM = _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC
# A link that is cut must not look like a quiet one: the kernel asks after 4 s, and gives up within 6 more.
_KEEPALIVE = ((_socket.TCP_KEEPIDLE, 4), (_socket.TCP_KEEPINTVL, 2), (_socket.TCP_KEEPCNT, 3))
_NOT_YET = (errno.ECONNREFUSED, errno.ENOENT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT, errno.EAGAIN)


class WireupError(ConnectionError):
    """The ranks cannot find each other; the text says why, and what to do."""


def unix(name: str) -> str:
    """The address of an abstract UNIX name."""
    return f"unix:{name}"


def tcp(ip: str, port: int) -> str:
    """The address of a TCP listener."""
    return f"tcp:[{ip}]:{port}" if ":" in ip else f"tcp:{ip}:{port}"


def split_host(text: str, variable: str) -> tuple[str, int]:
    """`host:port` or `[ip]:port`, of an environment variable. Raises WireupError."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise WireupError(f"{variable} is {text!r}: write host:port")
    return host.strip("[]"), int(port)


def number(environ: Mapping[str, str], variable: str, least: int) -> int:
    """The number that an environment variable tells. Raises WireupError."""
    text = environ[variable]
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        raise WireupError(f"{variable} is {text!r}: write a number from {least} up")
    return int(text)


def connect(
    addresses: Iterable[str], timeout: float, retry: bool, greet: Callable[[Raw, float], None] | None = None
) -> Raw:
    """A blocking stream to the first address that answers, and that `greet(stream, seconds)` likes.

    With `retry` until the time is over: its listener may come later. Raises WireupError, which names the addresses and
    the last error of each.
    """
    deadline = originals.monotonic() + timeout
    pause = 0.001
    known = list(addresses)
    while True:
        failures = []
        again = False
        for address in known:
            seconds = max(0.05, min(deadline - originals.monotonic(), timeout / len(known)))
            try:
                stream = _connect_one(address, seconds)
                if greet is None:
                    return stream
                try:
                    greet(stream, seconds)
                    return stream
                except BaseException:
                    stream.close()
                    raise
            except OSError as error:
                failures.append(f"{address}: {error.strerror or error}")
                again = again or error.errno in _NOT_YET or isinstance(error, TimeoutError)
        if not known or not retry or not again or originals.monotonic() >= deadline:
            raise WireupError("; ".join(failures) or "no address to connect to")
        originals.sleep(pause)
        pause = min(0.1, pause * 1.5)


def _connect_one(address: str, timeout: float) -> Raw:
    kind, _, rest = address.partition(":")
    if kind == "unix":
        sock = Raw(_socket.AF_UNIX, STREAM)
        target: object = b"\0" + rest.encode()
        candidates = [(sock, target)]
    else:
        host, port = split_host(rest, "an address of the wire-up")
        found = _socket.getaddrinfo(host, port, 0, _socket.SOCK_STREAM)
        candidates = [(Raw(family, STREAM), where) for family, _, _, _, where in found]
    last: OSError = WireupError(f"{rest} has no address")
    connected = None
    for sock, target in candidates:
        try:
            if connected is None:
                sock.settimeout(timeout)
                sock.connect(target)  # type: ignore[arg-type]
                connected = sock
        except OSError as error:
            last = error
        if sock is not connected:
            sock.close()
    if connected is None:
        raise last
    connected.settimeout(None)
    quicken(connected)
    return connected


def quicken(sock: Raw) -> None:
    """Options of a control connection: no delay, and a peer that is cut off is noticed."""
    if sock.family == _socket.AF_UNIX:
        return
    sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
    sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_KEEPALIVE, 1)
    for option, seconds in _KEEPALIVE:
        sock.setsockopt(_socket.IPPROTO_TCP, option, seconds)
    sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_USER_TIMEOUT, 10000)


def route_towards(host: str) -> str | None:
    """The IP of this host from which packets to `host` leave; None where the name or the route is unknown."""
    with contextlib.suppress(OSError):
        for family, _, _, _, where in _socket.getaddrinfo(host, 9, 0, _socket.SOCK_DGRAM):
            probe = Raw(family, _socket.SOCK_DGRAM | _socket.SOCK_CLOEXEC)
            try:
                probe.connect(where)
                return str(probe.getsockname()[0])
            except OSError:
                continue
            finally:
                probe.close()
    return None


def listen_unix(name: str) -> Raw:
    """A listener in the abstract namespace. Raises OSError: EADDRINUSE where somebody has the name."""
    listener = Raw(_socket.AF_UNIX, STREAM | _socket.SOCK_NONBLOCK)
    try:
        listener.bind(b"\0" + name.encode())
        listener.listen(4096)
    except BaseException:
        listener.close()
        raise
    return listener


def listen_tcp(ip: str = "", port: int = 0) -> Raw:
    """A TCP listener; an empty `ip` is every IPv4 address of this host. Raises OSError."""
    family = _socket.AF_INET6 if ":" in ip else _socket.AF_INET
    listener = Raw(family, STREAM | _socket.SOCK_NONBLOCK)
    try:
        listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
        listener.bind((ip, port))
        listener.listen(4096)
    except BaseException:
        listener.close()
        raise
    return listener


def accept(listener: Raw) -> Raw | None:
    """A non-blocking connection that waits at the listener, or None."""
    try:
        descriptor, _ = listener._accept()  # type: ignore[attr-defined]
    except OSError:  # none, or it has gone again
        return None
    accepted = Raw(listener.family, _socket.SOCK_STREAM, 0, descriptor)
    originals.set_inheritable(descriptor, False)
    accepted.setblocking(False)
    quicken(accepted)
    return accepted
