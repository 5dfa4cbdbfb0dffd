"""How wrong the models are, at random lengths that no fit has seen.

These lengths were measured by turns with those of the fits. They are measured once more, in other starts of ranks: no
model can be nearer to both than they are to each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from common import mpi, sizes, table

from . import fits, measure
from .fits import LEAST, MEDIAN, MODELS, Fit
from .samples import Sample

AGAIN = "measured again"
NOTHING = 1e-3  # microseconds: the least that can be told


@dataclass(frozen=True)
class Errors:
    """Mean absolute relative errors of one call on so many ranks, by model; and the largest, with its length.

    again: by how much the same lengths differ when they are measured again.
    """

    mpi: str
    what: str
    kind: str
    ranks: int
    statistic: str
    distance: str
    lengths: int
    mean: dict[str, float]
    largest: dict[str, tuple[float, int]]
    again: float | None = None


def of(fit: Fit, samples: Sequence[Sample], ranks: int, again: Sequence[Sample] = ()) -> Errors:
    """The models of one fit beside samples; and these beside the same ones, measured again."""
    mean, largest = {}, {}
    for model in MODELS:
        wrong = [(abs(fit.predict(model, s.size, ranks) / took(s, fit) - 1), s.size) for s in samples]
        mean[model] = sum(error for error, _ in wrong) / len(wrong)
        largest[model] = max(wrong)
    other = {s.asked: took(s, fit) for s in again}
    moved = [abs(other[s.asked] / took(s, fit) - 1) for s in samples if s.asked in other]
    return Errors(
        fit.mpi, fit.what, fit.kind, ranks, fit.statistic, fit.distance, len(samples), mean, largest,
        sum(moved) / len(moved) if moved else None,
    )  # fmt: skip


def took(sample: Sample, fit: Fit) -> float:
    """Microseconds, by the fit's statistic."""
    return max(float(getattr(sample, fit.statistic)), NOTHING)


def run(suite: measure.Suite, known: Sequence[Fit], peers: Sequence[mpi.Mpi], taken: Iterable[Sample]) -> list[Errors]:
    """Each call of the fits at the lengths that they did not see; both statistics where both were fitted.

    Raises Unfit where fits and samples are of different machines or versions.
    """
    found = []
    by_name = {peer.name: peer for peer in peers}
    fitted = {each.mpi: each for each in known if each.mpi in by_name}
    taken = [s for s in taken if s.mpi in fitted]
    for s in taken:
        fits.belong(fitted[s.mpi], s.machine, s.versions)
    unseen: dict[tuple[str, str, str, int, str], list[Sample]] = {}
    for s in taken:
        if s.unseen:
            unseen.setdefault((s.mpi, s.what, s.kind, s.ranks, s.distance), []).append(s)
    for name, what, kind in dict.fromkeys((f.mpi, f.what, f.kind) for f in known if f.what not in fits.ONE_LENGTH):
        mine = [f for f in known if (f.mpi, f.what, f.kind) == (name, what, kind)]
        for ranks in mine[0].ranks if name in by_name else ():
            first = unseen.get((name, what, kind, ranks, mine[0].distance), [])
            if not first:
                suite.skipped.add(f"{what}, {ranks} ranks, {name}", "its samples have no lengths that the fit has not")
                continue
            again = []
            if suite.machine == mine[0].machine:
                again = suite.take(measure.Start(by_name[name], what, kind, ranks), [s.asked for s in first])
                again = [s for s in again if s.distance == mine[0].distance]
            else:
                suite.skipped.add(AGAIN, "samples and models are of another machine than this one")
            for s in again[:1]:
                fits.belong(mine[0], s.machine, s.versions)
            found += [of(each, first, ranks, again) for each in mine]
    return found


def report(found: Sequence[Errors]) -> str:
    """A line for each call, number of ranks and statistic."""
    rows = []
    for each in found:
        cells = [f"{each.mean[model]:.1%} (to {each.largest[model][0]:.0%}, {sizes.name(each.largest[model][1])})"
                 for model in MODELS]  # fmt: skip
        first = [each.mpi, each.what, each.kind, str(each.ranks), each.statistic, each.distance]
        rows.append([*first, *cells, share(each.again)])
    means = []
    for name in dict.fromkeys(each.mpi for each in found):
        for label, chosen in groups([each for each in found if each.mpi == name]).items():
            for statistic in (LEAST, MEDIAN):
                mine = [each for each in chosen if each.statistic == statistic]
                if mine:
                    values = [*(mean(mine, model) for model in MODELS), again(mine)]
                    means.append([name, label, statistic, *map(share, values)])
    return (
        table.lines(["mpi", "call", "data", "ranks", "of", "cores", *MODELS, AGAIN], rows)
        + "\n\nmean absolute relative error\n"
        + table.lines(["mpi", "calls", "of", *MODELS, AGAIN], means)
    )


def groups(found: Sequence[Errors]) -> dict[str, list[Errors]]:
    """Send; collectives by the number of ranks."""
    result: dict[str, list[Errors]] = {}
    for each in found:
        one = each.what if each.what in measure.POINT_TO_POINT else f"collectives, {each.ranks} ranks"
        result.setdefault(one, []).append(each)
    return result


def mean(found: Sequence[Errors], model: str) -> float:
    """Of all calls alike."""
    return sum(each.mean[model] for each in found) / len(found)


def again(found: Sequence[Errors]) -> float | None:
    """By how much the same lengths differ, measured again; of all calls alike."""
    moved = [each.again for each in found if each.again is not None]
    return sum(moved) / len(moved) if moved else None


def share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
