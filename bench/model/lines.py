"""A model's parameter as a line in the number of ranks, and the regressions that find such lines."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy

CONSTANT, LINEAR, LOGARITHMIC = "1", "p", "lp"
FORMS: dict[str, Callable[[float], float]] = {
    CONSTANT: lambda p: 0.0,
    LINEAR: float,
    LOGARITHMIC: math.log2,
    "[2lp]": lambda p: math.log2(2 * p),  # table 2.1's word for log2 2p
}


@dataclass(frozen=True)
class Line:
    """intercept + slope f(p), f being p or log2 p."""

    intercept: float
    slope: float = 0.0
    form: str = CONSTANT

    def at(self, ranks: float) -> float:
        """The value on so many ranks."""
        return self.intercept + self.slope * FORMS[self.form](ranks)

    def __str__(self) -> str:
        if self.form == CONSTANT:
            return f"{self.intercept:.4g}"
        return f"{self.intercept:.4g} {'-' if self.slope < 0 else '+'} {abs(self.slope):.4g}{self.form}"


def over_ranks(ranks: Sequence[int], values: Sequence[float], relative: bool = False) -> Line:
    """The regression of values over p or log2 p, whichever fits better; a constant where p does not vary."""
    if len(set(ranks)) == 1:
        return Line(float(numpy.mean(values)))
    found = []
    for form in (LINEAR, LOGARITHMIC):
        columns = [[1.0, FORMS[form](p)] for p in ranks]
        solved, misfit = _solve(columns, values, _weights(values, relative))
        found.append((misfit, Line(*solved, form)))
    return _better(found)


def over_lengths(
    ranks: Sequence[int], sizes: Sequence[int], rest: Sequence[float], weights: Sequence[float] | None = None
) -> tuple[Line, Line]:
    """Intercept and slope of ``rest`` over n, both lines in p: what is left of T(n, p) without t0(p).

    weights: one over the error that each value may have; None: all the same, as in the thesis.
    """
    if len(set(ranks)) == 1:
        solved, _ = _solve([[1.0, float(n)] for n in sizes], rest, weights)
        return Line(solved[0]), Line(solved[1])
    found = []
    for first, second in itertools.product((LINEAR, LOGARITHMIC), repeat=2):
        columns = [[1.0, FORMS[first](p), float(n), n * FORMS[second](p)] for p, n in zip(ranks, sizes, strict=True)]
        solved, misfit = _solve(columns, rest, weights)
        found.append((misfit, (Line(solved[0], solved[1], first), Line(solved[2], solved[3], second))))
    return _better(found)


def straight(sizes: Sequence[int], values: Sequence[float]) -> tuple[float, float]:
    """a + b n through values, by the least relative errors; b is 0 where there is one length, and never less."""
    if len(set(sizes)) == 1:
        return float(numpy.mean(values)), 0.0
    solved, _ = _solve([[1.0, float(n)] for n in sizes], values, _weights(values, True))
    return (solved[0], solved[1]) if solved[1] >= 0 else (float(numpy.exp(numpy.mean(numpy.log(values)))), 0.0)


def _weights(values: Sequence[float], relative: bool) -> list[float] | None:
    return [1 / max(abs(value), 1e-9) for value in values] if relative else None


def _solve(
    columns: Sequence[Sequence[float]], values: Sequence[float], weights: Sequence[float] | None
) -> tuple[list[float], float]:
    matrix, right = numpy.array(columns, float), numpy.array(values, float)
    scale = numpy.array(weights, float) if weights is not None else numpy.ones(len(right))
    matrix, right = matrix * scale[:, None], right * scale
    norms = numpy.linalg.norm(matrix, axis=0)
    norms[norms == 0] = 1.0  # bytes and ranks differ by orders of magnitude
    solved, *_ = numpy.linalg.lstsq(matrix / norms, right, rcond=None)
    misfit = float(numpy.sum((matrix / norms @ solved - right) ** 2))
    return [float(value) for value in solved / norms], misfit


def _better(found: Sequence[tuple[float, object]]) -> object:
    """The least misfit; of such as fit equally well the first."""
    least = min(misfit for misfit, _ in found)
    return next(line for misfit, line in found if misfit <= least * (1 + 1e-9) + 1e-18)
