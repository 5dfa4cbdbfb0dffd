"""From a host and a port to a session: all of it until one time, and with errors that say what was tried.

A host is looked up in a thread, because the system's call cannot be given a time.
"""

from __future__ import annotations

import _socket
import socket as standard
from _thread import allocate_lock
from typing import TYPE_CHECKING, Any

from ... import socket as fast
from ...connection import carriers
from ...system import proof
from ...system.originals import originals
from ...system.starting import start_thread
from ..errors import ConnectError, ConnectRefused, ConnectTimeout, LostPeer, Refused, RmiError, UnknownHost
from ..objects.session import Session
from ..wire import hello

if TYPE_CHECKING:
    from collections.abc import Callable
    from ssl import SSLContext

    from ..objects.session import Limits
    from ..threads.workers import Pool

_NUMERIC = ((_socket.AF_INET, 2), (_socket.AF_INET6, 4))


class Attempt:
    """One attempt to reach a daemon: what for, and until when.

    what: the address that the program gave, which begins each error's text. seconds: for all of it.
    """

    __slots__ = ("seconds", "until", "what")

    def __init__(self, what: str, seconds: float) -> None:
        self.what = what
        self.seconds = seconds
        self.until = originals.monotonic() + seconds

    def left(self) -> float:
        """The seconds that are left. Raises TimeoutError."""
        left = self.until - originals.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def late(self, text: str) -> ConnectTimeout:
        """The error of an attempt that took too long."""
        return ConnectTimeout(f"{self.what}: {text} within {self.seconds:.3g} s")


def open_session(
    host: str,
    port: int,
    attempt: Attempt,
    key: bytes,
    trust_pickle: bool,
    context: SSLContext | None,
    pool: Pool,
    limits: Limits,
    named: Callable[[str, Any], Any],
) -> Session:
    """A session with the daemon at an address, after both ends proved the key. Raises RmiError.

    named: as of a Session.
    """
    where = place(host, port)
    sock: Any = stream_to(host, port, attempt)
    path = sock.transport
    try:
        sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        beneath = sock
        if context is not None:
            sock = secured(sock, context, host, attempt)
        end = hello.Connector(key, trust_pickle, carriers.takes_memory(beneath))
        proof.drive(sock, end, end.start(), attempt.left())
        sock.settimeout(None)
        assert end.other is not None
        if end.other.takes_memory:
            carriers.attach_agreed(beneath)
    except BaseException as error:
        sock.close()
        failure = _of_hello(error, where, path, attempt)
        if failure is None:
            raise
        raise failure from error
    trust = trust_pickle and end.other.trusts_pickle
    return Session(sock, pool, where, limits, named=named, version=end.other.version, trust_pickle=trust)


def _of_hello(error: BaseException, where: str, path: str, attempt: Attempt) -> RmiError | None:
    """The error that a program is told of in place of this one, or None."""
    if isinstance(error, RmiError):
        return None
    if isinstance(error, proof.HelloError):
        return Refused(f"{attempt.what}: {where}: {error}")
    if isinstance(error, TimeoutError):
        late = attempt.late(f"{where} took the connection ({path}), and did not answer the hello")
        late.args = (f"{late}: another program listens there, or the daemon's process is stopped or busy",)
        return late
    if isinstance(error, OSError):
        return LostPeer(f"{attempt.what}: {where} ended the connection ({path}) during the hello: {error}")
    return None


def stream_to(host: str, port: int, attempt: Attempt) -> Any:
    """A connected socket. Raises ConnectError."""
    where = place(host, port)
    found = look_up(host, port, attempt)
    failed: OSError | None = None
    for tried, (family, address) in enumerate(found):
        sock: Any = None
        try:
            sock = fast.socket(family, _socket.SOCK_STREAM)
            sock.settimeout(attempt.left() / (len(found) - tried))
            sock.connect(address)
            return sock
        except OSError as error:
            failed = error
            if sock is not None:
                sock.close()
        except BaseException:
            if sock is not None:
                sock.close()
            raise
    raise _of_connecting(failed, where, attempt) from failed


def _of_connecting(error: OSError | None, where: str, attempt: Attempt) -> ConnectError:
    failure: ConnectError
    if isinstance(error, TimeoutError):
        failure = attempt.late(f"{where} did not take the connection (tcp)")
        failure.args = (
            f"{failure}: its host is down, a firewall drops what is sent, or its daemon's process is stopped",
        )
    elif isinstance(error, ConnectionRefusedError):
        failure = ConnectRefused(
            f"{attempt.what}: nobody listens at {where} (tcp): start the daemon there, or correct the address"
        )
    else:
        why = error.strerror or error if error is not None else "it has no address"
        failure = ConnectError(f"{attempt.what}: no connection to {where} (tcp): {why}")
    failure.errno = error.errno if error is not None else None
    return failure


def look_up(host: str, port: int, attempt: Attempt) -> list[tuple[int, Any]]:
    """The families and addresses of a host, the best first. Raises UnknownHost, ConnectTimeout."""
    for family, size in _NUMERIC:
        try:
            _socket.inet_pton(family, host)
        except (OSError, ValueError):
            continue
        return [(family, (host, port, 0, 0)[:size])]
    answer: Any
    try:
        answer = _within(attempt.left(), standard.getaddrinfo, host, port, 0, _socket.SOCK_STREAM)
    except TimeoutError:
        raise attempt.late(f"the host {host!r} was not found") from None
    except (OSError, UnicodeError) as error:
        unknown = UnknownHost(
            f"{attempt.what}: the host {host!r} is unknown ({getattr(error, 'strerror', None) or error}): correct the"
            " address"
        )
        unknown.errno = getattr(error, "errno", None)
        raise unknown from error
    return [(each[0], each[4]) for each in answer]


def _within(seconds: float, function: Any, *arguments: Any) -> Any:
    """What the function returns or raises. Raises TimeoutError after so many seconds: a thread goes on with it."""
    done = allocate_lock()
    done.acquire()
    answer: list[Any] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            answer.append(function(*arguments))
        except BaseException as error:
            failed.append(error)
        finally:
            done.release()

    if not start_thread(run, name="fastsock.rmi.look-up"):
        return function(*arguments)
    if not done.acquire(timeout=seconds):
        raise TimeoutError
    if failed:
        raise failed[0]
    return answer[0]


def secured(sock: Any, context: SSLContext, host: str, attempt: Attempt) -> Any:
    """The socket with TLS, after its handshake. Raises Refused where the certificate is not the host's."""
    from ..wire.secured import SecuredSocket  # OpenSSL, where it is wanted

    wrapped = SecuredSocket(sock, context, host)
    try:
        wrapped.shake_hands(attempt.left)
    except TimeoutError:
        raise
    except OSError as error:
        raise Refused(f"{attempt.what}: {host}: the TLS handshake failed: {error}") from error
    return wrapped


def place(host: str, port: int) -> str:
    """host:port, with brackets around an address of IPv6."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
