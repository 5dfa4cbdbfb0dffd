"""Runs of the kernels in bench/npb and bench/jgf: which there are, and one of them on one MPI."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import mpi, mpi_targets
from .process import Broken

BENCH = Path(__file__).resolve().parent.parent
SUITES = ("npb", "jgf")
ORDER = "SWABC"  # classes, rising
WHOLE, SKELETON, PLAIN, OBJECTS = "whole", "skeleton", "plain numpy", "objects"
REPEATED = 0.8  # seconds in which a short kernel is run again and again, in one start
OPTIONS = {
    WHOLE: [],
    SKELETON: ["--skeleton", "--no-count"],
    PLAIN: ["--plain-numpy"],
    OBJECTS: ["--objects"],
}


@dataclass(frozen=True)
class Case:
    """One kernel on one problem, with a number of ranks, in one way."""

    kernel: str
    letter: str
    ranks: int
    way: str = WHOLE

    @property
    def name(self) -> str:
        """The name of its samples."""
        return mpi_targets.name(f"{self.kernel} {self.letter} {self.way}", self.ranks, False)


@dataclass(frozen=True)
class Known:
    """A kernel that is there: its program, its arithmetics, and what it makes of the numbers of ranks in question."""

    program: Path
    nearest: dict[str, dict[int, int]]  # by class: to each number, and to each nearest one, the nearest that it can use
    arithmetics: list[str]

    def why_not(self, case: Case) -> str:
        """What keeps the case from being run, with the nearest that can be; empty where nothing does."""
        if case.letter not in self.nearest:
            letter = min(self.nearest, key=lambda each: abs(ORDER.find(each) - ORDER.find(case.letter)))
            return f"{case.kernel} has no class {case.letter}; the nearest that it has is {letter}"
        nearest = self.nearest[case.letter][case.ranks]
        if nearest != case.ranks:
            return (
                f"{case.kernel} {case.letter} cannot use {case.ranks} ranks;"
                f" the nearest number that it can is {nearest}"
            )
        if case.way == PLAIN and "numba" not in self.arithmetics:
            return f"{case.kernel} has no compiled loops; all its runs are of plain numpy"
        return ""


def known(one: mpi.Mpi, numbers: Iterable[int]) -> dict[str, Known]:
    """The kernels there are, by name, asked about these numbers of ranks. Raises Broken."""
    found = {}
    asked = ",".join(map(str, sorted(set(numbers))))
    for suite in SUITES:
        program = BENCH / suite / "run.py"
        for line in mpi.run(one, 1, program, [f"--list={asked}"]):
            nearest = {
                letter: {near: near for near in of.values()} | {int(n): near for n, near in of.items()}
                for letter, of in line["nearest"].items()
            }
            found[line["kernel"]] = Known(program, nearest, line["arithmetics"])
    return found


def run(
    case: Case, of: Known, one: mpi.Mpi, cores: Sequence[int], limit: float, repeat: float = REPEATED
) -> dict[str, Any]:
    """What the kernel told. Raises Broken, also where the result is not right."""
    words = [case.kernel, case.letter, "--cores", ",".join(map(str, cores)), f"--repeat={repeat}", *OPTIONS[case.way]]
    told = mpi.run(one, case.ranks, of.program, words, limit)
    if len(told) != 1 or told[0]["verified"] is False:
        raise Broken(f"{one.name}: {case.name}: told nothing that is verified")
    return told[0]


def product(names: Iterable[str], letters: str, ranks: Iterable[int], ways: Collection[str]) -> list[Case]:
    """Each with each; letters as one word."""
    numbers = list(ranks)
    return [Case(name, letter, n, way) for name in names for letter in letters for n in numbers for way in ways]


def usable(cases: Iterable[Case], kernels: dict[str, Known]) -> list[Case]:
    """Each case once, where its kernel can run it."""
    return [case for case in dict.fromkeys(cases) if not kernels[case.kernel].why_not(case)]


def way(what: str) -> str:
    """The way of a case, by its name."""
    return what.partition(",")[0].split(maxsplit=2)[2]


def ranks(what: str) -> int:
    """The number of ranks of a case, by its name."""
    return int(what.rpartition(", ")[2].split()[0])
