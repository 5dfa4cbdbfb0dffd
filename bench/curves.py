"""The papers' curves over message sizes, where no question's file measures them.

python bench/curves.py arrays              typed arrays by sockets, beside bytes and pickles: A 3.13, 3.14
python bench/curves.py buffers             copied, pinned and handed over: E 2, 3, 5, 6
python bench/curves.py bulks               active messages in bulk: E 11, 12
python bench/curves.py devices             ranks on each device, beside MPICH and Open MPI: A 4.9, D 9
python bench/curves.py remote_arrays       remote calls with arrays of integers: A 4.15, 4.16
python bench/curves.py remote_objects      remote calls with lists of objects: A 4.17
python bench/curves.py overhead            where the time of a remote call with an object of 3 KB goes: A 4.14
python bench/curves.py gradient            a conjugate gradient on one and on two workers: A 4.18

The samples are microseconds there and back, or gigabytes a second. bench/figures.py draws them.
"""

from __future__ import annotations

import argparse
import pickle
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import rmi
from buffers import COPY, COPY_NEW, DIRECT_FROM, HANDED, PIN, PIN_NEW
from common import conjugate_gradient, exchange, mpi, question, record, sizes, summary, table
from common.exchange import PING_PONG, STREAM
from common.interleave import Sample, Turns
from common.pair import Pair
from common.peers import remote_calls as calls
from common.peers.active import Active
from common.peers.active_bulks import BulksThereAndBack
from common.peers.arrays import FastArrays, PickleTcp
from common.peers.bare_ring import BareRing
from common.peers.buffer_streams import StreamedBuffers
from common.peers.catalogue import fast
from common.peers.remote_calls import Caller
from common.peers.stream_sockets import TcpPeer, UnixPair
from common.placement import Placement
from common.process import Broken, Process, Unusable
from common.question import Options

RAW = "bare ring"
ARRAYS_SHM, ARRAYS_TCP = "send_array over shm", "send_array over tcp"
BYTES_SHM, BYTES_TCP, BYTES_UNIX, PICKLED = "bytes over shm", "bytes over tcp", "AF_UNIX", "pickle over tcp"
POOL, SEGMENT, FRESH = "bulk into a pool", "bulk into the segment", "bulk into a fresh array"
OWN, OWN_TCP = rmi.OWN, "fastsock.rmi over tcp"
INTEGERS, OBJECTS = "array of int32", "objects of 3 KB"
NETWORK, SERIALIZATION, WHOLE = "network", "serialization", "whole call"

LENGTHS = "8,32,128,512,1k,4k,16k,64k,256k,512k,1m,4m"
QUICK_LENGTHS = "8,1k,16k,512k,2m"
COUNTS, QUICK_COUNTS = (1, 2, 4, 8, 16, 32, 64), (1, 4, 16)


def arrays(options: Options) -> list[Sample]:
    """The same float64 arrays by sockets of each kind."""
    return _exchange(options, [
        partial(UnixPair, BYTES_UNIX),
        partial(TcpPeer, BYTES_TCP),
        partial(fast, "shm", BYTES_SHM),
        PickleTcp,
        partial(FastArrays, ARRAYS_SHM, "shm", into=True),
        partial(FastArrays, ARRAYS_TCP, "tcp", into=True),
    ], (PING_PONG,))  # fmt: skip


def buffers(options: Options) -> list[Sample]:
    """Javia-I's variants and registered buffers."""
    return _exchange(options, [
        partial(BareRing, RAW),
        partial(FastArrays, COPY, "shm", into=True, direct_from=0),
        partial(FastArrays, COPY_NEW, "shm", into=False, direct_from=0),
        partial(FastArrays, PIN, "shm", into=True, direct_from=DIRECT_FROM),
        partial(FastArrays, PIN_NEW, "shm", into=False, direct_from=DIRECT_FROM),
        partial(StreamedBuffers, HANDED),
    ], (PING_PONG, STREAM))  # fmt: skip


def bulks(options: Options) -> list[Sample]:
    """Jam's two designs, and AM-II's own; what they stand on."""
    into = {POOL: "pool", SEGMENT: "segment", FRESH: "array"}
    there_and_back = [partial(BulksThereAndBack, name, into=how) for name, how in into.items()]
    one_way = [partial(Active, name, into=how) for name, how in into.items()]
    below = [partial(BareRing, RAW), partial(StreamedBuffers, HANDED)]
    found = _exchange(options, [*below, *there_and_back], (PING_PONG,))
    return [*found, *_exchange(options, [*below, *one_way], (STREAM,))]


def _exchange(options: Options, peers: Sequence[Callable[[], Any]], whats: Sequence[str]) -> list[Sample]:
    lengths = sizes.parse(QUICK_LENGTHS if options.quick else LENGTHS)
    return exchange.measure(
        peers,
        [(what, size) for what in whats for size in lengths],
        cores=options.cores,
        groups=options.times(1, 3),
        turns=options.times(1, 4),
        seconds=options.pick(0.005, 0.04),
        skipped=options.skipped,
    )


def devices(options: Options) -> list[Sample]:
    """Two ranks of one host, by each device of fastsock.mpj and by the other MPIs."""
    turns = Turns(Placement(options.cores), options.skipped)
    peers = []
    for name in (mpi.FASTSOCK, mpi.FASTSOCK_TCP, *mpi.DEVICES, *mpi.OTHERS):
        try:
            peers.append(mpi.find(name))
        except Unusable as error:
            options.skipped.add(name, str(error))
    lengths = sizes.parse(f"1,{QUICK_LENGTHS if options.quick else LENGTHS}")
    said = ["--what", "latency", "--sizes", ",".join(map(str, lengths)), "--cores", ",".join(map(str, options.cores))]
    said += ["--seconds", str(options.pick(0.01, 0.1))]
    found: list[Sample] = []
    for _ in range(options.times(1, 5)):
        told: dict[str, list[dict]] = {}
        turns.take(PING_PONG, 0, [(peer.name, partial(_of_all_sizes, peer, said, told)) for peer in peers])
        found += [
            replace(sample, size=line["size"], value=line["value"])
            for sample in turns.samples[-len(told) :]
            for line in told[sample.peer]
        ]
    return found


def _of_all_sizes(peer: mpi.Mpi, said: Sequence[str], told: dict[str, list[dict]]) -> float:
    told[peer.name] = mpi.run(peer, 2, "point_to_point", said)
    return 0.0


def remote_arrays(options: Options) -> list[Sample]:
    """Over TCP, and by each way that shared memory can carry them."""
    callers: list[Callable[[], Caller]] = [
        partial(calls.Own, OWN),
        partial(calls.Own, OWN_TCP, path="tcp"),
        partial(calls.Managers, rmi.TCP),
        partial(calls.Managers, rmi.LAUNCHED, launched=True),
        partial(calls.Pyro, rmi.PYRO),
        partial(calls.Pyro, rmi.PYRO_LAUNCHED, launched=True),
        partial(calls.Grpc, rmi.GRPC),
    ]
    lengths = sizes.parse(QUICK_LENGTHS if options.quick else LENGTHS)
    return _calls(options, callers, INTEGERS, {calls.integers(size): size for size in lengths})


def remote_objects(options: Options) -> list[Sample]:
    """Lists of more and more objects; a sample's size is their number."""
    callers: list[Callable[[], Caller]] = [
        partial(calls.Own, OWN),
        partial(calls.Own, OWN_TCP, path="tcp"),
        partial(calls.Managers, rmi.TCP),
        partial(calls.Managers, rmi.LAUNCHED, launched=True),
    ]
    counts = QUICK_COUNTS if options.quick else COUNTS
    return _calls(options, callers, OBJECTS, {calls.objects(count): count for count in counts})


def _calls(options: Options, callers: Sequence[Callable[[], Caller]], what: str, named: dict[str, int]) -> list[Sample]:
    def able(make: Callable[[], Caller]) -> Caller:
        caller = make()
        caller.can = (*caller.can, *named)
        return caller

    measured = rmi.Measurement(options, [partial(able, make) for make in callers], list(named))
    return [replace(sample, what=what, size=named[sample.what]) for sample in measured.samples]


class PlainPickle:
    """As managers pack, in the form of rmi_codec's."""

    pack, unpack = staticmethod(pickle.dumps), staticmethod(pickle.loads)

    @staticmethod
    def arrived(packed: bytes) -> bytes:
        """Nothing is out of band."""
        return packed


class Packing:
    """Packs and unpacks an object of 3 KB twice, as a call and its answer do."""

    def __init__(self, own: bool) -> None:
        self.own = own

    def measure(self, count: int) -> float:
        """Seconds for so many."""
        import rmi_codec

        codec: Any = rmi_codec.Own() if self.own else PlainPickle()
        value = (calls.argument(calls.OBJECT),)
        codec.unpack(codec.arrived(codec.pack(value)))  # from the second frame on classes are numbers
        arrived = codec.arrived(codec.pack(value))

        def once() -> None:
            codec.pack(value)
            codec.unpack(arrived)

        for _ in range(20):
            once()
        start = time.perf_counter()
        for _ in range(2 * count):
            once()
        return time.perf_counter() - start

    def nbytes(self) -> int:
        """Of the pickle."""
        return len(pickle.dumps((calls.argument(calls.OBJECT),)))


def overhead(options: Options) -> list[Sample]:
    """A call with an object of 3 KB and its answer; the same bytes alone; packing and unpacking alone."""
    kinds: dict[str, tuple[Callable[[], Caller], Callable[[], Any], bool]] = {
        OWN: (partial(calls.Own, OWN), partial(fast, "shm", OWN), True),
        OWN_TCP: (partial(calls.Own, OWN_TCP, path="tcp"), partial(TcpPeer, OWN_TCP), True),
        rmi.LAUNCHED: (partial(calls.Managers, rmi.LAUNCHED, launched=True), partial(fast, "shm", rmi.LAUNCHED), False),
        rmi.UNIX: (partial(calls.Managers, rmi.UNIX, "AF_UNIX"), partial(UnixPair, rmi.UNIX), False),
        rmi.TCP: (partial(calls.Managers, rmi.TCP), partial(TcpPeer, rmi.TCP), False),
    }
    found = _calls(options, [make for make, _, _ in kinds.values()], WHOLE, {calls.OBJECT: 0})
    turns = Turns(Placement(options.cores), options.skipped)
    packing = {own: Process(partial(Packing, own), cores=options.cores[0]) for own in (True, False)}
    pairs: dict[str, Pair] = {}
    try:
        length = int(packing[False].call("nbytes"))
        for name, (_, make, _) in kinds.items():
            try:
                pairs[name] = Pair(make(), options.cores)
            except (Broken, Unusable) as error:
                options.skipped.add(name, str(error))
        count = options.times(1000, 4000)
        for _ in range(options.times(2, 8)):
            turns.take(NETWORK, 0, [
                (name, partial(_there_and_back, pair, length, count)) for name, pair in pairs.items()
            ])  # fmt: skip
            turns.take(SERIALIZATION, 0, [
                (name, partial(_packed, packing[own], count)) for name, (_, _, own) in kinds.items() if name in pairs
            ])  # fmt: skip
    finally:
        for each in (*packing.values(), *pairs.values()):
            each.close()
    return [*found, *turns.samples]


def _there_and_back(pair: Pair, length: int, count: int) -> float:
    return float(pair.both("ping", "pong", length, count)) / count * 1e6


def _packed(packing: Process, count: int) -> float:
    return float(packing.call("measure", count)) / count * 1e6


def gradient(options: Options) -> list[Sample]:
    """Steps on one worker and on two."""
    return [*conjugate_gradient.measure(options, 1), *conjugate_gradient.measure(options, 2)]


SETS: dict[str, Callable[[Options], list[Sample]]] = {
    each.__name__: each for each in (arrays, buffers, bulks, devices, remote_arrays, remote_objects, overhead, gradient)
}


def lines(samples: Sequence[Sample]) -> str:
    """Medians: peers down, sizes across."""
    blocks = []
    for what in dict.fromkeys(sample.what for sample in samples):
        mine = [sample for sample in samples if sample.what == what]
        across = sorted({sample.size for sample in mine})
        rows = []
        for peer in dict.fromkeys(sample.peer for sample in mine):
            values = [[s.value for s in mine if (s.peer, s.size) == (peer, size)] for size in across]
            rows.append([peer, *(table.number(summary.median(each)) if each else "-" for each in values)])
        blocks.append(table.lines([what, *map(str, across)], rows))
    return "\n\n".join(blocks)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=SETS, help="which curves")
    question.add_options(parser)
    words = parser.parse_args()
    options = Options(words.quick, words.pin)
    samples = SETS[words.what](options)
    print(lines(samples))
    if words.json:
        record.write(words.json, {"samples": samples, "skipped": options.skipped})
    return 0 if samples else 1


if __name__ == "__main__":
    sys.exit(main())
