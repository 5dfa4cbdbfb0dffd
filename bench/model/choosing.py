"""A selection table from models of the algorithms, beside the one that was tuned by measuring everything.

Few lengths of each algorithm, a fifth of the time for each; a model for each; the table from what they predict at the
tuned table's lengths. Then the same cells are measured as tuning does: that tells what each choice costs, and how long
tuning takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from common import collective_tuning, mpi, sizes, summary, table
from common.collective_tuning import Measured, Row

from fastsock.mpj.collectives import table as selection

from . import fits
from .fits import RELATIVE
from .samples import BYTES, Sample, Unfit

SECONDS = collective_tuning.SECONDS / 5  # for each algorithm and length
FIRST, SPARSE = 2 << 10, 32  # lengths: nothing, this, so many times it, ...
NEAR_ENOUGH = 0.1


@dataclass(frozen=True)
class Choice:
    """What both tables choose for one call, and the measured microseconds; None where these were not measured."""

    primitive: str
    reach: str
    ranks: int
    size: int
    tuned: str
    model: str
    tuned_us: float | None = None
    model_us: float | None = None

    @property
    def lost(self) -> float | None:
        """The share of the tuned choice's time that the model's choice takes more; below 0: the tuned one is wrong."""
        if self.tuned == self.model:
            return 0.0
        return None if self.tuned_us is None or self.model_us is None else self.model_us / self.tuned_us - 1


@dataclass(frozen=True)
class Found:
    """The table's rows, what they are of, both tables' choices where there is one, and the seconds of measuring."""

    rows: list[Row]
    modelled: Measured
    choices: list[Choice]
    took: float
    tuning: float
    settled: int = 0  # calls whose algorithm is no choice: by rule, or since there is one alone
    wrong: list[float] = field(default_factory=list)  # relative errors of the predicted times

    @property
    def judged(self) -> list[Choice]:
        """The choices that can be compared."""
        return [each for each in self.choices if each.lost is not None]


def check_file(file: str) -> None:
    """Raise Unfit where a file is there and is no selection table: its other lines could not be kept."""
    if Path(file).exists():
        try:
            selection.parse(Path(file).read_text(), file)
        except ValueError as error:
            raise Unfit(f"{error}: name a selection table, or a new file") from None


def run(cores: tuple[int, int], what: str, ranks: Sequence[int], longest: int, quick: bool) -> Found:
    """Measure a little, model, choose; measure everything, compare. Raises Unfit where there is too little to model."""
    if len(ranks) < 2:
        raise Unfit(f"models of collectives want two numbers of ranks: say --ranks {ranks[0]},{2 * ranks[0]}")
    if longest <= FIRST:
        raise Unfit(f"models want longer messages: say --longest {8 * FIRST} or more")
    few: Measured = {}
    everything: Measured = {}
    took = tuning = 0.0
    names = ["--what", collective_tuning.named(what)]
    ways = ["--seconds", str(SECONDS)], ["--seconds", str(collective_tuning.SECONDS)]
    reaches = ("host", "messages") if quick else collective_tuning.REACHES
    lengths = [0, *(FIRST * SPARSE**i for i in range(10) if FIRST * SPARSE**i < longest), longest]
    wanted = [size for size in collective_tuning.SIZES if size <= longest]
    for reach in reaches:
        for p in ranks:
            some, seconds = collective_tuning.measure(reach, p, cores, [*names, *ways[0]], lengths)
            few.update(some)
            took += seconds
            some, seconds = collective_tuning.measure(reach, p, cores, [*names, *ways[1]], wanted)
            everything.update(some)
            tuning += seconds
    modelled = predicted(few, wanted)
    rows = [(*key, f"model: {note}") for *key, note in collective_tuning.chosen(modelled)]
    choices, settled = compared(modelled, rows, everything)
    return Found(rows, modelled, choices, took, tuning, settled, errors(modelled, everything))


def predicted(measured: Measured, wanted: Sequence[int]) -> Measured:
    """The same algorithms at the wanted lengths, by the thesis's model of each; none is faster than it was at its best.

    Raises Unfit where nothing can be modelled.
    """
    taken = [
        Sample(f"{mpi.FASTSOCK}, {reach}", f"{name}:{algorithm}", BYTES, ranks, size, took, took, took, 1, "", "")
        for (name, reach, ranks, size), values in measured.items()
        for algorithm, took in values.items()
    ]
    least: dict[tuple[str, str, int], float] = {}
    for s in taken:
        least[s.mpi, s.what, s.ranks] = min(s.least, least.get((s.mpi, s.what, s.ranks), s.least))
    result: Measured = {}
    for one in fits.fit(taken):
        (name, _, algorithm), reach = one.what.partition(":"), one.mpi.removeprefix(f"{mpi.FASTSOCK}, ")
        for ranks in one.ranks:
            for size in wanted if one.longest else [0]:
                value = max(one.predict(RELATIVE, size, ranks), least[one.mpi, one.what, ranks])
                result.setdefault((name, reach, ranks, size), {})[algorithm] = value
    return result


def errors(modelled: Measured, everything: Measured) -> list[float]:
    """How wrong the predicted times are, relative to those that tuning measures."""
    return [
        abs(took / everything[cell][algorithm] - 1)
        for cell, values in modelled.items()
        for algorithm, took in values.items()
        if algorithm in everything.get(cell, {})
    ]


def compared(modelled: Measured, rows: Iterable[Row], everything: Measured) -> tuple[list[Choice], int]:
    """Both tables' choices where the models have one; and how many calls leave them none."""
    tuned = selection.Table(selection.parse(collective_tuning.SHIPPED.read_text(), "table.txt"))
    text = "\n".join(map(collective_tuning.as_line, rows))
    fresh = selection.Table(selection.parse(text, "the models' table"))
    choices = []
    for (name, reach, ranks, size), values in modelled.items():
        if collective_tuning.by_rule(name, reach, size) or len(values) < 2:
            continue
        both = [_first(one.candidates(name, reach, ranks, size)) for one in (tuned, fresh)]
        times = everything.get((name, reach, ranks, size), {})
        choices.append(Choice(name, reach, ranks, size, *both, *(times.get(each) for each in both)))
    return choices, len(modelled) - len(choices)


def _first(algorithms: Sequence[str]) -> str:
    """Two levels are no choice on one host: the table names them first between hosts, always."""
    return next((each for each in algorithms if each != "two_level"), algorithms[0])


def write(file: str, found: Found) -> None:
    """Write the table; the shipped one is written where it is named, and nowhere else."""
    collective_tuning.write(file, found.rows, found.modelled)


def within(found: Found) -> float | None:
    """Of the choices that can be compared, the share in which the model's takes at most 10 % more."""
    lost = [each.lost for each in found.judged if each.lost is not None]
    return sum(one <= NEAR_ENOUGH for one in lost) / len(lost) if lost else None


def report(found: Found) -> str:
    """Where the tables differ, and what that costs."""
    differ = [each for each in found.choices if each.tuned != each.model]
    rows = [
        [each.primitive, each.reach, str(each.ranks), sizes.name(each.size), each.tuned, table.number(each.tuned_us),
         each.model, table.number(each.model_us), "-" if each.lost is None else f"{each.lost:+.0%}"]
        for each in differ
    ]  # fmt: skip
    good = within(found)
    told = [
        table.lines(["primitive", "reach", "ranks", "bytes", "tuned", "us", "model", "us", "lost"], rows),
        f"{len(found.choices) - len(differ)} of {len(found.choices)} choices agree; "
        f"{'none' if good is None else f'{good:.0%}'} of {len(found.judged)} within 10 % of the tuned time",
        f"left out: {len(found.choices) - len(found.judged)} whose algorithms were not both measured, "
        f"{found.settled} that have one algorithm, by rule or alone",
    ]
    if found.wrong:
        told.append(f"predicted times are {summary.median(found.wrong):.0%} off (median of {len(found.wrong)})")
    told.append(
        f"measuring took {found.took:.0f} s; tuning the same cells took {found.tuning:.0f} s"
        f" ({found.took / found.tuning:.0%})"
    )
    return "\n".join(told)
