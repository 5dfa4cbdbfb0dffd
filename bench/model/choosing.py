"""A selection table from models of the algorithms, beside the one that was tuned by measuring everything.

Few lengths and few calls of each algorithm; a model for each; the table from what they predict at the tuned table's
lengths. Then both tables' choices are measured wherever they differ.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from common import collective_tuning, machine, mpi, sizes, table

from . import lines
from .fits import Piece
from .samples import Unfit

EACH = 20  # calls of each algorithm and length
SPARSE = 16  # lengths: powers of it
SIZES = "8,1k,16k,64k,256k,1m"
SECONDS = 0.03  # of tuning, for each algorithm and length
NEAR_ENOUGH = 0.1
Key = tuple[str, str, int]  # primitive, reach, ranks


@dataclass(frozen=True)
class Choice:
    """What both tables choose for one call; measured where they differ, microseconds."""

    primitive: str
    reach: str
    ranks: int
    size: int
    tuned: str
    model: str
    tuned_us: float | None = None
    model_us: float | None = None

    @property
    def lost(self) -> float:
        """The share of the tuned choice's time that the model's choice takes more; below 0: the tuned one is wrong."""
        return self.model_us / self.tuned_us - 1 if self.tuned_us and self.model_us else 0.0


@dataclass(frozen=True)
class Found:
    """The table's rows, both tables' choices, and the seconds of measuring."""

    rows: list[tuple[str, str, int, int, str, str]]
    choices: list[Choice]
    took: float
    tuning: float


def run(cores: tuple[int, int], what: str, ranks: Sequence[int], longest: int, quick: bool) -> Found:
    """Measure a little, model, choose, compare."""
    measured: collective_tuning.Measured = {}
    took = 0.0
    reaches = ("host", "messages") if quick else collective_tuning.REACHES
    lengths = [8 * SPARSE**i for i in range(20) if 8 * SPARSE**i < longest] + [longest]
    for reach in reaches:
        for p in ranks:
            said = [*_said(reach, cores), "--what", what, "--each", str(EACH)]
            machine.wait_until_idle()
            for entry in mpi.run(_runner(reach), p, "algorithms", [*said, "--sizes", _joined(lengths)], timeout=1800):
                measured.setdefault((entry["what"], reach, p, entry["size"]), {})[entry["algorithm"]] = entry["value"]
                took += entry["seconds"]
    if not measured:
        raise Unfit(f"no algorithm of {what} could be measured: name collectives of fastsock.mpj")
    wanted = sizes.parse(SIZES)
    modelled = predicted(measured, [size for size in wanted if size <= longest])
    rows = list(collective_tuning.chosen(modelled))
    calls = sum(len(values) for values in modelled.values())
    return Found(rows, _compared(modelled, rows, cores), took, calls * SECONDS)


def predicted(measured: collective_tuning.Measured, wanted: Sequence[int]) -> collective_tuning.Measured:
    """The same algorithms at the wanted lengths, by straight lines between neighbouring lengths of few samples."""
    result: collective_tuning.Measured = {}
    for name, reach, ranks in dict.fromkeys(key[:3] for key in measured):
        mine = {key[3]: values for key, values in measured.items() if key[:3] == (name, reach, ranks)}
        if set(mine) == {0}:
            result[name, reach, ranks, 0] = mine[0]
            continue
        for algorithm in dict.fromkeys(each for values in mine.values() for each in values):
            known = {size: values[algorithm] for size, values in mine.items() if algorithm in values}
            pieces = _pieces(known)
            for size in wanted:
                piece = next((each for each in pieces if size <= each.end), pieces[-1])
                value = max(piece.a + piece.b * size, 1e-3)
                result.setdefault((name, reach, ranks, size), {})[algorithm] = value
    return result


def _pieces(known: dict[int, float]) -> list[Piece]:
    ordered = sorted(known)
    if len(ordered) == 1:
        return [Piece(ordered[0], known[ordered[0]], 0.0)]
    pairs = itertools.pairwise(ordered)
    return [Piece(right, *lines.straight((left, right), (known[left], known[right]))) for left, right in pairs]


def _compared(
    modelled: collective_tuning.Measured, rows: Sequence[tuple[str, str, int, int, str, str]], cores: tuple[int, int]
) -> list[Choice]:
    from fastsock.mpj.collectives import table as selection

    tuned = selection.Table(selection.parse(collective_tuning.SHIPPED.read_text(), "table.txt"))
    fresh = selection.Table(selection.parse(text(rows), "the models' table"))
    choices = []
    for name, reach, ranks, size in modelled:
        both = [_first(one.candidates(name, reach, ranks, size)) for one in (tuned, fresh)]
        choices.append(Choice(name, reach, ranks, size, both[0], both[1]))
    return _measured(choices, cores)


def _first(algorithms: Sequence[str]) -> str:
    """Two levels are no choice on one host: the table names them first between hosts, always."""
    return next((each for each in algorithms if each != "two_level"), algorithms[0])


def _measured(choices: Sequence[Choice], cores: tuple[int, int]) -> list[Choice]:
    """The same with the times of both choices where these differ."""
    times: dict[tuple[str, str, int, int, str], float] = {}
    for reach, ranks in dict.fromkeys((each.reach, each.ranks) for each in choices):
        mine = [each for each in choices if (each.reach, each.ranks) == (reach, ranks) and each.tuned != each.model]
        cases = ",".join(f"{each.primitive}:{each.size}:{each.tuned}+{each.model}" for each in mine)
        if cases:
            said = [*_said(reach, cores), "--cases", cases]
            for entry in mpi.run(_runner(reach), ranks, "algorithms", said, timeout=1800):
                times[entry["what"], reach, ranks, entry["size"], entry["algorithm"]] = entry["value"]

    def took(each: Choice, algorithm: str) -> float | None:
        return times.get((each.primitive, each.reach, each.ranks, each.size, algorithm))

    return [replace(each, tuned_us=took(each, each.tuned), model_us=took(each, each.model)) for each in choices]


def _said(reach: str, cores: tuple[int, int]) -> list[str]:
    return ["--reach", reach, "--cores", _joined(cores)]


def _joined(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def _runner(reach: str) -> mpi.Mpi:
    return mpi.find(mpi.FASTSOCK_TCP if reach == "hosts" else mpi.FASTSOCK)


def text(rows: Sequence[tuple[str, str, int, int, str, str]]) -> str:
    """The table's file."""
    header = collective_tuning.HEADER.replace("measured by python -m bench.collectives --tune",
                                              "from models by python -m bench.model table")  # fmt: skip
    return (
        header + "\n".join(f"{' '.join(map(str, key))} {algorithm}  # {note}" for *key, algorithm, note in rows) + "\n"
    )


def write(file: str, rows: Sequence[tuple[str, str, int, int, str, str]]) -> None:
    """Write the table; the shipped one is written where it is named, and nowhere else."""
    Path(file).write_text(text(rows))


def within(choices: Sequence[Choice]) -> float:
    """The share of calls for which the model's choice takes at most 10 % more."""
    return sum(each.lost <= NEAR_ENOUGH for each in choices) / len(choices)


def report(found: Found) -> str:
    """Where the tables differ, and what that costs."""
    differ = [each for each in found.choices if each.tuned != each.model]
    rows = [
        [each.primitive, each.reach, str(each.ranks), sizes.name(each.size), each.tuned, table.number(each.tuned_us),
         each.model, table.number(each.model_us), f"{each.lost:+.0%}"]
        for each in differ
    ]  # fmt: skip
    same = len(found.choices) - len(differ)
    return (
        table.lines(["primitive", "reach", "ranks", "bytes", "tuned", "us", "model", "us", "lost"], rows)
        + f"\n{same} of {len(found.choices)} choices agree; {within(found.choices):.0%} within 10 % of the tuned time"
        + f"\nmeasuring took {found.took:.0f} s; tuning takes {found.tuning:.0f} s for the same calls"
        + f" ({found.took / found.tuning:.0%})"
    )
