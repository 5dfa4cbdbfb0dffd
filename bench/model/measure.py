"""The micro-benchmark suite: each start of ranks measures one call on one MPI, and the MPIs take turns.

Within a start all lengths take turns. The cores' distance is probed in between: what was measured while it changed, or
was another one, does not count.
"""

from __future__ import annotations

import itertools
import math
import random
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from common import machine, mpi
from common.interleave import Skipped
from common.process import Broken

from . import boundaries, samples
from .samples import BYTES, DOUBLES, OBJECTS, Sample

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
UNSEEN = 20  # random lengths of each call
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

    cores: tuple[int, int]
    times: int
    seconds: float  # at most, for one length: fewer measurements where ranks share cores and calls take long
    distance: str  # the only one that counts; "": any
    patience: float  # seconds, for each start, until the cores are at one distance and at full speed


@dataclass(frozen=True)
class Start:
    """What one start of ranks measures."""

    mpi: mpi.Mpi
    what: str
    kind: str
    ranks: int


def seconds(quick: bool) -> float:
    """At most, for one length."""
    return 0.05 if quick else 0.15


def powers(longest: int, base: int = 4) -> list[int]:
    """0, 1, 4, 16, ... up to the longest."""
    found = [0, 1]
    while found[-1] * base <= longest:
        found.append(found[-1] * base)
    return found


def edges(start: Start, longest: int, plain: Sequence[int]) -> list[int]:
    """Lengths for the model in pieces alone: at the known boundaries of protocols, just behind, and in between.

    Powers of two are no fair sample: what lies so far apart meets in the same places of a cache.
    """
    step = 8 * start.ranks
    ends = [end for end in boundaries.of(start.mpi.name, start.what, start.ranks) if end < longest]
    found = {length for end in ends for length in (end, end + step)}
    known = sorted(length for length in {*plain, *found} if length >= step)
    for left, right in itertools.pairwise(known):
        if right >= 2 * left:
            found.add(round(left**0.4 * right**0.6) // step * step)
    return sorted(found - set(plain))


def random_lengths(longest: int, ranks: int, seen: Iterable[int], count: int = UNSEEN) -> list[int]:
    """As many short as long ones: their logarithms are equally distributed. None is among ``seen``.

    They are fewer where there are not so many.
    """
    chance = random.Random(f"{longest} {ranks}")
    step = 8 * ranks  # doubles that can be dealt to all ranks
    taken, found = set(seen), set()
    count = min(count, len(set(range(step, longest + 1, step)) - taken))
    while len(found) < count:
        length = round(math.exp(chance.uniform(math.log(step), math.log(longest)))) // step * step
        if length and length not in taken:
            found.add(length)
    return sorted(found)


def deal(start: Start, longest: int, sizes: Sequence[int] = ()) -> tuple[list[int], list[int], list[int]]:
    """The lengths of one start: those of all models, those beside boundaries, and those that no fit sees."""
    if "barrier" in start.what:
        return [0], [], []
    plain = list(sizes) or powers(longest)
    beside = edges(start, longest, plain)
    return plain, beside, random_lengths(longest, start.ranks, [*plain, *beside])


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
        self.machine = described()
        self.patience = plan.patience
        self.full = 0.0  # microseconds of the probe's work at the cores' full speed, once known

    def take(
        self, start: Start, sizes: Sequence[int], beside: Sequence[int] = (), unseen: Sequence[int] = ()
    ) -> list[Sample]:
        """The samples of one start; none where the MPI cannot do it.

        beside: lengths at boundaries of protocols. unseen: lengths that no fit is to see. All lengths take turns.
        """
        sizes = sorted({*sizes, *beside, *unseen})
        said = ["--what", start.what, "--kind", start.kind, "--sizes", ",".join(map(str, sizes))]
        said += ["--times", str(self.plan.times), "--seconds", str(self.plan.seconds)]
        said += ["--cores", ",".join(map(str, self.plan.cores))]
        said += ["--distance", self.plan.distance, "--pace", str(self.full), "--patience", str(self.patience)]
        name = f"{start.what} ({start.kind}), {start.ranks} ranks, {start.mpi.name}"
        machine.wait_until_idle()
        begun = time.perf_counter()
        try:
            told = mpi.run(start.mpi, start.ranks, "primitives", said, timeout=600)
        except Broken as error:
            self.skipped.add(name, str(error))
            return []
        took = time.perf_counter() - begun
        if len(told) < 2:
            self.skipped.add(name, f"the cores were not {self.plan.distance or 'at one distance'} for long enough")
            return []
        versions, self.full = told[0]["versions"], told[1]["full"]
        in_vain = told[1]["hurried"] and not self.plan.distance  # then the next start waits less for the same
        self.patience = self.patience / 2 if in_vain else self.plan.patience
        return [
            Sample(
                start.mpi.name, line["what"], line["kind"], start.ranks, line["size"], line["least"], line["median"],
                line["ninety"], line["count"], line["distance"], self.machine, line["asked"], versions, line["clock"],
                line["probe"], line["asked"] in beside, line["asked"] in unseen, line.get("hidden"),
                took / (len(told) - 1), line["pace"], line["full"],
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
    suite.full = min((s.full for s in there if s.machine == suite.machine and s.full), default=0.0)
    have = {(s.mpi, s.what, s.kind, s.ranks, s.asked) for s in there if wanted_distance in ("", s.distance)}
    for number, start in enumerate(todo, 1):
        plain, beside, unseen = deal(start, longest, sizes)
        asked = {*plain, *beside, *unseen}
        if all((start.mpi.name, start.what, start.kind, start.ranks, n) in have for n in asked):
            continue
        print(f"{number}/{len(todo)}  {start.mpi.name}: {start.what} ({start.kind}), {start.ranks} ranks",
              file=sys.stderr, flush=True)  # fmt: skip
        found = suite.take(start, plain, beside, unseen)
        samples.append(file, found)
        there += found
    return there
