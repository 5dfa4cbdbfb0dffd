"""The micro-benchmark suite: each start of ranks measures one call on one MPI, and the MPIs take turns.

Within a start all lengths take turns. Where only plain lengths are wanted, a start measures all its MPI's calls. The
cores' distance is probed in between: what was measured while it changed, or was another one, does not count.
"""

from __future__ import annotations

import importlib
import itertools
import math
import random
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from common import machine, mpi
from common.interleave import Skipped
from common.process import Broken

from . import boundaries, samples
from .samples import BYTES, DOUBLES, OBJECTS, Sample

REDUCTIONS = ("reduce", "allreduce", "reduce_scatter", "reduce_scatter_block", "scan", "exscan")
AMONG_ALL = (
    "barrier", "bcast", "scatter", "scatterv", "gather", "gatherv", "allgather", "allgatherv", "alltoall", "alltoallv",
    "alltoallw", *REDUCTIONS,
)  # fmt: skip
COLLECTIVES = (*AMONG_ALL, "neighbor_allgather", "neighbor_allgatherv", "neighbor_alltoall", "neighbor_alltoallv",
               "neighbor_alltoallw")  # fmt: skip
POINT_TO_POINT = boundaries.POINT_TO_POINT
BLOCKING = (*boundaries.BETWEEN_TWO, *COLLECTIVES)
NON_BLOCKING = tuple(f"i{name}" for name in BLOCKING)
PERSISTENT = tuple(f"{name}_init" for name in (*boundaries.SENDS, *COLLECTIVES))
CALLS = (*BLOCKING, *NON_BLOCKING, *PERSISTENT)
PLAIN = ("send", "bcast", "scatter", "gather", "allgather", "alltoall")  # those whose type of data is chosen
OF_OBJECTS = (*PLAIN, "reduce", "allreduce", "scan")
# All that have a lower-case call in mpi4py.
WITH_OBJECTS = (*OF_OBJECTS, "ssend", "bsend", "sendrecv", "isend", "issend", "ibsend", "exscan", "neighbor_allgather",
                "neighbor_alltoall")  # fmt: skip
# Those whose buffers can be dealt in whole doubles; reductions add doubles always.
WITH_DOUBLES = (*boundaries.BETWEEN_TWO, *PLAIN, *REDUCTIONS)
UNSEEN = 20  # random lengths of each call
KINDS = (BYTES, DOUBLES, OBJECTS)
ALGORITHMS = "algorithms"  # all of them
BETWEEN_HOSTS = "two_level"  # the algorithm that ranks of one host cannot use
QUICK = ("send", "barrier", "bcast", "scatter", "gather", "allgather", "reduce", "allreduce", "reduce_scatter",
         "scatterv")  # fmt: skip
OFTEN = (*AMONG_ALL, "neighbor_allgather", "neighbor_alltoall")
MANY = (*boundaries.SENDS, "sendrecv", "isend", *OFTEN, *(f"i{name}" for name in OFTEN))
FEW = (0, 1 << 10, 64 << 10)  # the lengths of all others, in the whole suite
Lengths = tuple[list[int], list[int], list[int]]  # of all models, beside boundaries, and those that no fit sees
SET_UP = 1.5  # seconds of a start of ranks, about
TAKEN = 0.6  # of the seconds that one length may take, about


class Call(NamedTuple):
    """What is measured. few: at few lengths and numbers of ranks."""

    what: str
    kind: str
    few: bool = False


FULL = (
    *(Call(name, BYTES) for name in MANY), *(Call(name, DOUBLES) for name in PLAIN),
    *(Call(name, OBJECTS) for name in OF_OBJECTS), *(Call(name, BYTES, few=True) for name in CALLS if name not in MANY),
)  # fmt: skip


def named(text: str, kind: str) -> list[Call]:
    """The calls that a user named. Raises Unfit for one that the suite does not know, or not with that kind of data."""
    if kind not in KINDS:
        raise samples.Unfit(f"--kind {kind}: say one of {', '.join(KINDS)}")
    found = [name for word in text.split(",") for name in _each(word)]
    for name in found:
        known = kinds(name)
        if kind not in known:
            raise samples.Unfit(f"--kind {kind}: {name} can be measured with {' and '.join(known)} alone")
    return [Call(name, kind) for name in found]


def kinds(name: str) -> list[str]:
    """The kinds of data that a call can be measured with. Raises Unfit for one that the suite does not know."""
    whole, is_pair, parts = name.partition("=")
    stem, is_algorithm, algorithm = name.partition(":")
    if is_pair and whole in AMONG_ALL and len(both := parts.split("+")) == 2 and {*both} <= {*AMONG_ALL}:
        return [BYTES]
    if is_algorithm and stem in AMONG_ALL:
        if algorithm not in (known := algorithms(stem)):
            raise samples.Unfit(f"--what {name}: ranks of one host have these algorithms of {stem}: {', '.join(known)}")
        return [kind for kind in kinds(stem) if kind != OBJECTS]
    if name not in CALLS:
        raise samples.Unfit(
            f"--what {name} is no call of the suite; it has {', '.join(BLOCKING)}, i forms, _init forms, "
            "combinations as bcast=scatter+allgather, and algorithms as bcast:binomial_tree, bcast:*, "
            f"{ALGORITHMS}"
        )
    plain = name.removesuffix("_init") if name in PERSISTENT else name[1:] if name in NON_BLOCKING else name
    fit = {BYTES: True, DOUBLES: plain in WITH_DOUBLES, OBJECTS: name in WITH_OBJECTS}
    return [kind for kind in KINDS if fit[kind]]


def algorithms(primitive: str) -> list[str]:
    """Those of a collective of fastsock.mpj that ranks of one host can use."""
    module = importlib.import_module(f"fastsock.mpj.collectives.{primitive}")
    return [name for name in module.PRIMITIVE.algorithms if name != BETWEEN_HOSTS]


def _each(word: str) -> list[str]:
    """The calls that a word names: ``bcast:*`` all algorithms of one, ``algorithms`` those of all."""
    stem, _, algorithm = word.partition(":")
    if word != ALGORITHMS and not (stem in AMONG_ALL and algorithm == "*"):
        return [word]
    return [f"{name}:{each}" for name in (AMONG_ALL if word == ALGORITHMS else [stem]) for each in algorithms(name)]


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
    few: bool = False


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


def deal(start: Start, longest: int, sizes: Sequence[int] = (), plain_only: bool = False) -> Lengths:
    """The lengths of one start: those of all models, those beside boundaries, and those that no fit sees.

    plain_only: the first alone, which is all that Hockney's model and the thesis's are fitted to.
    """
    if "barrier" in start.what:
        return [0], [], []
    if start.few and not sizes:
        return sorted({min(length, longest) for length in FEW}), [], []
    plain = list(sizes) or powers(longest)
    if plain_only:
        return plain, [], []
    beside = edges(start, longest, plain)
    return plain, beside, random_lengths(longest, start.ranks, [*plain, *beside])


def starts(peers: Sequence[mpi.Mpi], wanted: Sequence[Call | tuple[str, str]], ranks: Sequence[int]) -> Iterable[Start]:
    """All starts, the MPIs by turns; only fastsock's algorithms have names."""
    for p in ranks:
        for call in wanted:
            what, kind, few = Call(*call)
            if what in POINT_TO_POINT and p != min(ranks):
                continue  # two ranks, however many there are
            if few and p not in (min(ranks), max(ranks)):
                continue
            for peer in peers:
                if ":" not in what or peer.name == mpi.FASTSOCK:
                    yield Start(peer, what, kind, 2 if what in POINT_TO_POINT else p, few)


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
            told = mpi.run(forced(start), start.ranks, "primitives", said, timeout=600)
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

    def versions(self, peer: mpi.Mpi) -> dict[str, str]:
        """Those that samples of an MPI have now. Raises Broken where it does not start."""
        said = ["--cores", ",".join(map(str, self.plan.cores))]
        found: dict[str, str] = mpi.run(peer, 1, "primitives", said)[0]["versions"]
        return found


def forced(start: Start) -> mpi.Mpi:
    """The MPI, told in its environment to use the algorithm that the call names."""
    primitive, _, algorithm = start.what.partition(":")
    if not algorithm:
        return start.mpi
    from fastsock.mpj.collectives import table

    variable = table.PRIMITIVE_VARIABLE + primitive.upper()
    return replace(start.mpi, environment=(*start.mpi.environment, (variable, algorithm)))


def described() -> str:
    """The machine in one line; samples of different ones are never mixed."""
    told = machine.description()
    return f"{told['processor']}, {told['cores']} cores, Linux {told['kernel']}"


def run(
    suite: Suite, todo: Sequence[Start], longest: int, sizes: Sequence[int], file: str, plain_only: bool = False
) -> list[Sample]:
    """Measure what the file does not have yet, and add it there after each start.

    plain_only: the lengths of all models alone, and calls share starts.

    Raises Unfit where the file has something else, or samples that the new ones must not be mixed with.
    """
    if not todo:
        raise samples.Unfit(f"only {mpi.FASTSOCK} has algorithms with names: name it with --peers")
    there = samples.resumed(file)
    _check_alike(suite, there, {start.mpi.name: start.mpi for start in todo}, file)
    wanted_distance = suite.plan.distance
    suite.full = min((s.full for s in there if s.full), default=0.0)
    have = {(s.mpi, s.what, s.kind, s.ranks, s.asked) for s in there if wanted_distance in ("", s.distance)}
    left = []
    for start in todo:
        lengths = deal(start, longest, sizes, plain_only)
        if not all((start.mpi.name, start.what, start.kind, start.ranks, n) in have for n in itertools.chain(*lengths)):
            left.append((start, lengths))
    left = _joined(left) if plain_only else left
    expected = sum(SET_UP + TAKEN * suite.plan.seconds * sum(map(len, lengths)) for _, lengths in left)
    if left:
        print(f"{len(left)} starts of ranks, about {max(1, round(expected / 60))} minutes", file=sys.stderr, flush=True)
    for number, (start, lengths) in enumerate(left, 1):
        print(f"{number}/{len(left)}  {start.mpi.name}: {start.what} ({start.kind}), {start.ranks} ranks",
              file=sys.stderr, flush=True)  # fmt: skip
        found = suite.take(start, *lengths)
        samples.append(file, found)
        there += found
    return there


def _joined(left: Iterable[tuple[Start, Lengths]]) -> list[tuple[Start, Lengths]]:
    """Calls that differ by nothing else share a start: most of a short measurement is that ranks start.

    An algorithm is named in the environment of its own start.
    """
    groups: dict[Any, list[Start]] = {}
    for start, lengths in left:
        key = start.what if ":" in start.what else ""
        groups.setdefault((start.mpi, start.kind, start.ranks, key, repr(lengths)), []).append(start)
    known = dict(left)
    return [(replace(of[0], what=",".join(start.what for start in of)), known[of[0]]) for of in groups.values()]


def _check_alike(suite: Suite, there: Sequence[Sample], peers: Mapping[str, mpi.Mpi], file: str) -> None:
    """Raise Unfit where a file's samples are of another machine, or of other versions of these MPIs."""
    advice = "name another file with --samples"
    others = sorted({s.machine for s in there} - {suite.machine})
    if others:
        raise samples.Unfit(f"{file} has samples of another machine ({'; '.join(others)}): {advice}")
    for name, peer in peers.items():
        known = [s.versions for s in there if s.mpi == name]
        if not known:
            continue
        try:
            now = suite.versions(peer)
        except Broken as error:
            raise samples.Unfit(f"{error}: leave it out with --peers") from None
        if differ := samples.difference([*known, now]):
            raise samples.Unfit(f"{file} has samples of other versions of {name} ({differ}): {advice}")
