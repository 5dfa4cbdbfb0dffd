"""A target beside what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from . import table


@dataclass(frozen=True)
class Result:
    """One line of a question's answer; without a bound it is only told."""

    what: str
    measured: float | None  # None: could not be measured, ``note`` says why
    unit: str  # "x" for ratios, "%", "KiB", ...
    at_least: float | None = None
    at_most: float | None = None
    cores: str = ""  # the placement
    note: str = ""
    noise: float = 0.0  # share by which a bound of "not slower" may be missed, since nothing is measured more exactly

    @property
    def target(self) -> str:
        """The bound in words."""
        if self.at_least is not None:
            return f">= {self.at_least:g} {self.unit}" + (f" -{self.noise:.0%}" if self.noise else "")
        return f"<= {self.at_most:g} {self.unit}".strip() if self.at_most is not None else ""

    @property
    def met(self) -> bool | None:
        """Whether the bound holds; None where there is no bound or no measurement."""
        if self.measured is None or not self.target:
            return None
        if self.at_least is not None:
            return self.measured >= self.at_least * (1 - self.noise)
        return self.measured <= (self.at_most or 0)


def report(results: Sequence[Result]) -> str:
    """The lines as a table."""
    words = {True: "yes", False: "NO", None: ""}
    return table.lines(
        ["what", "target", "measured", "met", "cores", "note"],
        [
            [r.what, r.target, "-" if r.measured is None else f"{table.number(r.measured)} {r.unit}",
             words[r.met] or ("?" if r.target else ""), r.cores, r.note]
            for r in results
        ],
    )  # fmt: skip


def count(results: Sequence[Result]) -> str:
    """How many targets are met, missed and open."""
    bound = [r.met for r in results if r.target]
    return f"{bound.count(True)} targets met, {bound.count(False)} missed, {bound.count(None)} not measured"
