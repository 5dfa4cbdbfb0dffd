"""The findings of the doctor, as plain values."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING

from .. import __version__, chain, config, core
from ..system import variables
from ..transport import Capability, Reason
from . import hardware, measure
from .hardware import Findings

if TYPE_CHECKING:
    from ..transport import Transport

NEAR_US = 0.25  # a cache line's round trip between cores that share a cache takes 0.05 to 0.1, else about 0.5
BUSY_US = 2.0  # no two cores are so far apart: other work ran on one of them
CONNECT_SECONDS = 5.0
ATTACH_SECONDS = 0.5  # the server may call something meanwhile


def examine(host: str | None = None, port: int | None = None, *, measuring: bool = True) -> Findings:
    """Everything that the doctor says, as plain values. ``--json`` prints them.

    Times are microseconds, rates 10**9 bytes a second. A value that cannot be found out is None.
    """
    unknown = variables.unknown(os.environ)
    os.environ[variables.WARNED_OF] = ",".join(unknown)  # they are told of here
    problems = [variables.description(name) for name in unknown]
    healthy = True
    try:
        settings = config.settings()
    except config.ConfigError as error:
        problems.append(f"the settings cannot be used, so every program that uses fastsock will fail: {error}")
        healthy = False
        settings = _default_settings()
    known = [*chain.transports()]
    paths = [_path(path, settings) for path in known]
    if measuring:
        problems += _measure(paths)
    healthy = healthy and any(path["name"] == "tcp" and path["works"] for path in paths)
    findings: Findings = {
        "version": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "native_core": {"built": bool(core.available), "why_not": core.why_not or None},
        "cores": _cores(),
        "direct_copy": _direct_copy(settings),
        "hardware": hardware.find(),
        "transports": [name for name in settings.transports if any(path.name == name for path in known)],
        "rules": [str(rule) for rule in settings.rules],
        "paths": paths,
    }
    if host is not None and port is not None:
        findings["connection"] = connection = _connection(host, port)
        healthy = healthy and connection["reached"]
    findings["problems"] = problems
    findings["healthy"] = healthy
    return findings


def _default_settings() -> config.Settings:
    """Forget the environment's settings, here and for the child that measures."""
    for name in [name for name in os.environ if name.startswith("FASTSOCK_")]:
        del os.environ[name]
    return config.reload()


def _path(path: Transport, settings: config.Settings) -> Findings:
    reason = path.usable()
    return {
        "name": path.name,
        "works": reason is None,
        "reason": None if reason is None else str(reason),
        "advice": None if reason is None else path.advice(reason) or None,
        "allowed": path.name in settings.transports,
        "same_host": bool(path.capabilities & Capability.SAME_HOST),
        "round_trip_us": None,
        "gigabytes_per_second": None,
        "times_faster": None,
        "times_the_rate": None,
    }


def _measure(paths: list[Findings]) -> list[str]:
    """Fill in the times and rates of each path. Returns the problems."""
    measurable = [path for path in paths if path["works"] and path["same_host"]]
    try:
        results = {each.name: each for each in measure.measure([path["name"] for path in measurable])}
    except OSError as error:
        return [f"the paths could not be measured: {error}"]
    tcp = results.get("tcp")
    for path in measurable:
        result = results[path["name"]]
        if not result.works:
            path["works"] = False
            path["reason"] = result.reason
            path["advice"] = _advice(path["name"], result.reason)
            continue
        path["round_trip_us"] = measure.middle(result.round_trips_us)
        path["gigabytes_per_second"] = measure.middle(result.gigabytes_per_second)
        if tcp is not None:
            path["times_faster"] = measure.ratio(tcp.round_trips_us, result.round_trips_us)
            path["times_the_rate"] = measure.ratio(result.gigabytes_per_second, tcp.gigabytes_per_second)
    return []


def _advice(name: str, reason: str) -> str | None:
    for path in chain.transports():
        if path.name == name:
            return path.advice(Reason(reason)) or None
    return None


def _cores() -> Findings:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    probes = [core.cache_line_round_trip_us() for _ in range(3)] if core.available else []
    round_trip = min((probe for probe in probes if probe is not None), default=None)
    distance = None
    if round_trip is not None and round_trip <= BUSY_US:
        distance = "near" if round_trip < NEAR_US else "far"
    return {"usable": usable, "cache_line_round_trip_us": round_trip, "distance": distance}


def _direct_copy(settings: config.Settings) -> Findings:
    """Whether large messages may be read out of the sender's memory, and from how many bytes on."""
    error = core.direct_copy_error() if core.available else None
    return {
        "permitted": None if error is None else error == 0,
        "why_not": os.strerror(error) if error else None,
        "from_bytes": settings.direct_min or None,
    }


def _connection(host: str, port: int) -> Findings:
    from .. import attach, explain, socket

    found: Findings = {"host": host, "port": port, "reached": False, "error": None}
    try:
        sock = socket.create_connection((host, port), timeout=CONNECT_SECONDS)
    except (OSError, UnicodeError) as error:
        found["error"] = f"{getattr(error, 'strerror', None) or error}"
        return found
    with sock:
        attach(sock, ATTACH_SECONDS)
        explanation = explain(sock)
        ip, at_port = sock.getpeername()[:2]
    paths, rule = config.settings().paths_for("connect", ip, at_port)
    found.update(
        reached=True,
        peer=ip,
        transport=explanation.transport,
        reason=explanation.reason,
        advice=None if explanation.transport != "tcp" else _advice("tcp", explanation.reason),
        peer_pid=explanation.peer_pid,
        allowed=list(paths),
        rule=None if rule is None else str(rule),
    )
    return found
