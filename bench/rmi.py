"""What does a remote call cost, beside plain sockets, multiprocessing.managers, Pyro5, RPyC, grpcio and xmlrpc?

python bench/rmi.py                       all of it
python bench/rmi.py --without NAME        fastsock.rmi with and without one optimization: socket, no-block-data,
                                          array-memory, class-number, class-annotation, early-detection, cache

For no-block-data and class-annotation something stands in (common/peers/stand_ins.py): they show at most the gain.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial

from common import conjugate_gradient, counted, crowd, question, record, summary, table, target
from common.call_values import SIMULATION_BYTES
from common.interleave import Sample, Turns
from common.pair import Pair
from common.peers import remote_calls as calls
from common.peers import stand_ins
from common.peers.arrays import FastArrays
from common.peers.remote_calls import Caller
from common.peers.stream_sockets import TcpPeer
from common.placement import Placement
from common.process import Broken, Unusable
from common.question import HERE, Options
from common.target import Result

OWN = "fastsock.rmi"
SOCKET, ARRAYS = "fastsock.socket, 1 B", "send_array, recv_array"
TCP, UNIX, LAUNCHED = "managers, TCP", "managers, AF_UNIX", "managers, launcher"
OWN_MANAGERS = "fastsock.rmi.managers"
PYRO, PYRO_LAUNCHED, RPYC, GRPC, XMLRPC = "Pyro5", "Pyro5, launcher", "RPyC", "grpcio", "xmlrpc"
ARRAY_BYTES = calls.ELEMENTS * 8
WITHOUT = ("socket", "no-block-data", "array-memory", "class-number", "class-annotation", "early-detection", "cache")

CALLERS: list[Callable[[], Caller]] = [
    partial(calls.Own, OWN),
    partial(calls.Managers, TCP),
    partial(calls.Managers, UNIX, "AF_UNIX"),
    partial(calls.Managers, LAUNCHED, launched=True),
    partial(calls.Managers, OWN_MANAGERS, own=True),
    partial(calls.Pyro, PYRO),
    partial(calls.Pyro, PYRO_LAUNCHED, launched=True),
    partial(calls.Rpyc, RPYC),
    partial(calls.Grpc, GRPC),
    partial(calls.XmlRpc, XMLRPC),
]

# what, the peer, how many times as fast as that at least
BARS = [
    *((calls.ADD, peer, least) for peer, least in [
        (TCP, 20), (UNIX, 12), (LAUNCHED, 2.5), (PYRO, 30), (PYRO_LAUNCHED, 5), (RPYC, 40), (GRPC, 40), (XMLRPC, 150),
    ]),
    *((calls.ARRAY, peer, 8) for peer in (TCP, GRPC, PYRO, RPYC)),
    (calls.OBJECT, TCP, 1 / 0.35),
    (calls.OBJECTS, TCP, 1.5),
    (calls.TASKS, GRPC, 4),
    (calls.FIRST, TCP, 0.5),
]  # fmt: skip
MANAGERS_BARS = [(calls.ADD, 5), (calls.ARRAY, 4)]


class Measurement:
    """Samples of calls: microseconds a call."""

    def __init__(self, options: Options, callers: Sequence[Callable[[], Caller]], whats: Sequence[str]) -> None:
        self.options = options
        self.turns = Turns(Placement(options.cores), options.skipped)
        self.bytes_sent = 0
        self._counts: dict[tuple[str, str], int] = {}
        for group in range(options.times(1, 3)):
            self._measure_group([make() for make in callers], whats, first=group == 0)

    @property
    def samples(self) -> list[Sample]:
        """What was measured."""
        return self.turns.samples

    def _measure_group(self, callers: Sequence[Caller], whats: Sequence[str], first: bool) -> None:
        pairs: dict[str, Pair] = {}
        beside: dict[str, tuple[str, int, Pair]] = {}
        try:
            for caller in callers:
                self._open(caller, pairs)
            if calls.ADD in whats:
                self._open(TcpPeer(SOCKET, client="fast", server="fast", path="shm"), pairs)
                self._open(FastArrays(ARRAYS, "shm", into=False), pairs)
                sizes = {SOCKET: (calls.ADD, 1), ARRAYS: (calls.ARRAY, ARRAY_BYTES)}
                beside = {name: (*sizes[name], pairs[name]) for name in sizes if name in pairs}
            if first and OWN in pairs and calls.OBJECT in whats:
                self.bytes_sent = pairs[OWN].near.call("bytes_sent", calls.OBJECT)
            for turn in range(self.options.times(2, 5) + 1):
                for what in whats:
                    runs = [
                        (caller.name, partial(self._calls, pairs[caller.name], what))
                        for caller in callers
                        if caller.name in pairs and what in caller.can
                    ]
                    runs += [
                        (name, partial(self._exchange, pair, size))
                        for name, (of, size, pair) in beside.items()
                        if of == what
                    ]
                    self.turns.take(what, 0, runs, keep=turn > 0)
        finally:
            for pair in pairs.values():
                pair.close()

    def _open(self, peer: Caller | TcpPeer, pairs: dict[str, Pair]) -> None:
        if peer.name in self.options.skipped:
            return
        try:
            pairs[peer.name] = Pair(peer, self.options.cores)
        except (Broken, Unusable) as error:
            self.options.skipped.add(peer.name, str(error))

    def _calls(self, pair: Pair, what: str) -> float:
        key = pair.peer.name, what
        count = self._counts.get(key, 2)
        seconds = pair.near.call("measure", what, count)
        self._counts[key] = self._count_for(count, seconds)
        return float(seconds / count / calls.CALLS.get(what, 1) * 1e6)

    def _exchange(self, pair: Pair, size: int) -> float:
        key = pair.peer.name, ""
        count = self._counts.get(key, 10)
        seconds = pair.both("ping", "pong", size, count)
        self._counts[key] = self._count_for(count, seconds)
        return float(seconds / count * 1e6)

    def _count_for(self, count: int, seconds: float) -> int:
        return max(2, min(int(self.options.pick(0.02, 0.2) * count / max(seconds, 1e-9)), 50 * count, 100_000))

    def line(
        self, what: str, peer: str, against: str, text: str, bar: float | None = None, at_most: float | None = None
    ) -> Result:
        """How many times as fast `peer` is as `against`; with `at_most`, how many times its time it takes."""
        faster, near = summary.compare_here(self.samples, what, 0, peer, against)
        has_bar = near or faster is None
        measured = 1 / faster if faster and at_most is not None else faster
        return question.ratio(
            f"{what}: {text}",
            measured,
            self.options.skipped,
            peer if peer in self.options.skipped else against,
            at_least=bar if has_bar else None,
            at_most=at_most if has_bar else None,
            cores=summary.placements(self.samples, what, 0),
            note=summary.medians([s for s in self.samples if s.peer in (peer, against)], what, 0),
        )


def measure(options: Options) -> list[Result]:
    whats = [calls.ADD, calls.ARRAY, calls.OBJECT, calls.OBJECTS, calls.TASKS, calls.FIRST]
    measured = Measurement(options, CALLERS, [*whats, calls.BATCH, calls.ONEWAY, calls.STREAM])
    results = [
        measured.line(calls.ADD, OWN, SOCKET, f"times the time of {SOCKET} there and back", at_most=6),
        measured.line(calls.ARRAY, OWN, ARRAYS, f"times as fast as {ARRAYS}", 0.8),
    ]
    results += [measured.line(what, OWN, peer, f"times as fast as {peer}", bar) for what, peer, bar in BARS]
    results += [
        measured.line(what, OWN_MANAGERS, UNIX, f"{OWN_MANAGERS}, times as fast as {UNIX}", bar)
        for what, bar in MANAGERS_BARS
    ]
    results += [
        _beside_own_calls(measured, what, bar) for what, bar in [(calls.BATCH, 4), (calls.ONEWAY, 4), (calls.STREAM, 3)]
    ]
    share = measured.bytes_sent / SIMULATION_BYTES if measured.bytes_sent else None
    note = f"{measured.bytes_sent} bytes for {SIMULATION_BYTES} of data"
    results.append(question.ratio(f"{calls.OBJECT}: bytes sent", share, options.skipped, OWN, at_most=1.1, note=note))
    peers: tuple[Callable[[], Caller], Callable[[], Caller]] = (CALLERS[0], CALLERS[1])
    results += crowd.results(options, *peers)
    results += conjugate_gradient.results(options, *peers)
    return results


def counts(options: Options) -> str:
    """System calls, copies and bytes of each kind of call, by each peer."""
    found: list[counted.Row] = []
    for make in CALLERS:
        caller = make()
        if caller.name in options.skipped:
            continue
        try:
            pair = Pair(caller, options.cores)
        except (Broken, Unusable) as error:
            options.skipped.add(caller.name, str(error))
            continue
        try:
            for what in (calls.ADD, calls.ARRAY, calls.OBJECT, calls.OBJECTS):
                if what in caller.can:
                    found += counted.rows(what, [pair], partial(_measure_calls, what=what), options.times(5, 20))
        finally:
            pair.close()
    return counted.report(sorted(found, key=lambda row: row.what), options.skipped)


def _measure_calls(pair: Pair, count: int, *, what: str) -> object:
    return pair.near.call("measure", what, count)


def _beside_own_calls(measured: Measurement, what: str, bar: float) -> Result:
    """A way of many calls beside calls one by one: each per call."""
    samples = [s for s in measured.samples if s.peer == OWN]
    near = [s for s in samples if s.placement in HERE]
    used = near if {calls.ADD, what} <= {s.what for s in near} else samples
    alone, together = (summary.median([s.value for s in used if s.what == each]) for each in (calls.ADD, what))
    note = f"{table.number(together)} us a call or item, one by one {table.number(alone)} us"
    return question.ratio(
        f"{what}: times the rate of add(1, 2)",
        alone / together,
        measured.options.skipped,
        OWN,
        at_least=bar if used is near else None,
        cores=summary.placements(samples, what, 0),
        note=note,
    )


def switched_off(options: Options, name: str) -> list[Result]:
    """fastsock.rmi beside itself without one optimization."""
    lacking = f"{OWN} without {name}"
    cache = name == "cache"
    on: Callable[[], Caller] = partial(calls.Own, OWN, cache=cache)
    off: Callable[[], Caller] = partial(calls.Own, lacking, frozenset({name}), cache=cache)
    whats = [calls.ADD, calls.ARRAY, calls.OBJECT, calls.OBJECTS]
    if name == "socket":
        off = partial(calls.Own, lacking, path="tcp")
    elif name == "no-block-data":
        off = partial(stand_ins.BlockData, lacking)
    elif name == "class-annotation":
        on, off = partial(stand_ins.PackedClasses, OWN, False), partial(stand_ins.PackedClasses, lacking, True)
        whats = [calls.OBJECT, calls.OBJECTS]
    measured = Measurement(options, [on, off], whats)
    return [measured.line(what, OWN, lacking, f"gained by {name}") for what in whats]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    question.add_options(parser)
    parser.add_argument("--without", choices=WITHOUT, help="what one optimization gains")
    words = parser.parse_args()
    options = Options(words.quick, words.pin)
    results = switched_off(options, words.without) if words.without else measure(options)
    print(target.report(results))
    if not words.without:
        print(f"\n{counts(options)}")
    if words.json:
        record.write(words.json, {"results": results, "skipped": options.skipped})
    return 0 if results else 1


if __name__ == "__main__":
    sys.exit(main())
