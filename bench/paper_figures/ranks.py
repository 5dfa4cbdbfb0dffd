"""A 4.9, 5.8, 5.9 and D 9: messages between ranks of one host; broadcasts and reductions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from common import mpi, mpi_targets, sizes
from common.exchange import PING_PONG
from common.interleave import Sample
from model.samples import BYTES, DOUBLES, OBJECTS

from .figure import Curve, Figure, Panel, with_data
from .reading import LONG, SHORT, latency_and_bandwidth, peers_of
from .records import Records

DEVICES, KINDS, COLLECTIVES = "devices", "kinds", "collectives"
NAMES = {mpi.FASTSOCK: "fastsock iodev", mpi.FASTSOCK_TCP: "fastsock iodev over tcp"}
ARRAYS = {BYTES: "bytes", DOUBLES: "doubles", OBJECTS: "doubles as objects"}


def _of_devices(records: Records) -> list[Panel]:
    return with_data(_devices(records, [mpi.FASTSOCK_TCP, mpi.FASTSOCK, mpi.OPENMPI, mpi.MPICH]), "A 4.9")


def _shared_memory(records: Records) -> list[Panel]:
    time, throughput = _devices(records, [*mpi.DEVICES, mpi.FASTSOCK, mpi.MPICH, mpi.OPENMPI], 2 << 10, 4 << 10)
    return with_data([replace(time, title="(a) transfer time"), replace(throughput, title="(b) throughput")], "D 9")


def _devices(records: Records, peers: Sequence[str], short: int = SHORT, long: int = LONG) -> list[Panel]:
    samples = [replace(s, peer=NAMES.get(s.peer, s.peer)) for s in records.samples(DEVICES)[0]]
    return latency_and_bandwidth(samples, PING_PONG, [NAMES.get(peer, peer) for peer in peers], "", short, long)


def _primitives(records: Records) -> list[Panel]:
    samples = [
        Sample(PING_PONG, f"{s.mpi} {ARRAYS[s.kind]}", s.size, 2 * s.least, 0, s.distance, None, None, False)
        for s in records.model(KINDS)[0]
        if not s.edge
    ]
    return with_data(latency_and_bandwidth(samples, PING_PONG, peers_of(samples)), "A 5.8")


def _aggregated(records: Records) -> list[Panel]:
    samples, _ = records.samples(COLLECTIVES)
    numbers = sorted({int(s.what.rpartition(", ")[2].split()[0]) for s in samples})
    panels = []
    for call, title in (("bcast", "Broadcast"), ("reduce", "Reduce")):
        for size in (1 << 10, 1 << 20):
            curves = []
            for peer in peers_of(samples):
                points = []
                for ranks in numbers:
                    what = mpi_targets.name(call, ranks, False)
                    taken = [s.value for s in samples if (s.what, s.size, s.peer) == (what, size, peer)]
                    if taken:
                        points.append((ranks, size * (ranks - 1) / median(taken)))
                curves.append(Curve(peer, points))
            panels.append(Panel(f"{title}, {sizes.name(size)}", "ranks", "aggregated bandwidth, MB/s", curves))
    return with_data(panels, "A 5.9")


FIGURES = [
    Figure("A 4.9", "message-passing devices on shared memory", [DEVICES], _of_devices,
           note="iodev over tcp stands for niodev, iodev for iodev on JFS, openmpi and mpich for mpiJava and MPICH2."
                " Half of a round trip."),
    Figure("A 5.8", "point-to-point primitives, byte and double arrays", [KINDS], _primitives,
           note="Within one host. Objects are lower-case calls, which serialize. Half of a round trip."),
    Figure("A 5.9", "collective primitives, aggregated bandwidth", [COLLECTIVES], _aggregated,
           note="message size x (ranks - 1) / time. More than 2 ranks share the cores."),
    Figure("D 9", "shared memory devices", [DEVICES], _shared_memory,
           note="smpdev: ranks as threads. sysvdev: System V shared memory. mpich stands for mpiJava on MPICH2."),
]  # fmt: skip
