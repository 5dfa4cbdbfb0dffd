"""One RDMA device: sockets of the rdma path and ranks on ibvdev, beside TCP and beside raw verbs (perftest).

python bench/rdma.py                              the first device with an active port; both ends on this host
python bench/rdma.py --device mlx5_0 --address 10.0.0.1 --sizes 8,4k,64k,1m --json FILE
tests/lab/run -- python bench/rdma.py --turns 1 --sizes 8,64k --count 10        in the lab

A socket's results count only where the device's own counter of packets moved, where the device has one. On a software
device (SoftRoCE, soft iWARP) and under emulation no time is a figure of performance: read the ratios as a check that
nothing is far off. Between two hosts: see docs/how-to/rdma.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from common import perftest, question, rdma_ranks, record, sizes, summary, system_calls, table, target
from common.exchange import PING_PONG, STREAM
from common.interleave import Sample, Skipped, Turns
from common.pair import Pair
from common.peers.stream_sockets import TcpPeer
from common.placement import Placement
from common.process import Broken, Unusable
from common.target import Result

TCP, RDMA = "tcp", "fastsock rdma"
# perftest's program, and what it is compared in
VERBS = {"ib_send_lat": PING_PONG, "ib_write_lat": PING_PONG, "ib_write_bw": STREAM, "ib_read_bw": STREAM}
PATIENCE_MS = "10000"  # for a meeting: what is measured comes after it
ENDS = {PING_PONG: ("ping", "pong"), STREAM: ("send", "receive")}
# By the processors of both ends. Nothing counts copies while a program runs: these are counted in the sources.
COPIES = {
    TCP: "2: into the kernel's buffer, out of the other's",
    RDMA: "2 from 3 KiB on: into this ring, out of the other; the device joins them. 5 below: also through a frame",
    rdma_ranks.IBVDEV: "0 beyond the eager limit: the device writes to where they belong. 2 below: through a pool",
    "raw verbs": "0",
}


def main() -> int:
    words = _arguments()
    try:
        device, port = _port(words.device)
        words.address = words.address or _address(port)
    except Unusable as error:
        print(f"rdma: {error}", file=sys.stderr)
        return 1
    print(_heading(device, port, words.address), flush=True)
    skipped = Skipped()
    pairs = _pairs(words, skipped)
    try:
        samples = measure(words, device["name"], pairs, skipped)
        calls = _system_calls(words, pairs, skipped)
    finally:
        for pair in pairs.values():
            pair.close()
    results = ratios(words, samples, skipped) + calls + _calls_of_ranks(words, device["name"], skipped)
    print(target.report(results))
    print(table.lines(["copies a message", ""], [[name, text] for name, text in COPIES.items()]))
    if words.json:
        about = {"device": device, "address": words.address, "copies": COPIES}
        record.write(words.json, {"about": about, "samples": samples, "results": results, "skipped": skipped})
    return 0 if samples else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    question.add_options(parser)
    parser.add_argument("--device", help="default: the first with an active port")
    parser.add_argument("--address", help="default: the first IPv4 address of the device's network device")
    parser.add_argument("--sizes", default="8,1k,4k,64k,256k,1m,4m", type=sizes.parse)
    parser.add_argument("--what", default="sockets,ranks", help="with commas: sockets, ranks (default: both)")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--count", type=int, default=0, help="messages a sample; default: by the size")
    words = parser.parse_args()
    if words.quick:
        words.turns, words.sizes, words.count = 2, [8, 64 << 10], words.count or 20
    return words


def _port(name: str | None) -> tuple[dict, dict]:
    for device in _doctor()["devices"]:
        for port in device["ports"]:
            if port["state"] == "ACTIVE" and name in (None, device["name"]):
                return device, port
    raise Unusable(f"no RDMA device {name or ''} with an active port: see fastsock doctor".replace("  ", " "))


def _doctor() -> dict:
    """In a process of its own: this one forks the ends, so it must not have opened fastsock or a device."""
    command = [sys.executable, "-m", "fastsock.doctor", "--no-measure", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout:
        raise Unusable(f"the doctor failed: {done.stderr.strip()[-200:]}")
    return json.loads(done.stdout)["hardware"]


def _address(port: dict) -> str:
    """RoCE has the address among its GIDs. Soft iWARP and InfiniBand do not."""
    for gid in port["gids"]:
        if "." in gid["address"] and not gid["address"].startswith("127."):
            return str(gid["address"])
    raise Unusable("the device has no GID with an IPv4 address: give --address")


def _heading(device: dict, port: dict, address: str) -> str:
    text = f"{device['name']} ({device['kind']}), {port['rate']}, both ends at {address}"
    if device["software"]:
        text += f"\n{device['software']}: a device made of software. No time here is a figure of performance."
    return text


def _pairs(words: argparse.Namespace, skipped: Skipped) -> dict[str, Pair]:
    pairs: dict[str, Pair] = {}
    if "sockets" not in words.what:
        return pairs
    for name, make in {
        TCP: partial(TcpPeer, TCP),
        RDMA: partial(TcpPeer, RDMA, client="fast", server="fast", path="rdma"),
    }.items():
        peer = make()
        peer.host = words.address
        peer.environment = {**peer.environment, "FASTSOCK_MEETING_MS": PATIENCE_MS}
        try:
            pairs[name] = Pair(peer, words.pin)
        except (Broken, Unusable) as error:
            skipped.add(name, str(error))
    return pairs


def measure(words: argparse.Namespace, device: str, pairs: dict[str, Pair], skipped: Skipped) -> list[Sample]:
    """Every peer once a turn, for each size and kind."""
    taken = Turns(Placement(words.pin), skipped)
    verbs = {}
    for program in VERBS:
        try:
            verbs[program] = perftest.runner(program, device, words.address, words.pin)
        except Unusable as error:
            skipped.add(program, str(error))
    ranks = rdma_ranks.peers(device) if "ranks" in words.what else []
    for _ in range(words.turns):
        in_ranks = {
            peer.name: rdma_ranks.Turn(peer, words.sizes, words.pin, _watch(peer.name, device)) for peer in ranks
        }
        for size in words.sizes:
            count = words.count or (200 if size <= 4096 else 50 if size <= 1 << 20 else 8)
            for what in ENDS:
                runs: list[tuple[str, Callable[[], float]]] = [
                    (name, partial(_socket, pair, what, size, count, device)) for name, pair in pairs.items()
                ]
                runs += [(name, partial(turn.value, what, size)) for name, turn in in_ranks.items()]
                runs += [(name, partial(verbs[name], size, count)) for name in verbs if VERBS[name] == what]
                taken.take(what, size, [(name, partial(_told, what, size, name, run)) for name, run in runs])
    return taken.samples


def _told(what: str, size: int, name: str, run: Callable[[], float]) -> float:
    """Says what is measured: under emulation one of them may take half a minute."""
    value = run()
    print(f"  {what}, {sizes.name(size)}, {name}: {summary.in_words(value)}", file=sys.stderr, flush=True)
    return value


def _socket(pair: Pair, what: str, size: int, count: int, device: str) -> float:
    before = _packets(device)
    elapsed = pair.both(*ENDS[what], size, count, timeout=120)
    sent = None if before is None else (_packets(device) or 0) - before
    if pair.peer.name == RDMA and sent == 0:
        raise Broken(f"{device} sent no packet, though the connection said it was on rdma")
    return elapsed / count * 1e6 if what == PING_PONG else size * count / elapsed / 1e9


def _watch(name: str, device: str) -> Callable[[], None]:
    """Called when the ranks have ended: raises Broken where the device carried nothing of theirs."""
    before = _packets(device)

    def check() -> None:
        if name == rdma_ranks.IBVDEV and before is not None and _packets(device) == before:
            raise Broken(f"{device} sent no packet, though the ranks were on ibvdev")

    return check


def _packets(device: str) -> int | None:
    """What the device's ports have sent; None where it does not count: soft iWARP does not."""
    ports = Path("/sys/class/infiniband", device, "ports")
    files = [*ports.glob("*/hw_counters/sent_pkts")] or [*ports.glob("*/counters/port_xmit_packets")]
    return sum(int(file.read_text()) for file in files) if files else None


def ratios(words: argparse.Namespace, samples: list[Sample], skipped: Skipped) -> list[Result]:
    """The path and the ranks, each times its own kind over TCP and times each kind of raw verbs."""
    subjects = [(RDMA, TCP)] if "sockets" in words.what else []
    subjects += [(rdma_ranks.IBVDEV, rdma_ranks.IODEV)] if "ranks" in words.what else []
    found = []
    for what in ENDS:
        for size in words.sizes:
            note = summary.medians(samples, what, size)
            for mine, beside in subjects:
                for other in [beside, *(name for name in VERBS if VERBS[name] == what)]:
                    measured = summary.compare(samples, what, size, mine, other)
                    line = f"{what}, {sizes.name(size)}: {mine}, times {other}"
                    peer = mine if mine in skipped else other
                    cores = summary.placements(samples, what, size)
                    found.append(question.ratio(line, measured, skipped, peer, cores=cores, note=note))
                    note = ""
    return found


def _calls_of_ranks(words: argparse.Namespace, device: str, skipped: Skipped) -> list[Result]:
    found = []
    for peer in rdma_ranks.peers(device) if "ranks" in words.what else []:
        if peer.name in skipped:
            continue
        line = f"{PING_PONG}, {{}}: system calls a message, {peer.name}"
        try:
            counted = rdma_ranks.calls(peer, words.sizes, words.pin)
        except Broken as error:
            found.append(Result(line.format("each size"), None, "calls", note=str(error)))
            continue
        for size, value in counted.items():
            found.append(Result(line.format(sizes.name(size)), value, "calls", note="both ends, there and back"))
    return found


def _system_calls(words: argparse.Namespace, pairs: dict[str, Pair], skipped: Skipped) -> list[Result]:
    found = []
    for what, (near, other) in ENDS.items():
        for size in words.sizes:
            for name, pair in pairs.items():
                line = f"{what}, {sizes.name(size)}: system calls a message, {name}"
                if name in skipped:
                    continue
                try:
                    value = max(0.0, system_calls.count(pair, near, other, size, 100 if size <= 4096 else 20))
                except (Broken, Unusable) as error:
                    found.append(Result(line, None, "calls", note=str(error)))
                    continue
                found.append(Result(line, value, "calls", note="both ends, there and back" if near == "ping" else ""))
    return found


if __name__ == "__main__":
    sys.exit(main())
