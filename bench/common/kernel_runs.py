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
WHOLE, SKELETON, PLAIN, OBJECTS, UNCOUNTED = "whole", "skeleton", "plain numpy", "objects", "uncounted"
REPEATED = 0.5  # seconds in which a short kernel is run again and again, in one start
# A skeleton's calls take little time each: the wrapper around them would be seen.
OPTIONS = {
    WHOLE: [],
    SKELETON: ["--skeleton", "--no-count"],
    PLAIN: ["--plain-numpy"],
    OBJECTS: ["--objects"],
    UNCOUNTED: ["--no-count"],
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
    """A kernel that is there: its program, its arithmetics, and for each class the numbers of ranks that it can use."""

    program: Path
    ranks: dict[str, list[int]]
    arithmetics: list[str]

    def can(self, case: Case) -> bool:
        """Whether the case can be run at all."""
        if case.way == PLAIN and "numba" not in self.arithmetics:
            return False
        return case.ranks in self.ranks.get(case.letter, [])


def known(one: mpi.Mpi) -> dict[str, Known]:
    """The kernels there are, by name. Raises Broken."""
    found = {}
    for suite in SUITES:
        program = BENCH / suite / "run.py"
        for line in mpi.run(one, 1, program, ["--list"]):
            found[line["kernel"]] = Known(program, line["ranks"], line["arithmetics"])
    return found


def run(case: Case, of: Known, one: mpi.Mpi, cores: Sequence[int], limit: float) -> dict[str, Any]:
    """What the kernel told. Raises Broken, also where the result is not right."""
    words = [case.kernel, case.letter, "--cores", ",".join(map(str, cores)), f"--repeat={REPEATED}", *OPTIONS[case.way]]
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
    return [case for case in dict.fromkeys(cases) if case.kernel in kernels and kernels[case.kernel].can(case)]
