"""The models of one primitive on one MPI: the thesis's, Hockney's from the same samples, and one in pieces."""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from common.interleave import Skipped

from . import boundaries, lines
from .lines import Line
from .samples import Sample, Unfit, alike

PROPOSED, RELATIVE, HOCKNEY, PIECES = "proposed", "proposed, relative", "hockney", "pieces"
MODELS = (PROPOSED, RELATIVE, HOCKNEY, PIECES)
LEAST, MEDIAN = "least", "median"
FEWEST_LENGTHS = 3
ONE_LENGTH = ("barrier", "ibarrier", "barrier_init")
TWO_RANKS = boundaries.POINT_TO_POINT


class TooFew(Unfit):
    """Samples that belong together, and are not enough for a model."""


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
        """Microseconds. Raises Unfit where the model in pieces has not seen so many ranks, nor fewer and more."""
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


def fit(samples: Sequence[Sample], statistic: str = LEAST, skipped: Skipped | None = None) -> list[Fit]:
    """The models of every call among the samples; where some are too few, ``skipped`` tells it.

    Raises Unfit where samples do not belong together, or where none are enough.
    """
    samples = [sample for sample in samples if not sample.unseen]
    alike(samples)
    skipped = Skipped() if skipped is None else skipped
    groups: dict[tuple[str, str, str], list[Sample]] = {}
    for sample in samples:
        groups.setdefault((sample.mpi, sample.what, sample.kind), []).append(sample)
    found: list[Fit] = []
    refused: dict[str, Unfit] = {}
    for group in groups.values():
        try:
            found.append(_fit(group, statistic, skipped))
        except Unfit as error:
            refused[_name(group[0])] = error
    if refused and not found:
        raise next(iter(refused.values()))
    for name, error in refused.items():
        skipped.add(name, str(error))
    return found


def both(samples: Sequence[Sample], skipped: Skipped | None = None) -> list[Fit]:
    """Those of the least times and those of the medians."""
    skipped = Skipped() if skipped is None else skipped
    return [each for statistic in (LEAST, MEDIAN) for each in fit(samples, statistic, skipped)]


def _name(sample: Sample) -> str:
    return f"{sample.what} ({sample.kind}) on {sample.mpi}"


def _lacking(sample: Sample, ranks: int, lengths: Sequence[int]) -> str:
    """What samples of so many ranks lack for a fit; nothing where they are enough."""
    if 0 not in lengths:
        return f"no sample of length 0 on {ranks} ranks, and t0 is its time: measure with --sizes 0,..."
    if len(lengths) < FEWEST_LENGTHS and sample.what.partition(":")[0] not in ONE_LENGTH:
        return f"{len(lengths)} lengths on {ranks} ranks are too few: measure at least {FEWEST_LENGTHS} --sizes"
    return ""


def _ranks(samples: Sequence[Sample], skipped: Skipped) -> list[int]:
    """The numbers of ranks that have enough samples. Raises Unfit where these are too few."""
    first = samples[0]
    lengths: dict[int, set[int]] = {s.ranks: set() for s in samples}
    for s in samples:
        if not s.edge:
            lengths[s.ranks].add(s.size)
    lacking = {p: text for p, of in sorted(lengths.items()) if (text := _lacking(first, p, sorted(of)))}
    ranks = sorted(set(lengths) - set(lacking))
    if len(ranks) < (1 if first.what.partition(":")[0] in TWO_RANKS else 2):
        alone = f"samples of {min(lengths)} ranks alone fit no collective: measure with --ranks 2,4 or more"
        raise TooFew(f"{_name(first)}: {next(iter(lacking.values()), alone)}")
    for p, text in lacking.items():
        skipped.add(f"{_name(first)}, {p} ranks", text)
    return ranks


def _fit(samples: Sequence[Sample], statistic: str, skipped: Skipped) -> Fit:
    first = samples[0]
    ranks = _ranks(samples, skipped)
    samples = [s for s in samples if s.ranks in ranks]
    values = {(s.ranks, s.size): getattr(s, statistic) for s in samples}
    plain = {(s.ranks, s.size) for s in samples if not s.edge}
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


def belong(fit: Fit, machine: str, versions: dict[str, str]) -> None:
    """Raise Unfit where the models are of another machine or of other versions than what they stand beside."""
    if fit.machine != machine:
        raise Unfit(f"the models are of another machine ({fit.machine}) than the samples ({machine}): fit its own")
    differ = [f"{name} {fit.versions.get(name)}, {versions.get(name)}" for name in sorted({*fit.versions, *versions})
              if fit.versions.get(name) != versions.get(name)]  # fmt: skip
    if differ:
        raise Unfit(f"models and samples of {fit.mpi} are of different versions ({'; '.join(differ)}): fit them anew")


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
