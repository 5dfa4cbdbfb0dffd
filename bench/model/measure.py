"""The micro-benchmark suite: each start of ranks measures one call on one MPI, and the MPIs take turns.

The cores' distance is probed around each start. What was measured while it changed is measured again.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from common import machine, mpi
from common.interleave import Skipped
from common.placement import MIXED, Placement
from common.process import Broken

from . import boundaries, samples
from .samples import BYTES, DOUBLES, OBJECTS, Sample

PATIENCE = 3  # starts, until the cores stay where they are
AGAIN = 1.0  # seconds
LONGER = 12  # where they are to be at one distance
REDUCTIONS = ("reduce", "allreduce", "reduce_scatter", "reduce_scatter_block", "scan", "exscan")
COLLECTIVES = (
    "barrier", "bcast", "scatter", "scatterv", "gather", "gatherv", "allgather", "allgatherv", "alltoall", "alltoallv",
    "alltoallw", *REDUCTIONS, "neighbor_allgather", "neighbor_alltoall",
)  # fmt: skip
POINT_TO_POINT = boundaries.POINT_TO_POINT
BLOCKING = ("send", "ssend", "bsend", "rsend", "sendrecv", *COLLECTIVES)
NON_BLOCKING = ("isend", *(f"i{name}" for name in COLLECTIVES))
PLAIN = ("send", "bcast", "scatter", "gather", "allgather", "alltoall")  # those whose type of data is chosen
OF_OBJECTS = (*PLAIN, "reduce", "allreduce", "scan")
KINDS = (BYTES, DOUBLES, OBJECTS)
QUICK = ("send", "barrier", "bcast", "scatter", "gather", "allgather", "reduce", "allreduce", "reduce_scatter",
         "scatterv")  # fmt: skip
FULL = tuple([(name, BYTES) for name in (*BLOCKING, *NON_BLOCKING)] + [(name, DOUBLES) for name in PLAIN]
             + [(name, OBJECTS) for name in OF_OBJECTS])  # fmt: skip


def named(text: str, kind: str) -> list[tuple[str, str]]:
    """The calls that a user named. Raises Unfit for one that the suite does not know."""
    if kind not in KINDS:
        raise samples.Unfit(f"--kind {kind}: say one of {', '.join(KINDS)}")
    for name in text.split(","):
        whole, _, parts = name.partition("=")
        for each in (whole.removesuffix("_init"), *(parts.split("+") if parts else ())):
            if each not in BLOCKING and (each not in NON_BLOCKING or name != each):
                raise samples.Unfit(f"--what {name} is no call of the suite; it has {', '.join(BLOCKING)}, and i forms")
    return [(name, kind) for name in text.split(",")]


@dataclass(frozen=True)
class Plan:
    """How much is measured, and where."""

    cores: tuple[int, int] = (0, 1)
    times: int = 150
    seconds: float = 1.0  # at most, for one length: fewer measurements where ranks share cores and calls take long
    distance: str = ""  # the only one that counts; else any


@dataclass(frozen=True)
class Start:
    """What one start of ranks measures."""

    mpi: mpi.Mpi
    what: str
    kind: str
    ranks: int


def powers(longest: int, base: int = 4) -> list[int]:
    """0, 1, 4, 16, ... up to the longest."""
    found = [0, 1]
    while found[-1] * base <= longest:
        found.append(found[-1] * base)
    return found


def edges(start: Start, longest: int) -> list[int]:
    """Lengths at the known boundaries of protocols, and just behind."""
    ends = [end for end in boundaries.of(start.mpi.name, start.what, start.ranks) if end < longest]
    return [length for end in ends for length in (end, end + 8 * start.ranks)]


def starts(peers: Sequence[mpi.Mpi], wanted: Sequence[tuple[str, str]], ranks: Sequence[int]) -> Iterable[Start]:
    """All starts, the MPIs by turns."""
    for p in ranks:
        for what, kind in wanted:
            if what in POINT_TO_POINT and p != min(ranks):
                continue  # two ranks, however many there are
            for peer in peers:
                yield Start(peer, what, kind, 2 if what in POINT_TO_POINT else p)


class Suite:
    """Takes samples."""

    def __init__(self, plan: Plan, skipped: Skipped) -> None:
        self.plan, self.skipped = plan, skipped
        self.placement = Placement(plan.cores)
        self.machine = described()

    def take(self, start: Start, sizes: Sequence[int], plain: Sequence[int] = ()) -> list[Sample]:
        """The samples of one start; none where the MPI cannot do it. plain: the lengths that are no edges."""
        said = ["--what", start.what, "--kind", start.kind, "--sizes", ",".join(map(str, sizes))]
        said += ["--times", str(self.plan.times), "--seconds", str(self.plan.seconds)]
        said += ["--cores", ",".join(map(str, self.plan.cores))]
        wanted = self.plan.distance
        for attempt in range(LONGER if wanted else PATIENCE):
            machine.wait_until_idle()
            before = self.placement.probe()
            if wanted and self.placement.name(before, before) != wanted:
                time.sleep(AGAIN)
                continue
            begun = time.perf_counter()
            try:
                told = mpi.run(start.mpi, start.ranks, "primitives", said, timeout=600)
            except Broken as error:
                self.skipped.add(f"{start.what} ({start.kind}), {start.ranks} ranks, {start.mpi.name}", str(error))
                return []
            took = time.perf_counter() - begun
            after = self.placement.probe()
            distance = self.placement.name(before, after)
            if distance == wanted or (not wanted and distance != MIXED):
                break
            print(f"  the cores moved during {start.what}, attempt {attempt + 1}", file=sys.stderr, flush=True)
        else:
            where = f"were not {wanted}" if wanted else "moved each time"
            self.skipped.add(f"{start.what}, {start.ranks} ranks, {start.mpi.name}", f"the cores {where}")
            return []
        versions = told[0]["versions"]
        known = set(plain or sizes)
        return [
            Sample(
                start.mpi.name, line["what"], line["kind"], start.ranks, line["size"], line["least"], line["median"],
                line["ninety"], line["count"], distance, self.machine, line["asked"], versions, line["clock"], after,
                line["asked"] not in known, line.get("hidden"), took / (len(told) - 1),
            )
            for line in told[1:]
        ]  # fmt: skip


def described() -> str:
    """The machine in one line; samples of different ones are never mixed."""
    told = machine.description()
    return f"{told['processor']}, {told['cores']} cores, Linux {told['kernel']}"


def run(suite: Suite, todo: Sequence[Start], longest: int, sizes: Sequence[int], file: str) -> list[Sample]:
    """Measure what the file does not have yet, and add it there after each start."""
    try:
        there = samples.read(file)
    except samples.Unfit:
        there = []
    wanted_distance = suite.plan.distance
    have = {(s.mpi, s.what, s.kind, s.ranks, s.asked) for s in there if wanted_distance in ("", s.distance)}
    for number, start in enumerate(todo, 1):
        plain = sizes or powers(longest)
        wanted = sorted({*plain, *edges(start, longest)}) if "barrier" not in start.what else [0]
        missing = [n for n in wanted if (start.mpi.name, start.what, start.kind, start.ranks, n) not in have]
        if not missing:
            continue
        print(f"{number}/{len(todo)}  {start.mpi.name}: {start.what} ({start.kind}), {start.ranks} ranks",
              file=sys.stderr, flush=True)  # fmt: skip
        found = suite.take(start, wanted, plain)
        samples.append(file, found)
        there += found
    return there
