"""Addresses of objects: `rmi:name` on this host, `rmi://host:port/name` anywhere. With `rmis` the connection has TLS.

On one host no server is asked: a daemon has the object's name for itself (meeting/user_names.py), and tells the address
of its TCP listener there.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ...meeting import arrivals, user_names
from ..errors import BadAddress, ConnectTimeout, Refused, UnknownObject

_SERVICE = "rmi/1"
_FORM = re.compile(
    r"rmi(?P<secured>s)?:(?://(?P<host>\[[^\]]+\]|[^/:\[\]]+):(?P<port>\d{1,5})/)?(?P<name>[^/\0][^\0]*)"
)


class Address(NamedTuple):
    """Where an object is. Without a host: on this host, by its name alone."""

    host: str
    port: int
    name: str
    secured: bool = False


def secured(text: str) -> str:
    """The address, for a connection with TLS."""
    return text if text.startswith("rmis:") else "rmis" + text.removeprefix("rmi")


def parse(text: str) -> Address:
    """The address that a text names. Raises BadAddress."""
    found = _FORM.fullmatch(text) if isinstance(text, str) else None
    if found is None or int(found["port"] or 0) > 0xFFFF:
        raise BadAddress(f"{text!r} is no address: write rmi:name, or rmi://host:port/name")
    host = (found["host"] or "").strip("[]")
    return Address(host, int(found["port"] or 0), found["name"], found["secured"] is not None)


def host_and_port(text: str) -> tuple[str, int]:
    """Host and port of a text host:port. An address of IPv6 stands in brackets. Raises ValueError."""
    host, _, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 0xFFFF or (":" in host and not bracketed):
        raise ValueError(f"{text!r} is not host:port, with a port up to 65535")
    return host.strip("[]"), int(port)


def check_name(name: str) -> str:
    """The name, if an object can be registered by it. Raises ValueError, TypeError."""
    return user_names.check(name)


def listen(name: str) -> int:
    """The descriptor of a listener at an object's name. Raises Refused where another process of this host has it."""
    try:
        listener = user_names.listen(_SERVICE, name)
    except OSError as error:
        raise Refused(f"the name {name!r} cannot be registered: another process has it, or {error}") from error
    arrivals.ring(_SERVICE, name)
    return listener


def answer(listener: int, host: str, port: int) -> None:
    """Tells those who ask at the name where the daemon listens. Only processes of this user are told."""
    user_names.answer(listener, f"{host} {port}")


def resolve(name: str, within: float = user_names.ANSWERS_WITHIN) -> tuple[str, int]:
    """Host and port of the daemon that registered a name on this host.

    Raises UnknownObject where there is none, ConnectTimeout where it does not answer within so many seconds, Refused
    where the name is in another user's hands.
    """
    try:
        text = user_names.ask(_SERVICE, name, within)
    except user_names.NotOwn as error:
        raise Refused(f"rmi:{name}: {error}") from error
    except user_names.Silent as error:
        raise ConnectTimeout(f"rmi:{name}: {error}") from error
    except user_names.Unknown as error:
        raise UnknownObject(f"rmi:{name}: {error}; `fastsock list` shows what there is") from error
    host, _, port = text.rpartition(" ")
    return host, int(port)


class Waiting(arrivals.Room):
    """One who waits until a process of this host has an object's name. It leaves at the end of `with`."""

    def __init__(self, name: str) -> None:
        super().__init__(_SERVICE, name)

    def __enter__(self) -> Waiting:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()


def names_here() -> list[str]:
    """The names that processes of this user have registered on this host."""
    return user_names.names_here(_SERVICE)
