"""What a kernel is to the program that runs it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar


class Unusable(Exception):
    """The user's mistake, or a machine that is too small: one line that says what to do."""


@dataclass(frozen=True)
class Verification:
    """Whether the results are right; rows: (what, computed, expected, error, largest error that is accepted)."""

    passed: bool
    rows: list[tuple[str, float, float, float, float]] = field(default_factory=list)

    @classmethod
    def relative(cls, compared: Iterable[tuple[str, Any, Any]], accepted: float) -> Verification:
        """Errors relative to what is expected. A number that is none is wrong."""
        rows = [(what, got, due, float(abs((got - due) / due)), accepted) for what, got, due in compared]
        return cls(all(row[3] <= accepted for row in rows), rows)

    @classmethod
    def exact(cls, compared: Iterable[tuple[str, Any, Any]]) -> Verification:
        """Nothing but what is expected."""
        rows = [(what, got, due, float(abs(got - due)), 0.0) for what, got, due in compared]
        return cls(all(row[3] == 0 for row in rows), rows)


def power_of_two(ranks: int) -> bool:
    """Whether a number of ranks is 1, 2, 4, ..."""
    return ranks > 0 and ranks & (ranks - 1) == 0


class Kernel(ABC):
    """One benchmark on one problem.

    comm: a communicator with mpi4py's upper-case calls (it may count). arithmetic: an object of one of `arithmetics`;
    all that a kernel computes, a method for each step. The kernel's own text is its communication.
    """

    name: ClassVar[str]  # "CG"
    problems: ClassVar[Mapping[str, Any]]  # class or size letter: its constants
    # "numpy" always; "numba" where compiled loops gain twice; "skeleton": the same calls and lengths, nothing computed
    arithmetics: ClassVar[Mapping[str, type]]
    title: ClassVar[str] = "NAS Parallel Benchmarks 3.4"  # whose constants and counts
    counted: ClassVar[str] = "floating point"  # what `operations` counts, in NPB's words
    size: str  # as NPB's block has it: "12 x 12 x 12"
    iterations: int

    def __init__(self, comm: Any, problem: str, arithmetic: Any) -> None:
        self.comm, self.problem, self.arithmetic = comm, problem, arithmetic

    @classmethod
    @abstractmethod
    def ranks(cls, problem: str) -> Callable[[int], bool]:
        """Which numbers of ranks the problem can be divided among."""

    @classmethod
    @abstractmethod
    def memory(cls, problem: str, ranks: int) -> int:
        """Bytes of all ranks together, before anything is allocated."""

    @abstractmethod
    def prepare(self) -> None:
        """Set-up and, where NPB has it, one untimed iteration. All arrays are made here."""

    @abstractmethod
    def run(self) -> None:
        """What is timed."""

    @abstractmethod
    def verify(self) -> Verification:
        """The results beside the published ones. Every rank calls it; rank 0's answer counts."""

    @abstractmethod
    def operations(self) -> float:
        """NPB's own count, for Mop/s; 0 where there is none."""
