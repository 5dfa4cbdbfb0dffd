"""The failover chain: which path for this peer, in what order, and the reason for each refusal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from .config import KNOWN_TRANSPORTS, Rule, Settings, settings
from .shm import ShmTransport
from .tcp import TcpTransport
from .transport import Capability, Reason, Transport
from .unix import UnixTransport


class _Log:
    """The logger "fastsock", silent until the program imports `logging`: nobody can listen before.

    That module and what it imports would be a third of what fastsock adds to the start of a process.
    """

    def debug(self, text: str, *values: object) -> None:
        self._tell("debug", text, *values)

    def info(self, text: str, *values: object) -> None:
        self._tell("info", text, *values)

    def _tell(self, level: str, text: str, *values: object) -> None:
        make = getattr(sys.modules.get("logging"), "getLogger", None)
        if make is not None:
            getattr(make("fastsock"), level)(text, *values, stacklevel=3)


log = _Log()

_MADE: dict[str, Transport] = {path.name: path for path in (ShmTransport(), UnixTransport(), TcpTransport())}
_TRANSPORTS = {name: _MADE[name] for name in KNOWN_TRANSPORTS}
_BY_NUMBER = {path.number: path for path in _TRANSPORTS.values()}


def transports() -> Iterator[Transport]:
    """Every path that this version knows, fastest first."""
    return iter(_TRANSPORTS.values())


def by_number(number: int) -> Transport | None:
    """The path with this number on the wire of the meeting, or None."""
    return _BY_NUMBER.get(number)


def candidates(direction: str, ip: str, port: int) -> tuple[Sequence[Transport], Reason]:
    """The usable paths that may be agreed on beside TCP, in order; where none, the reason is why.

    direction is "connect" or "listen"; ip and port are the listener's.
    """
    global _found, _found_for
    current = settings()
    if _found_for is not current or len(_found) > 4096:
        _found, _found_for = {}, current
    key = (direction, ip, port)
    known = _found.get(key)
    if known is None:
        known = _found[key] = _candidates(current, direction, ip, port)
    return known


def nothing_but_tcp() -> Reason | None:
    """Why no connection to or from anybody may take another path, or None."""
    current = settings()
    return Reason.EXCLUDED_BY_SETTING if current.transports[0] == "tcp" and not current.rules else None


# asked at every connect and accept, and the same as long as the settings are
_found: dict[tuple[str, str, int], tuple[Sequence[Transport], Reason]] = {}
_found_for: Settings | None = None


def _candidates(current: Settings, direction: str, ip: str, port: int) -> tuple[Sequence[Transport], Reason]:
    names: tuple[str, ...]
    rule: Rule | None
    names, rule = current.paths_for(direction, ip, port)
    reason = Reason.EXCLUDED_BY_SETTING if rule is None else Reason.EXCLUDED_BY_RULE
    found: list[Transport] = []
    for name in names:
        if name == "tcp":
            break
        path = _TRANSPORTS[name]
        if not path.capabilities & Capability.MEETS_BESIDE_TCP:
            continue
        refused = path.usable()
        if refused is None:
            found.append(path)
        else:
            reason = refused
            log.debug("%s path refused: %s", name, refused)
    return tuple(found), Reason.JOINED if found else reason
