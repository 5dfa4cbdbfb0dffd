"""Names that processes of one user have on this host, without a server.

A name is a listener in the abstract UNIX namespace, made of a service, the user and the name. So it dies with its
process, is never stale, and belongs to its user: the kernel tells both ends who the other is. Who asks at a name gets
one short text, as a rule an address.
"""

from __future__ import annotations

import _socket
import struct

from ..system.originals import originals
from . import unix_calls

ANSWER_BYTES = 64
LONGEST = 70  # bytes of a name: an abstract one has 107
ANSWERS_WITHIN = 5.0  # seconds
_BACKLOG = 512
_TIMEVAL = struct.Struct("ll")


class NotOwn(ConnectionError):
    """The name is in another user's hands."""


class Unknown(LookupError):
    """Nobody of this host has the name, or whoever has it does not answer."""


class Silent(Unknown):
    """A process has the name, and did not answer in time."""


def check(name: str) -> str:
    """The name, if it can be one. Raises ValueError, and TypeError for what is no text."""
    if not isinstance(name, str):
        raise TypeError(f"{name!r} is no name: a name is text, of 1 to {LONGEST} printable bytes")
    if not name or name.startswith("/") or not name.isprintable() or len(name.encode()) > LONGEST:
        raise ValueError(f"{name!r} is no name: give 1 to {LONGEST} printable bytes, no slash first")
    return name


def unix_name(service: str, name: str) -> bytes:
    """The abstract UNIX name of this user."""
    return f"\0fastsock/{service}/{originals.geteuid()}/{name}".encode()


def listen(service: str, name: str) -> int:
    """The descriptor of a listener at the name. Raises OSError: another process has the name."""
    listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK | _socket.SOCK_CLOEXEC)
    try:
        listener.bind(unix_name(service, name))
        listener.listen(_BACKLOG)
        return listener.detach()
    except OSError:
        listener.close()
        raise


def answer(listener: int, text: str) -> None:
    """Tells the text to those who ask at the name. Only processes of this user are told."""
    line = text.encode().ljust(ANSWER_BYTES)
    while True:
        try:
            descriptor = unix_calls.accept(listener)
        except OSError:  # none waits, or it has left
            return
        stream = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, descriptor)
        try:
            if unix_calls.is_own_user(unix_calls.peer(descriptor)[1]):
                stream.send(line, _socket.MSG_NOSIGNAL | _socket.MSG_DONTWAIT)
        except OSError:  # it has left
            continue
        finally:
            stream.close()


def ask(service: str, name: str, within: float = ANSWERS_WITHIN) -> str:
    """The text that is told at the name. Raises Unknown, Silent after `within` seconds, NotOwn."""
    until = originals.monotonic() + within
    stream = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    try:
        process, user = 0, -1
        try:
            _wait_at_most(stream, within)  # the kernel waits so long where the backlog is full
            stream.connect(unix_name(service, name))
            process, user = unix_calls.peer(stream.fileno())
            if not unix_calls.is_own_user(user):
                raise NotOwn(f"{name!r} is in the hands of process {process} of user {user}: it is not asked")
            text = b""
            while len(text) < ANSWER_BYTES:
                stream.settimeout(max(until - originals.monotonic(), 0.001))
                part = stream.recv(ANSWER_BYTES - len(text))
                if not part:
                    raise Unknown(f"process {process}, which has the name {name!r}, closed without an answer")
                text += part
        except ConnectionRefusedError:
            raise Unknown(f"nobody on this host has the name {name!r}") from None
        except (TimeoutError, BlockingIOError):
            who = f"process {process}" if process else "a process"
            raise Silent(
                f"{who} of this host has the name {name!r}, and did not answer within {within:.3g} s: it is stopped or"
                " busy, or does not serve yet"
            ) from None
    except OSError as error:
        if isinstance(error, NotOwn):
            raise
        raise Unknown(f"{name!r} does not answer: {error}") from error
    finally:
        stream.close()
    return text.decode("utf-8", "replace").strip()


def _wait_at_most(stream: _socket.socket, seconds: float) -> None:
    """A connect() that the kernel holds back raises BlockingIOError then."""
    whole = int(seconds)
    wait = _TIMEVAL.pack(whole, max(int((seconds - whole) * 1e6), 1))  # 0 and 0 would be for ever
    stream.setblocking(True)
    stream.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDTIMEO, wait)


def names_here(service: str) -> list[str]:
    """The names of this user on this host."""
    prefix = unix_name(service, "")[1:].decode()
    found = set()
    with originals.open_file("/proc/net/unix") as file:
        for line in file:
            path = line.rstrip("\n").split(" ", 7)[-1].lstrip()
            place = path.find("@" + prefix)
            if place >= 0:
                found.add(path[place + 1 + len(prefix) :])
    return sorted(found)
