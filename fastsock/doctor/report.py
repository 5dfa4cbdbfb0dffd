"""The doctor's findings, as text for a reader."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from . import hardware
from .hardware import Findings

if TYPE_CHECKING:
    from collections.abc import Iterator


class Colours:
    """Escape sequences for a terminal, or nothing."""

    def __init__(self, enabled: bool) -> None:
        self.good, self.bad, self.doubtful, self.strong, self.plain = (
            ("\033[32m", "\033[31m", "\033[33m", "\033[1m", "\033[0m") if enabled else ("",) * 5
        )

    def paint(self, colour: str, text: str) -> str:
        return f"{colour}{text}{self.plain}" if colour else text


def colours_for(stream: Any) -> Colours:
    return Colours(stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb")


def lines(findings: Findings, colours: Colours) -> Iterator[str]:
    """The findings, line by line."""
    yield f"fastsock {findings['version']}, Python {findings['python']}, {findings['system']}"
    yield f"native core  {_said_of_core(findings['native_core'], colours)}"
    yield f"cores        {_said_of_cores(findings['cores'])}"
    yield f"direct copy  {_said_of_direct_copy(findings['direct_copy'])}"
    yield from _said_of_hardware(findings["hardware"], colours)
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
    meaning = "every connection stays on TCP"
    return f"{colours.paint(colours.bad, 'not built')}: {found['why_not']}; without it {meaning}"


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


def _said_of_hardware(found: Findings, colours: Colours) -> Iterator[str]:
    """What there is between hosts. One line where there is nothing."""
    sockets = [*_said_of_smc(found["smc"]), *(["AF_INET_SDP"] if found["sdp"] else [])]
    if not found["devices"]:
        yield f"rdma         no device{'' if sockets else ', and no AF_SMC: between hosts connections use tcp'}"
    for device in found["devices"]:
        yield from _said_of_device(device, colours)
    if found["devices"]:
        yield f"libraries    {', '.join(map(_said_of_library, found['libraries']))}"
        yield f"memlock      {_said_of_memlock(found['memlock'])}"
        yield f"pyverbs      {_said_of_pyverbs(found['pyverbs'])}"
        for difference in found["pyverbs"]["differences"]:
            yield f"  {colours.paint(colours.bad, 'they differ:')} {difference}"
    for text in sockets:
        yield f"sockets      {text}"
    for line in hardware.advice(found):
        yield f"  {colours.paint(colours.doubtful, 'what to do:')} {line}"


def _said_of_device(device: Findings, colours: Colours) -> Iterator[str]:
    facts = [device["kind"]]
    if device["software"]:
        facts.append(f"{device['software']}: software, so no time on it is a figure")
    facts += [f"driver {device['driver']}"] if device["driver"] else []
    facts += [f"firmware {device['firmware']}"] if device["firmware"] else []
    facts.append(f"{device['file']}{'' if device['permitted'] else ' (closed)'}" if device["file"] else "no file")
    yield f"rdma         {device['name']}: {', '.join(facts)}"
    if device["limits"]:
        yield f"  limits      {_said_of_limits(device['limits'])}"
    for port in device["ports"]:
        state = colours.paint(colours.good if port["state"] == "ACTIVE" else colours.bad, port["state"] or "unknown")
        facts = [state, port["link_layer"], port["rate"]]
        facts += [f"on {port['netdev']}"] if port["netdev"] else []
        facts += [f"packets of {port['mtu']} bytes"] if port["mtu"] else []
        facts += [] if port["packets_sent"] is None else [f"{port['packets_sent']} packets sent"]
        yield f"  port {port['number']:<6} {', '.join(filter(None, facts))}"
        for gid in port["gids"]:
            on = f", {gid['netdev']}" if gid["netdev"] else ""
            yield f"  GID {gid['index']:<7} {gid['address']}, {gid['type'] or 'type unknown'}{on}"


def _said_of_library(library: Findings) -> str:
    if library["why_not"]:
        return f"{library['name']} cannot be opened"
    return f"{library['name']} ({library['package'] or library['file'] or 'of no package'})"


def _said_of_limits(found: Findings) -> str:
    pairs = f"{found['max_qp']:,} queue pairs of {found['max_qp_wr']:,} requests"
    others = f"{found['max_cq']:,} completion queues, {found['max_mr']:,} regions of memory"
    return f"{pairs}, {others}: enough for {found['sockets']:,} sockets over rdma"


def _said_of_pyverbs(found: Findings) -> str:
    if found["why_not"]:
        return "cannot be imported here, so nobody has asked the devices for their limits"
    return "says otherwise than the kernel's files" if found["differences"] else "says the same as the kernel's files"


def _said_of_memlock(found: Findings) -> str:
    if found["limit"] is None:
        return "unlimited" + (" (this user is exempt)" if found["exempt"] else "")
    socket, peer = (f"{found[what] / 2**20:g} MiB" for what in ("connection_bytes", "peer_bytes"))
    enough = f"{found['connections']} sockets over rdma of {socket}, or {found['peers']} ranks of ibvdev of {peer}"
    return f"{found['limit'] / 2**20:g} MiB: {enough}"


def _said_of_smc(found: Findings) -> Iterator[str]:
    if not found["opens"]:
        return
    devices = [f"SMC-R on {each['name']}" for each in found["smc_r"]]
    devices += [f"SMC-D on {each['name']}" for each in found["smc_d"]]
    ids = [each["name"] for each in found["enterprise_ids"]]
    names = ", ".join(devices) or "no device"
    yield f"AF_SMC: {names}" + (f"; enterprise id {', '.join(ids)}" if ids else "")


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
