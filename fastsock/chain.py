"""The failover chain: the paths to try for a peer, in their order, and the reason for each refusal."""

from __future__ import annotations

import _socket
import itertools
import sys
from collections.abc import Iterator, Sequence

from . import core
from .config import BETWEEN_HOSTS, KNOWN_TRANSPORTS, ONLY_BY_NAME, Settings, settings
from .shm import ShmTransport
from .system.originals import originals
from .tcp import TcpTransport
from .transport import Capability, Reason, Refused, Transport


class _Log:
    """The logger "fastsock". It is silent until the program imports `logging`: before, no handler can exist.

    To import `logging`, with the modules that it imports, would make up a third of fastsock's own start-up time.
    """

    def debug(self, text: str, *values: object) -> None:
        self._log("debug", text, *values)

    def info(self, text: str, *values: object) -> None:
        self._log("info", text, *values)

    def _log(self, level: str, text: str, *values: object) -> None:
        make = getattr(sys.modules.get("logging"), "getLogger", None)
        if make is not None:
            getattr(make("fastsock"), level)(text, *values, stacklevel=3)


log = _Log()

_MADE: dict[str, Transport] = {path.name: path for path in (ShmTransport(), TcpTransport())}
_OF_SOCKETS_DIRECT = ("/proc/sys/net/smc", "/proc/net/sdp")  # of a kernel that has AF_SMC or AF_INET_SDP
_IPV4_IPV6_UNIX = (_socket.AF_INET, _socket.AF_INET6, getattr(_socket, "AF_UNIX", None))  # Windows has no third one


def _named(name: str) -> Transport:
    path = _MADE.get(name)
    if path is None:
        path = _MADE[name] = _made(name)
    return path


def _made(name: str) -> Transport:
    """A path that is imported only where somebody names it: most programs never do."""
    if name == "sdp":
        from .sdp import SdpTransport

        return SdpTransport()
    if name == "rdma":
        from .rdma import RdmaTransport

        return RdmaTransport()
    if name == "rsockets":
        from .rdma import RsocketsTransport

        return RsocketsTransport()
    raise LookupError(f"config.KNOWN_TRANSPORTS has {name!r}, and no class is known for it here")


def transports() -> Iterator[Transport]:
    """Every path that this version knows, fastest first."""
    return map(_named, KNOWN_TRANSPORTS)


def between_hosts(direction: str, ip: str, port: int) -> tuple[Transport | None, Reason]:
    """The path that such a connection may take to another host, or None with the reason.

    direction is "connect" or "listen"; ip (numeric) and port are the listener's.
    """
    global _far, _far_for
    current = settings()
    if _far_for is not current or len(_far) > 4096:
        _far, _far_for = {}, current
    key = (direction, ip, port)
    known = _far.get(key)
    if known is None:
        known = _far[key] = _between_hosts(current, direction, ip, port)
    return known


def beside_tcp(direction: str, ip: str, port: int) -> tuple[Sequence[Transport], Reason]:
    """The usable paths of other authors that settings and rules name before shm, best first.

    Where they name none, the reason is JOINED: nothing is refused. Arguments as between_hosts().
    """
    names, _ = settings().paths_for(direction, ip, port)
    found: list[Transport] = []
    reason = Reason.JOINED
    for path in map(_named, itertools.takewhile(lambda name: name not in ("shm", "tcp"), names)):
        if direction == "connect" and _opens(path):  # whatever comes behind it is not reached
            break
        if _meets(path):
            refused = path.usable()
            if refused is None:
                found.append(path)
            else:
                reason = refused
    return found, Reason.JOINED if found else reason


def stays_on_tcp(direction: str, ip: str, port: int) -> Refused | None:
    """Why settings and rules let no memory be added to such a connection, or None. Arguments as between_hosts()."""
    names, rule = settings().paths_for(direction, ip, port)
    if "shm" in names:
        return None
    for name in reversed(names):
        reason = _named(name).usable() if name in ONLY_BY_NAME else None
        if reason is not None:
            return Refused(reason)
    return Refused(Reason.EXCLUDED_BY_SETTING) if rule is None else Refused(Reason.EXCLUDED_BY_RULE, str(rule))


def may_open() -> bool:
    """Whether the settings in force let a path make sockets in place of TCP's, for anybody."""
    global _may_open, _may_open_for
    current = settings()
    if _may_open_for is not current:
        named = {*current.transports, *(name for rule in current.rules for name in rule.transports)}
        _may_open, _may_open_for = any(map(_opens, map(_named, named.difference(BETWEEN_HOSTS)))), current
    return _may_open


def leads_elsewhere() -> bool:
    """Whether a connection of this process may leave TCP, now or later: for another host, for a socket in place of
    TCP's, or for a path of another author.
    """
    return core.has_rdma_device() or any(map(_exists, _OF_SOCKETS_DIRECT)) or may_open() or may_span() or may_meet()


def may_meet() -> bool:
    """Whether there is a path of another author that meets beside TCP."""
    return any(map(_meets, _MADE.values()))


def may_span() -> bool:
    """Whether the settings in force name a path between hosts, for anybody."""
    current = settings()
    return any(name in BETWEEN_HOSTS for name in current.transports) or any(
        name in BETWEEN_HOSTS for rule in current.rules for name in rule.transports
    )


def opener(direction: str, ip: str, port: int) -> Transport | None:
    """The usable path that makes the sockets for this address in place of TCP's, or None."""
    names, rule = settings().paths_for(direction, ip, port)
    for path in filter(_opens, (_named(name) for name in names if name not in BETWEEN_HOSTS)):
        # Plain TCP must go on reaching a listener, unless a rule for that listener says otherwise.
        if direction == "connect" or rule is not None or path.meets_tcp():
            return path
    return None


def opener_of(domain: int) -> Transport | None:
    """The path that made sockets of this address family, or None."""
    if domain in _IPV4_IPV6_UNIX:
        return None
    return next((path for path in transports() if path.owns(domain)), None)


def _exists(path: str) -> bool:
    try:
        originals.stat(path)
    except OSError:
        return False
    return True


def _meets(path: Transport) -> bool:
    return bool(path.capabilities & Capability.MEETS_BESIDE_TCP)


def _opens(path: Transport) -> bool:
    return bool(path.capabilities & Capability.OPENS_SOCKET) and path.usable() is None


_may_open = False
_may_open_for: Settings | None = None

# Every connect and accept asks for these. They hold as long as the settings do.
_far: dict[tuple[str, str, int], tuple[Transport | None, Reason]] = {}
_far_for: Settings | None = None


def _between_hosts(current: Settings, direction: str, ip: str, port: int) -> tuple[Transport | None, Reason]:
    names, rule = current.paths_for(direction, ip, port)
    reason = Reason.EXCLUDED_BY_SETTING if rule is None else Reason.EXCLUDED_BY_RULE
    for name in names:
        if name not in BETWEEN_HOSTS:
            continue
        if core.available and not core.has_rdma_device():  # most hosts: then the path is not even imported
            reason = Reason.NO_RDMA_DEVICE
            continue
        path = _named(name)
        refused = path.usable()
        if refused is None:
            return path, Reason.JOINED
        reason = refused
    return None, reason
