"""What the kernels must reach, and which runs tell: beside the better of MPICH and Open MPI, in the same turn."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from . import kernel_runs, mpi, mpi_targets, native_npb, summary
from .interleave import Sample
from .kernel_runs import OBJECTS, PLAIN, SKELETON, WHOLE, Case
from .placement import NEAR, UNKNOWN
from .target import Result

NPB = ("cg", "ep", "ft", "is", "mg", "sp")
DT = {"dt-bh": 5, "dt-wh": 5, "dt-sh": 12}  # nodes of class S
JGF = ("crypt", "lufact", "series", "sor", "sparse", "moldyn")
NOISE = 0.03
LESS, LITTLE_LESS = 1.3, 1.1
FASTER_SHORT_OF_CORES = 1.3  # beside Open MPI: four ranks on two cores
COMPARED = (mpi.FASTSOCK, *mpi.OTHERS)
SCALES, TWO_CORES = 1.7, 1.8  # without communication, where two busy cores give that

SKELETONS = {
    Case(kernel, letter, 2, SKELETON): least
    for kernel, letters, least in (
        ("cg", "SW", LESS), ("mg", "SW", LESS), ("lufact", "AB", LESS), ("moldyn", "A", LESS), ("sparse", "A", LESS),
        ("ft", "A", LITTLE_LESS), ("is", "A", LITTLE_LESS),
    )
    for letter in letters
}  # fmt: skip
CROWDED = [Case("cg", "S", 4), Case("cg", "W", 4), Case("mg", "S", 4), Case("lufact", "A", 4)]
NEVER_SLOWER = [
    *kernel_runs.product(NPB, "WA", [2], [WHOLE]),
    *kernel_runs.product(JGF, "A", [2], [WHOLE]),
]
BY_OBJECTS = Case("lufact", "B", 2, OBJECTS)


def quick() -> list[Case]:
    """A few short ones."""
    short = [Case("cg", "S", 2, SKELETON), Case("mg", "S", 2, SKELETON), Case("lufact", "A", 2, SKELETON)]
    return [*short, *kernel_runs.product(["cg", "is", "mg", "ft"], "S", [2], [WHOLE]), Case("cg", "S", 4)]


def full() -> list[Case]:
    """All that a line asks for; verified runs of every kernel on every number of ranks."""
    verified = [
        *kernel_runs.product(NPB, "SWA", [1, 2, 4], [WHOLE]),
        *kernel_runs.product(["sp"], "SW", [9], [WHOLE]),
        *(Case(graph, "S", nodes) for graph, nodes in DT.items()),
        *kernel_runs.product(JGF, "A", [1, 2, 4], [WHOLE]),
    ]
    plain = [*kernel_runs.product(NPB, "W", [1], [PLAIN]), *kernel_runs.product(JGF, "A", [1], [PLAIN])]
    told = [Case("lufact", "B", 2), BY_OBJECTS]
    return [*verified, *SKELETONS, *CROWDED, *plain, *told]


def turns(case: Case, most: int) -> int:
    """How many turns of `full` and `quick` a case takes part in: one where no line divides its times by others'.

    Such a run shows that the result is right, or what numpy alone takes. SP and DT are the longest, and have no line.
    """
    if case.way == PLAIN:
        return 1
    scales = case.ranks in (1, 2) and case.kernel in (*NPB, *JGF) and case.kernel != "sp"
    return most if scales or case in CROWDED else 1


def by_device(case: Case) -> bool:
    """Whether it runs once on each other device of fastsock.mpj too, to be verified there: the shortest of a kernel."""
    return case.way == WHOLE and case.letter == ("A" if case.kernel in JGF else "S")


def results(
    samples: Sequence[Sample], failed: Collection[tuple[str, str]], skipped: Mapping[str, str], busy: float | None
) -> list[Result]:
    """One line for each question that the samples answer.

    failed: names of cases with the MPI. skipped: MPIs that cannot run here, and why. busy: what two busy cores give
    over one.
    """
    lines = _verified(samples, failed, skipped)
    samples = [sample for sample in samples if sample.peer not in mpi.DEVICES]  # whose times no line divides
    there = {sample.what for sample in samples}
    lines += [*_never_slower(samples), *_skeletons(samples), *_crowded(samples)]
    lines += [line for name, letter in _measured_pairs(samples) for line in _speedup(samples, name, letter, busy)]
    for what in dict.fromkeys(sample.what for sample in samples if sample.peer == native_npb.NATIVE):
        ours = summary.compare(samples, what, 0, mpi.FASTSOCK, native_npb.NATIVE)
        lines.append(Result(f"{what}: a compiled NPB's time over ours", ours, "x"))
    if busy is not None:
        lines.append(Result("two busy cores over one", busy, "x"))
    for kernel, letter in dict.fromkeys(_words(sample.what)[:2] for sample in samples):
        for ranks in (1, 2, 4):
            whole = Case(kernel, letter, ranks)
            for way, text in ((PLAIN, "compiled loops beside numpy"), (OBJECTS, "arrays beside objects")):
                case = Case(kernel, letter, ranks, way)
                if {whole.name, case.name} <= there:
                    gain = _over(samples, case.name, whole.name, mpi.FASTSOCK)
                    lines.append(Result(f"{kernel} {letter}, {ranks} ranks, {text}: times less", gain, "x"))
    return lines


def _verified(
    samples: Sequence[Sample], failed: Collection[tuple[str, str]], skipped: Mapping[str, str]
) -> list[Result]:
    """For each MPI and each device, how many of its cases were right in every turn: a wrong result has no sample."""
    ran = {(sample.what, sample.peer) for sample in samples}
    lines = []
    for peer in (mpi.FASTSOCK, mpi.FASTSOCK_TCP, *mpi.DEVICES, *mpi.OTHERS):
        every = [run for run in ran | {*failed} if run[1] == peer and kernel_runs.way(run[0]) != SKELETON]
        passed = sum(run not in failed for run in every)
        text = f"verified on {peer}"
        if every:
            lines.append(Result(text, passed / len(every), "of all", 1.0, note=f"{passed} of {len(every)} cases"))
        elif peer in skipped:
            lines.append(Result(text, None, "of all", 1.0, note=skipped[peer]))
    return lines


def _never_slower(samples: Sequence[Sample]) -> list[Result]:
    return [_line(samples, case, f"{case.name}: whole time", 1.0, NOISE) for case in _those(samples, NEVER_SLOWER)]


def _skeletons(samples: Sequence[Sample]) -> list[Result]:
    return [_line(samples, c, f"{c.name}: times less", SKELETONS[c], 0.0) for c in _those(samples, SKELETONS)]


def _crowded(samples: Sequence[Sample]) -> list[Result]:
    found = []
    for case in _those(samples, CROWDED):
        measured, near = summary.compare_here(samples, case.name, 0, mpi.FASTSOCK, mpi.OPENMPI)
        mpich = summary.compare(samples, case.name, 0, mpi.FASTSOCK, mpi.MPICH)
        note = "" if mpich is None else f"beside MPICH {mpich:.2f}"
        cores = summary.placements(samples, case.name, 0)
        what = f"{case.name} on 2 cores, beside Open MPI"
        least = FASTER_SHORT_OF_CORES if near else None
        found.append(Result(what, measured, "x", least, None, cores, note or "not measured"))
    return found


def _speedup(samples: Sequence[Sample], kernel: str, letter: str, busy: float | None) -> list[Result]:
    one, two = Case(kernel, letter, 1).name, Case(kernel, letter, 2).name
    reached, near = _reached(_near(samples, one, two), one, two), True
    if mpi.FASTSOCK not in reached:  # the bars are those of near cores
        reached, near = _reached(samples, one, two), False
    ours = reached.get(mpi.FASTSOCK)
    others = [gain for peer, gain in reached.items() if peer != mpi.FASTSOCK]
    cores = summary.placements(samples, two, 0)
    beside = ours / max(others) if ours is not None and others else None
    told = ", ".join(f"{peer} {gain:.2f}" for peer, gain in reached.items())
    note = told if near else f"never near: {told}"
    least = 1.0 if near else None
    lines = [Result(f"{kernel} {letter}, speedup of 2 ranks", beside, "x", least, None, cores, note, NOISE)]
    if kernel in ("ep", "series", "crypt"):
        bound = SCALES if near and busy is not None and busy >= TWO_CORES else None
        note = "" if near else "never near"
        lines.append(Result(f"{kernel} {letter}, 2 ranks over 1", ours, "x", bound, None, cores, note))
    return lines


def _reached(samples: Sequence[Sample], slower: str, faster: str) -> dict[str, float]:
    """The speedup from one to the other, for those that have one."""
    found = {peer: _over(samples, slower, faster, peer) for peer in COMPARED}
    return {peer: gain for peer, gain in found.items() if gain is not None}


def _measured_pairs(samples: Sequence[Sample]) -> list[tuple[str, str]]:
    names = {sample.what for sample in samples}
    pairs = dict.fromkeys(_words(sample.what)[:2] for sample in samples)
    return [(kernel, letter) for kernel, letter in pairs if {Case(kernel, letter, n).name for n in (1, 2)} <= names]


def _those(samples: Sequence[Sample], cases: Iterable[Case]) -> list[Case]:
    names = {sample.what for sample in samples}
    return [case for case in cases if case.name in names]


def _line(samples: Sequence[Sample], case: Case, text: str, least: float, noise: float) -> Result:
    cores = summary.placements(samples, case.name, 0)
    near, turns = _near(samples, case.name), {sample.turn for sample in samples if sample.what == case.name}
    measured, often = mpi_targets.against_best(near, case.name, 0), len({sample.turn for sample in near})
    if measured is not None:
        # one turn of many decides nothing: single runs differ by more than the MPIs do
        if 2 * often < len(turns):
            return Result(text, measured, "x", None, None, cores, f"near in {often} of {len(turns)} turns")
        return Result(text, measured, "x", least, None, cores, "", noise)
    # the bars are those of near cores
    measured = mpi_targets.against_best(samples, case.name, 0)
    return Result(text, measured, "x", None, None, cores, "never near" if measured is not None else "not measured")


def _near(samples: Sequence[Sample], *names: str) -> list[Sample]:
    """Those by these names in turns that were near for each MPI that a bar compares.

    Of a turn all or nothing: else the better MPI could be the one that is left out. One rank is near to itself.
    """
    mine = [sample for sample in samples if sample.what in names and sample.peer in COMPARED]
    far = [sample for sample in mine if sample.placement not in (NEAR, UNKNOWN)]
    moved = {sample.turn for sample in far if kernel_runs.ranks(sample.what) > 1}
    return [sample for sample in mine if sample.turn not in moved]


def _over(samples: Sequence[Sample], slower: str, faster: str, peer: str) -> float | None:
    """How many times longer one takes than the other on one MPI: the median over the turns that hold both."""
    turns: dict[int, dict[str, float]] = {}
    for sample in samples:
        if sample.peer == peer and sample.what in (slower, faster):
            turns.setdefault(sample.turn, {})[sample.what] = sample.value
    found = [turn[slower] / turn[faster] for turn in turns.values() if len(turn) == 2]
    return summary.median(found) if found else None


def _words(what: str) -> tuple[str, str]:
    kernel, letter = what.split()[:2]
    return kernel, letter
