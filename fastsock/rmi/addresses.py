"""Addresses of objects: `rmi:name` on this host, `rmi://host:port/name` anywhere.

On one host no server is asked. A daemon listens at an abstract UNIX name made of its user and the object's name, and
answers with the address of its TCP listener. So a name dies with its process, is never stale, and belongs to its user:
the kernel tells both ends who the other is.
"""

from __future__ import annotations

import _socket
import re
import struct
from typing import NamedTuple

from ..meeting import unix_calls
from ..system.genuine import genuine
from .errors import Refused, UnknownObject

ANSWER_BYTES = 64
_PREFIX = "fastsock/rmi/1"
_LONGEST = 70  # an abstract name has 107 bytes
_FORM = re.compile(r"rmi:(?://(?P<host>\[[^\]]+\]|[^/:\[\]]+):(?P<port>\d{1,5})/)?(?P<name>[^/\0][^\0]*)")
_ANSWERS_WITHIN = 5.0  # seconds
_BACKLOG = 512
_PATIENCE = struct.pack("ll", int(_ANSWERS_WITHIN), 0)  # with which the kernel waits where the backlog is full


class Address(NamedTuple):
    """Where an object is. Without a host: on this host, by its name alone."""

    host: str
    port: int
    name: str


def parse(text: str) -> Address:
    """The address that a text names. Raises ValueError."""
    found = _FORM.fullmatch(text)
    if found is None or int(found["port"] or 0) > 0xFFFF:
        raise ValueError(f"{text!r} is no address: write rmi:name, or rmi://host:port/name")
    return Address((found["host"] or "").strip("[]"), int(found["port"] or 0), found["name"])


def check_name(name: str) -> str:
    """The name, if an object can be registered by it. Raises ValueError."""
    if not name or name.startswith("/") or not name.isprintable() or len(name.encode()) > _LONGEST:
        raise ValueError(f"{name!r} is no name for an object: give 1 to {_LONGEST} printable bytes, no slash first")
    return name


def unix_name(name: str) -> bytes:
    """The abstract UNIX name of an object of this user."""
    return f"\0{_PREFIX}/{genuine.geteuid()}/{name}".encode()


def listen(name: str) -> int:
    """The descriptor of a listener at an object's name. Raises Refused where another process of this host has it."""
    listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK | _socket.SOCK_CLOEXEC)
    try:
        listener.bind(unix_name(name))
        listener.listen(_BACKLOG)
        return listener.detach()
    except OSError as error:
        listener.close()
        raise Refused(f"the name {name!r} cannot be registered: another process has it, or {error}") from error


def answer(listener: int, host: str, port: int) -> None:
    """Tells those who ask at the name where the daemon listens. Only processes of this user are told."""
    text = f"{host} {port}".encode().ljust(ANSWER_BYTES)
    while True:
        try:
            descriptor = unix_calls.accept(listener)
        except OSError:  # none waits, or it has left
            return
        stream = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, descriptor)
        try:
            if unix_calls.is_own_user(unix_calls.peer(descriptor)[1]):
                stream.send(text, _socket.MSG_NOSIGNAL | _socket.MSG_DONTWAIT)
        except OSError:  # it has left
            continue
        finally:
            stream.close()


def resolve(name: str) -> tuple[str, int]:
    """Host and port of the daemon that registered a name on this host.

    Raises UnknownObject where there is none, Refused where the name is in another user's hands.
    """
    stream = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    try:
        stream.setblocking(True)
        stream.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDTIMEO, _PATIENCE)
        try:
            stream.connect(unix_name(name))
        except ConnectionRefusedError:
            raise UnknownObject(
                f"nobody on this host has registered {name!r}; python -m fastsock.rmi list shows what there is"
            ) from None
        process, user = unix_calls.peer(stream.fileno())
        if not unix_calls.is_own_user(user):
            raise Refused(f"rmi:{name} is in the hands of process {process} of user {user}: it is not asked")
        stream.settimeout(_ANSWERS_WITHIN)
        text = b""
        while len(text) < ANSWER_BYTES:
            part = stream.recv(ANSWER_BYTES - len(text))
            if not part:
                raise UnknownObject(f"rmi:{name}: process {process} closed without an answer")
            text += part
    except OSError as error:
        raise UnknownObject(f"rmi:{name} does not answer: {error}") from error
    finally:
        stream.close()
    host, _, port = text.decode("ascii", "replace").strip().rpartition(" ")
    return host, int(port)


def names_here() -> list[str]:
    """The names that processes of this user have registered on this host."""
    prefix = unix_name("")[1:].decode()
    found = set()
    with genuine.open_file("/proc/net/unix") as file:
        for line in file:
            path = line.rstrip("\n").split(" ", 7)[-1].lstrip()
            place = path.find("@" + prefix)
            if place >= 0:
                found.add(path[place + 1 + len(prefix) :])
    return sorted(found)
