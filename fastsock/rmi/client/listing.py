"""What there is to call: the daemons of this user on this host, and the names of the name server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..errors import RmiError, UnknownObject
from . import addresses, connecting
from .connecting import Options, reach, status_of
from .reaching import Attempt


def daemons() -> tuple[list[dict[str, Any]], list[str]]:
    """What each daemon says of itself, and a line for each that did not answer.

    One that ended after its name was seen is no daemon any more, and no problem.
    """
    places: dict[tuple[str, int], list[str]] = {}
    found, problems = [], []
    for name in addresses.names_here():
        try:
            places.setdefault(addresses.resolve(name), []).append(name)
        except RmiError as error:
            if not _has_ended(name):
                problems.append(f"rmi:{name}: {error}")
    for (host, port), names in places.items():
        what, options = ", ".join(f"rmi:{name}" for name in names), Options()
        try:
            session = reach(host, port, options, attempt=Attempt(what, options.within))
            try:
                found.append(status_of(session))
            finally:
                session.close()
        except (RmiError, OSError) as error:
            if not all(map(_has_ended, names)):
                problems.append(str(error) if what in str(error) else f"{what}: {host}:{port}: {error}")
    return found, problems


def _has_ended(name: str) -> bool:
    """Whether no process has the name now."""
    try:
        addresses.resolve(name)
    except UnknownObject:
        return True
    except RmiError:
        return False
    return False


def names_at_server() -> tuple[dict[str, str], list[str]]:
    """The names that the server of FASTSOCK_RMI_NAMES knows, with their addresses, and a line if it did not answer."""
    server = connecting.names_setting()
    if not server:
        return {}, []
    try:
        names, session = connecting.names_at(server, Options())
        try:
            return {name: address for name, (address, _) in names.entries().items()}, []
        finally:
            session.close()
    except (RmiError, OSError) as error:
        return {}, [str(error)]


def lines(status: dict[str, Any]) -> Iterator[str]:
    """What a daemon says of itself, for people."""
    yield f"process {status['process']} at {status['address']}"
    for name, kind in sorted(status["objects"].items()):
        yield f"    rmi:{name}  {kind}"
    for each in status["connections"]:
        yield (
            f"    from {each['peer']} by {each['path']}: {each['frames']} messages, {each['bytes_received']} bytes in,"
            f" {each['bytes_sent']} out, {each['seconds']:.0f} s; holds {', '.join(each['objects']) or 'nothing'}"
        )
    for each in status.get("kept", ()):
        yield f"    lost from {each['peer']}: {', '.join(each['objects'])} kept for {each['seconds']:.0f} s"
