"""How wrong the models are: random lengths that no fit has seen, predicted and measured."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from common import mpi, sizes, table

from . import fits, measure
from .fits import LEAST, MEDIAN, MODELS, Fit
from .samples import Sample

LENGTHS = 20


@dataclass(frozen=True)
class Errors:
    """Mean absolute relative errors of one call on so many ranks, by model; and the largest, with its length."""

    mpi: str
    what: str
    kind: str
    ranks: int
    statistic: str
    distance: str
    lengths: int
    mean: dict[str, float]
    largest: dict[str, tuple[float, int]]


def lengths(longest: int, ranks: int, seen: Iterable[int], count: int = LENGTHS, seed: int = 1) -> list[int]:
    """Random lengths, as many short as long ones: their logarithms are equally distributed. None is among ``seen``."""
    chance = random.Random(f"{seed} {longest} {ranks}")
    step = 8 * ranks  # doubles that can be dealt to all ranks
    taken = set(seen)
    found: list[int] = []
    while len(found) < count:
        length = round(math.exp(chance.uniform(math.log(step), math.log(longest)))) // step * step
        if length and length not in taken:
            taken.add(length)
            found.append(length)
    return sorted(found)


def of(fit: Fit, samples: Sequence[Sample], ranks: int) -> Errors:
    """The models of one fit beside samples."""
    mean, largest = {}, {}
    for model in MODELS:
        wrong = [(abs(fit.predict(model, s.size, ranks) / getattr(s, fit.statistic) - 1), s.size) for s in samples]
        mean[model] = sum(error for error, _ in wrong) / len(wrong)
        largest[model] = max(wrong)
    return Errors(
        fit.mpi, fit.what, fit.kind, ranks, fit.statistic, samples[0].distance, len(samples), mean, largest
    )  # fmt: skip


def run(suite: measure.Suite, known: Sequence[Fit], peers: Sequence[mpi.Mpi], seen: Iterable[int] = (),
        count: int = LENGTHS) -> list[Errors]:  # fmt: skip
    """Measure each call of the fits at new lengths; both statistics where both were fitted."""
    found = []
    calls = dict.fromkeys((f.mpi, f.what, f.kind) for f in known if f.what not in fits.ONE_LENGTH)
    by_name = {peer.name: peer for peer in peers}
    seen = list(seen)
    for name, what, kind in calls:
        mine = [f for f in known if (f.mpi, f.what, f.kind) == (name, what, kind)]
        if name not in by_name:
            continue
        for ranks in mine[0].ranks:
            wanted = lengths(mine[0].longest, ranks, seen, count)
            taken = suite.take(measure.Start(by_name[name], what, kind, ranks), wanted)
            same = [s for s in taken if s.distance == mine[0].distance]
            if taken and not same:
                suite.skipped.add(
                    f"{what}, {ranks} ranks, {name}",
                    f"fitted {mine[0].distance}, but the cores are {taken[0].distance} now",
                )
            found += [of(each, same, ranks) for each in mine if same]
    return found


def report(found: Sequence[Errors]) -> str:
    """A line for each call, number of ranks and statistic."""
    rows = []
    for each in found:
        cells = [f"{each.mean[model]:.1%} (to {each.largest[model][0]:.0%}, {sizes.name(each.largest[model][1])})"
                 for model in MODELS]  # fmt: skip
        rows.append([each.mpi, each.what, each.kind, str(each.ranks), each.statistic, each.distance, *cells])
    means = []
    for name in dict.fromkeys(each.mpi for each in found):
        for label, chosen in groups([each for each in found if each.mpi == name]).items():
            for statistic in (LEAST, MEDIAN):
                mine = [each for each in chosen if each.statistic == statistic]
                if mine:
                    means.append([name, label, statistic, *(f"{mean(mine, model):.1%}" for model in MODELS)])
    return (
        table.lines(["mpi", "call", "data", "ranks", "of", "cores", *MODELS], rows)
        + "\n\nmean absolute relative error\n"
        + table.lines(["mpi", "calls", "of", *MODELS], means)
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
