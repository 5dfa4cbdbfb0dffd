"""A 4.9, 5.8, 5.9 and D 9: messages between ranks of one host; broadcasts and reductions."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from common import mpi, mpi_targets, sizes
from model.samples import BYTES, DOUBLES, OBJECTS, Sample

from .figure import Curve, Figure, Panel, with_data
from .reading import LATENCY, LENGTH, LONG, MBPS, SHORT, peers_of
from .records import Records

LONGEST = 1 << 40
DEVICES, KINDS, COLLECTIVES = "devices", "kinds", "collectives"
NAMES = {mpi.FASTSOCK: "fastsock iodev", mpi.FASTSOCK_TCP: "fastsock iodev over tcp"}
ARRAYS = {BYTES: "bytes", DOUBLES: "doubles", OBJECTS: "doubles as objects"}


def _panels(
    named: Sequence[tuple[str, list[Sample]]], short: int = SHORT, long: int = LONG, titles: tuple[str, str] = ("", "")
) -> list[Panel]:
    """Half of round trips: short messages in time, long ones in bandwidth."""

    def points(samples: list[Sample], low: int, high: int) -> list[Sample]:
        return sorted((s for s in samples if low <= s.size <= high and not s.edge), key=lambda s: s.size)

    latency = [Curve(name, [(s.size, s.median) for s in points(of, 1, short)]) for name, of in named]
    bandwidth = [
        Curve(name, [(s.size, 8 * s.size / s.median) for s in points(of, long, LONGEST)]) for name, of in named
    ]
    return [
        Panel(titles[0] or "short messages", LENGTH, LATENCY, latency, logarithmic="x", lengths=True),
        Panel(titles[1] or "long messages", LENGTH, MBPS, bandwidth, logarithmic="x", lengths=True),
    ]  # fmt: skip


def _devices(records: Records, names: Sequence[str]) -> list[tuple[str, list[Sample]]]:
    samples, _ = records.model(DEVICES)
    return [(NAMES.get(name, name), [s for s in samples if s.mpi == name]) for name in names]


def _of_devices(records: Records) -> list[Panel]:
    names = [mpi.FASTSOCK_TCP, mpi.FASTSOCK, mpi.OPENMPI, mpi.MPICH]
    return with_data(_panels(_devices(records, names)), "A 4.9")


def _shared_memory(records: Records) -> list[Panel]:
    names = [*mpi.DEVICES, mpi.FASTSOCK, mpi.MPICH, mpi.OPENMPI]
    titles = ("(a) transfer time", "(b) throughput")
    return with_data(_panels(_devices(records, names), 2 << 10, 4 << 10, titles), "D 9")


def _primitives(records: Records) -> list[Panel]:
    samples, _ = records.model(KINDS)
    named = [
        (f"{name} {text}", [s for s in samples if (s.mpi, s.kind) == (name, kind)])
        for name in peers_of(samples, "mpi")
        for kind, text in ARRAYS.items()
    ]
    return with_data(_panels(named), "A 5.8")


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
                " Medians of half a round trip."),
    Figure("A 5.8", "point-to-point primitives, byte and double arrays", [KINDS], _primitives,
           note="Within one host. Objects are lower-case calls, which serialize. Medians of half a round trip."),
    Figure("A 5.9", "collective primitives, aggregated bandwidth", [COLLECTIVES], _aggregated,
           note="message size x (ranks - 1) / time. More than 2 ranks share the cores."),
    Figure("D 9", "shared memory devices", [DEVICES], _shared_memory,
           note="smpdev: ranks as threads. sysvdev: System V shared memory. mpich stands for mpiJava on MPICH2."),
]  # fmt: skip
