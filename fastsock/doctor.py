"""Which paths work here, which do not, why, what to do, and how fast they are.

    python -m fastsock.doctor [--json] [--no-measure] [HOST PORT]

With HOST and PORT it connects there, as any program would, and says which path that connection takes.
The exit status is 0 where programs can communicate at all: tcp works, the settings can be read, and
HOST and PORT, if given, were reached; else 1. A command line that makes no sense gives 2.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from . import __version__, chain, config, core, measure
from .transport import Capability, Reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .transport import Transport

NEAR_US = 0.25  # a cache line's round trip between cores that share a cache takes 0.05 to 0.1, else about 0.5
BUSY_US = 2.0  # no two cores are so far apart: something else ran on one of them
CONNECT_SECONDS = 5.0

Findings = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line ``arguments`` (default: ``sys.argv[1:]``), print, and exit."""
    options = _parser().parse_args(arguments)
    if (options.host is None) != (options.port is None):
        _parser().error("give both HOST and PORT, or neither")
    findings = examine(options.host, options.port, measuring=options.measure)
    if options.json:
        print(json.dumps(findings, indent=2))
    else:
        print("\n".join(lines(findings, _colours(sys.stdout))))
    sys.exit(0 if findings["healthy"] else 1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m fastsock.doctor",
        description="Which paths work here, which do not, why, what to do, and how fast they are.",
    )
    parser.add_argument("host", nargs="?", metavar="HOST", help="connect there and say which path that takes")
    parser.add_argument("port", nargs="?", metavar="PORT", type=_port)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--no-measure", dest="measure", action="store_false", help="do not measure the paths")
    return parser


def _port(text: str) -> int:
    port = int(text)
    if not 0 < port < 65536:
        raise argparse.ArgumentTypeError(f"{text} is no port; write a number from 1 to 65535")
    return port


# Finding out


def examine(host: str | None = None, port: int | None = None, *, measuring: bool = True) -> Findings:
    """Everything that the doctor says, as plain values: what ``--json`` prints.

    Times are microseconds, rates 10**9 bytes a second. What cannot be found out is None.
    """
    problems = [f"{name} is set, but is no setting of fastsock" for name in config.unknown_variables()]
    healthy = True
    try:
        settings = config.settings()
    except config.ConfigError as error:
        problems.append(f"the settings cannot be used, so every program that uses fastsock will fail: {error}")
        healthy = False
        settings = _default_settings()
    paths = [_path(path, settings) for path in chain.transports()]
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
        "transports": list(settings.transports),
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
    """Fill in what each path gives; the answer is what went wrong."""
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
    from . import explain, socket

    found: Findings = {"host": host, "port": port, "reached": False, "error": None}
    try:
        sock = socket.create_connection((host, port), timeout=CONNECT_SECONDS)
    except (OSError, UnicodeError) as error:
        found["error"] = f"{getattr(error, 'strerror', None) or error}"
        return found
    with sock:
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


# Saying it


class Colours:
    """Escape sequences for a terminal, or nothing."""

    def __init__(self, enabled: bool) -> None:
        self.good, self.bad, self.doubtful, self.strong, self.plain = (
            ("\033[32m", "\033[31m", "\033[33m", "\033[1m", "\033[0m") if enabled else ("",) * 5
        )

    def paint(self, colour: str, text: str) -> str:
        return f"{colour}{text}{self.plain}" if colour else text


def _colours(stream: Any) -> Colours:
    return Colours(stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb")


def lines(findings: Findings, colours: Colours) -> Iterator[str]:
    """The findings for a reader."""
    yield f"fastsock {findings['version']}, Python {findings['python']}, {findings['system']}"
    yield f"native core  {_said_of_core(findings['native_core'], colours)}"
    yield f"cores        {_said_of_cores(findings['cores'])}"
    yield f"direct copy  {_said_of_direct_copy(findings['direct_copy'])}"
    yield f"order        {', '.join(findings['transports'])}"
    for rule in findings["rules"]:
        yield f"rule         {rule}"
    yield ""
    yield from _table(findings["paths"], colours)
    for path in findings["paths"]:
        yield from _said_of_path(path, colours)
    if "connection" in findings:
        yield ""
        yield from _said_of_connection(findings["connection"], colours)
    for problem in findings["problems"]:
        yield f"{colours.paint(colours.bad, 'problem:')} {problem}"


def _said_of_core(found: Findings, colours: Colours) -> str:
    if found["built"]:
        return colours.paint(colours.good, "built")
    meaning = "on one host the unix path carries the bytes instead of shared memory"
    return f"{colours.paint(colours.bad, 'not built')}: {found['why_not']}; until then {meaning}"


def _said_of_cores(found: Findings) -> str:
    text = f"{found['usable']} usable"
    if found["usable"] == 1:
        return f"{text}: both ends take turns on it, so waiting costs a switch between them"
    if found["cache_line_round_trip_us"] is None:
        return text
    if found["distance"] is None:
        return f"{text}, too busy to tell whether they are near each other"
    effect = "" if found["distance"] == "near" else ", which makes shared memory several times slower than near ones"
    return (
        f"{text}, {found['distance']} {'to' if found['distance'] == 'near' else 'from'} each other now "
        f"(a cache line's round trip takes {found['cache_line_round_trip_us']:.2f} us){effect}"
    )


def _said_of_direct_copy(found: Findings) -> str:
    if found["permitted"] is None:
        return "needs the native core"
    if not found["permitted"]:
        return (
            f"not permitted ({found['why_not']}): large messages are copied twice; process_vm_readv needs "
            "kernel.yama.ptrace_scope=0, and in a container a seccomp profile that allows it"
        )
    if found["from_bytes"] is None:
        return "permitted, but turned off; see FASTSOCK_DIRECT_MIN"
    return f"permitted, for messages of {found['from_bytes'] / 1024:,.0f} KiB and more"


def _table(paths: list[Findings], colours: Colours) -> Iterator[str]:
    yield colours.paint(colours.strong, f"{'path':<6} {'':<14} {'1 B round trip':>24} {'1 MiB messages':>24}")
    for path in paths:
        if not path["works"]:
            state, colour = "does not work", colours.bad
        elif not path["allowed"]:
            state, colour = "not asked for", colours.doubtful
        else:
            state, colour = "works", colours.good
        columns = (
            _beside_tcp(path, "round_trip_us", "us", "times_faster"),
            _beside_tcp(path, "gigabytes_per_second", "GB/s", "times_the_rate"),
        )
        row = f"{path['name']:<6} {colours.paint(colour, f'{state:<14}')} {columns[0]:>24} {columns[1]:>24}"
        yield row.rstrip()


def _beside_tcp(path: Findings, name: str, unit: str, ratio: str) -> str:
    if path[name] is None:
        return ""
    text = f"{path[name]:.{0 if path[name] >= 100 else 1 if path[name] >= 10 else 2}f} {unit}"
    if path["name"] == "tcp" or path[ratio] is None:
        return text
    return f"{text} ({path[ratio]:.{0 if path[ratio] >= 10 else 1}f} x tcp)"


def _said_of_path(path: Findings, colours: Colours) -> Iterator[str]:
    advice = f"; {path['advice']}" if path["advice"] else ""
    if not path["works"]:
        yield f"{path['name']}: {colours.paint(colours.bad, _plain_words(path['reason']))}{advice}"
    elif not path["allowed"]:
        yield f"{path['name']}: {colours.paint(colours.doubtful, 'not in the order above')}; see FASTSOCK_TRANSPORTS"


def _said_of_connection(found: Findings, colours: Colours) -> Iterator[str]:
    where = f"{found['host']} port {found['port']}"
    if not found["reached"]:
        yield f"{where}: {colours.paint(colours.bad, 'not reached')}: {found['error']}"
        return
    fast = found["transport"] != "tcp"
    path = colours.paint(colours.good if fast else colours.doubtful, found["transport"])
    yield f"{where}: takes {path}: {_plain_words(found['reason'])}"
    if found["advice"]:
        yield f"  what to do: {found['advice']}"
    if found["rule"]:
        yield f"  chosen by the rule: {found['rule']}"
    if found["peer_pid"]:
        yield f"  the other end is process {found['peer_pid']}"


def _plain_words(reason: str) -> str:
    return reason.replace("_", " ")


if __name__ == "__main__":
    main()
