"""The models of one primitive on one MPI: the thesis's, Hockney's from the same samples, and one in pieces."""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from . import boundaries, lines
from .lines import Line
from .samples import Sample, Unfit, alike

PROPOSED, RELATIVE, HOCKNEY, PIECES = "proposed", "proposed, relative", "hockney", "pieces"
MODELS = (PROPOSED, RELATIVE, HOCKNEY, PIECES)
LEAST, MEDIAN = "least", "median"
FEWEST_LENGTHS = 3
ONE_LENGTH = ("barrier", "ibarrier", "barrier_init")
TWO_RANKS = boundaries.POINT_TO_POINT


@dataclass(frozen=True)
class Piece:
    """a + b n up to a length."""

    end: int
    a: float
    b: float


@dataclass(frozen=True)
class Fit:
    """All models of one call.

    t0, ti, tb are lines in p; relative: ti and tb again, from the least relative errors instead of absolute ones;
    hockney: T = t0 + tb n with the same t0 and tb (2.1). Microseconds, and microseconds a byte.
    """

    mpi: str
    what: str
    kind: str
    statistic: str  # least or median
    ranks: list[int]
    longest: int
    t0: Line
    ti: Line
    tb: Line
    relative_ti: Line
    relative_tb: Line
    pieces: dict[int, list[Piece]] = field(default_factory=dict)  # by the number of ranks
    distance: str = ""
    machine: str = ""
    versions: dict[str, str] = field(default_factory=dict)

    def predict(self, model: str, size: int, ranks: int) -> float:
        """Microseconds. Raises Unfit where the model in pieces has not seen so many ranks."""
        if model == PIECES:
            return self._in_pieces(size, ranks)
        t0 = self.t0.at(ranks)
        ti, tb = (self.relative_ti, self.relative_tb) if model == RELATIVE else (self.ti, self.tb)
        moving = tb.at(ranks) * size
        if model == HOCKNEY:
            return t0 + moving
        return time(t0, ti.at(ranks), tb.at(ranks), size)

    def _in_pieces(self, size: int, ranks: int) -> float:
        if ranks in self.pieces:
            pieces = self.pieces[ranks]
            piece = pieces[min(bisect_left([each.end for each in pieces], size), len(pieces) - 1)]
            return piece.a + piece.b * size
        below = [p for p in self.pieces if p < ranks]
        above = [p for p in self.pieces if p > ranks]
        if not below or not above:
            known = ", ".join(map(str, sorted(self.pieces)))
            raise Unfit(f"the model in pieces knows {self.what} on {known} ranks: measure with --ranks {ranks}")
        low, high = max(below), min(above)
        share = math.log2(ranks / low) / math.log2(high / low)
        return (1 - share) * self._in_pieces(size, low) + share * self._in_pieces(size, high)


def time(t0: float, ti: float, tb: float, size: float) -> float:
    """T(n) = t0 + ti (tb n / (t0 + tb n)) + tb n (2.2); t0 for no bytes."""
    moving = tb * size
    hockney = t0 + moving
    return t0 + (ti * moving / hockney if hockney else 0.0) + moving


def fit(samples: Sequence[Sample], statistic: str = LEAST) -> list[Fit]:
    """The models of every call among the samples. Raises Unfit where samples do not belong together or are too few."""
    samples = [sample for sample in samples if not sample.unseen]
    alike(samples)
    groups: dict[tuple[str, str, str], list[Sample]] = {}
    for sample in samples:
        groups.setdefault((sample.mpi, sample.what, sample.kind), []).append(sample)
    return [_fit(group, statistic) for group in groups.values()]


def both(samples: Sequence[Sample]) -> list[Fit]:
    """Those of the least times and those of the medians."""
    return [each for statistic in (LEAST, MEDIAN) for each in fit(samples, statistic)]


def _fit(samples: Sequence[Sample], statistic: str) -> Fit:
    first = samples[0]
    name = f"{first.what} ({first.kind}) on {first.mpi}"
    values = {(s.ranks, s.size): getattr(s, statistic) for s in samples}
    plain = {(s.ranks, s.size) for s in samples if not s.edge}
    ranks = sorted({p for p, _ in plain})
    stem = first.what.partition(":")[0]
    if len(ranks) < 2 and stem not in TWO_RANKS:
        raise Unfit(f"{name}: samples of {ranks[0]} ranks alone fit no collective: measure with --ranks 2,4 or more")
    for p in ranks:
        lengths = [n for q, n in plain if q == p]
        if 0 not in lengths:
            raise Unfit(f"{name}: no sample of length 0 on {p} ranks, and t0 is its time: measure with --sizes 0,...")
        if len(lengths) < FEWEST_LENGTHS and stem not in ONE_LENGTH:
            raise Unfit(
                f"{name}: {len(lengths)} lengths on {p} ranks are too few: measure at least {FEWEST_LENGTHS} --sizes"
            )
    t0 = lines.over_ranks(ranks, [values[p, 0] for p in ranks])
    of, sizes = zip(*sorted(key for key in plain if key[1] > 0), strict=True) if len(plain) > len(ranks) else ((), ())
    ti = tb = relative_ti = relative_tb = Line(0.0)
    if sizes:
        rest = [values[p, n] - t0.at(p) for p, n in zip(of, sizes, strict=True)]
        weights = [1 / values[p, n] for p, n in zip(of, sizes, strict=True)]
        ti, tb = lines.over_lengths(of, sizes, rest)
        relative_ti, relative_tb = lines.over_lengths(of, sizes, rest, weights)
    return Fit(
        first.mpi, first.what, first.kind, statistic, ranks, max(n for _, n in plain),
        t0, ti, tb, relative_ti, relative_tb,
        {p: _pieces(first, p, {n: v for (q, n), v in values.items() if q == p}) for p in ranks},
        first.distance, first.machine, first.versions,
    )  # fmt: skip


def _pieces(first: Sample, ranks: int, values: dict[int, float]) -> list[Piece]:
    """A straight line between any two neighbouring boundaries that have samples of two lengths between them."""
    longest = max(values)
    ends = [end for end in boundaries.of(first.mpi, first.what, ranks) if end < longest]
    pieces: list[Piece] = []
    waiting: list[int] = []
    if 0 in values:
        pieces.append(Piece(0, values[0], 0.0))  # nothing to move is a protocol of its own
    last = 0
    for end in [*ends, longest]:
        waiting += [n for n in values if last < n <= end]
        last = end
        if len(waiting) >= 2:
            a, b = lines.straight(waiting, [values[n] for n in waiting])
            pieces.append(Piece(end, a, b))
            waiting = []
    if waiting and pieces:  # the longest alone: as the piece before, through it
        before = pieces[-1]
        n = waiting[-1]
        pieces.append(Piece(longest, 0.0, values[n] / n) if n else before)
    return pieces


def write(file: str, fits: Iterable[Fit]) -> None:
    """All fits as JSON."""
    Path(file).write_text(json.dumps([asdict(each) for each in fits], indent=1) + "\n")


def read(file: str) -> list[Fit]:
    """The fits of a file. Raises Unfit where there are none."""
    try:
        found = json.loads(Path(file).read_text())
        return [_restored(each) for each in found]
    except OSError as error:
        raise Unfit(f"{file}: {error.strerror}: run `python -m bench.model fit --models {file}` first") from None
    except (ValueError, TypeError, KeyError) as error:
        raise Unfit(f"{file} holds something else than models ({error}): name a file that fit wrote") from None


def _restored(each: dict) -> Fit:
    for name in ("t0", "ti", "tb", "relative_ti", "relative_tb"):
        each[name] = Line(**each[name])
    each["pieces"] = {int(p): [Piece(**piece) for piece in pieces] for p, pieces in each["pieces"].items()}
    return Fit(**each)


def find(fits: Iterable[Fit], mpi: str, what: str, kind: str | None = None, statistic: str = LEAST) -> Fit:
    """The models of one call. Raises Unfit, with what there is."""
    fits = list(fits)
    for each in fits:
        if (each.mpi, each.what, each.statistic) == (mpi, what, statistic) and kind in (None, each.kind):
            return each
    known = ", ".join(sorted({each.what for each in fits if each.mpi == mpi})) or "nothing"
    raise Unfit(
        f"no model of {what} on {mpi}; there are: {known}: measure with --what {what} --peers '{mpi}', then fit"
    )
