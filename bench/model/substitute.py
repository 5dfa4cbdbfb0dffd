"""Primitives replaced by cheaper combinations (2.4.3), in the form of table 2.5: predicted, and really measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from common import mpi, sizes, table

from . import fits, measure
from .fits import PIECES, PROPOSED, RELATIVE, Fit
from .samples import BYTES

COMBINATIONS = {
    "bcast": ("scatter", "allgather"),
    "allgather": ("gather", "bcast"),
    "reduce_scatter": ("reduce", "scatterv"),
    "allreduce": ("reduce", "bcast"),
}
NEEDED = ", ".join(dict.fromkeys(name for whole, parts in COMBINATIONS.items() for name in (whole, *parts)))
USED = (PROPOSED, RELATIVE, PIECES)
WORTH = 0.1  # of the primitive's time: smaller predicted gains say little
STEP = 8  # bytes for each rank: doubles that can be dealt
MARGIN = 0.1  # by which a primitive may be slower than its combination


@dataclass(frozen=True)
class Pair:
    """One primitive and its combination at one length: what the models say, and what was measured."""

    mpi: str
    what: str
    ranks: int
    size: int
    predicted: dict[str, float]  # by model: share of the primitive's time that the combination saves
    one: float  # microseconds, measured
    two: float
    distance: str

    @property
    def gain(self) -> float:
        """The share of the primitive's time that the combination really saves."""
        return 1 - self.two / self.one


def combination(what: str) -> str:
    """The name that the suite measures it by: ``bcast=scatter+allgather``."""
    return f"{what}={'+'.join(COMBINATIONS[what])}"


def predicted(known: Sequence[Fit], name: str, what: str, size: int, ranks: int, statistic: str, model: str) -> float:
    """The share of T(primitive) that T(first) + T(second) saves; below 0: it costs more."""
    whole, first, second = (
        fits.find(known, name, part, BYTES, statistic).predict(model, size, ranks)
        for part in (what, *COMBINATIONS[what])
    )
    return 1 - (first + second) / whole if whole > 0 else 0.0


def run(suite: measure.Suite, known: Sequence[Fit], peers: Sequence[mpi.Mpi], statistic: str) -> list[Pair]:
    """Every primitive that has a combination, on every number of ranks and length of the fits, at their distance.

    What is left out, the suite's ``skipped`` tells. Raises Unfit where the fits are of another machine or version.
    """
    found = []
    for peer in peers:
        fitted = {each.what: each for each in known if each.mpi == peer.name and each.kind == BYTES}
        for what, parts in COMBINATIONS.items():
            if missing := [part for part in (what, *parts) if part not in fitted]:
                suite.skipped.add(f"{combination(what)}, {peer.name}", f"there is no fit of {', '.join(missing)}")
                continue
            one = fitted[what]
            fits.belong(one, suite.machine, one.versions)
            for ranks in one.ranks:
                if missing := [part for part in parts if ranks not in fitted[part].ranks]:
                    why = f"there is no fit of {', '.join(missing)}"
                    suite.skipped.add(f"{combination(what)}, {ranks} ranks, {peer.name}", why)
                    continue
                lengths = [n for n in measure.powers(one.longest) if n >= STEP * ranks]
                suite.skipped.add(
                    f"combinations on {ranks} ranks, below {STEP * ranks} bytes", "they have no double for every rank"
                )
                start = measure.Start(peer, f"{what},{combination(what)}", BYTES, ranks)
                taken = suite.take(start, lengths)
                for s in taken[:1]:
                    fits.belong(one, s.machine, s.versions)
                near = {(s.what, s.asked): s for s in taken if s.distance == one.distance}
                if other := sorted({s.distance for s in taken} - {one.distance}):
                    why = f"measured at {', '.join(other)} cores, and the fits are of {one.distance} ones"
                    suite.skipped.add(f"{combination(what)}, {ranks} ranks, {peer.name}", why)
                for asked in lengths:
                    whole, halves = near.get((what, asked)), near.get((combination(what), asked))
                    if whole is None or halves is None:
                        continue
                    said = {
                        model: predicted(known, peer.name, what, whole.size, ranks, statistic, model) for model in USED
                    }
                    times = getattr(whole, statistic), getattr(halves, statistic)
                    found.append(Pair(peer.name, what, ranks, whole.size, said, *times, whole.distance))
    return found


def right(found: Sequence[Pair], model: str, gain: bool = True) -> tuple[int, int]:
    """Of the pairs where a model predicts a gain, or a loss, of more than 10 %: how many have it, and how many."""
    sign = 1 if gain else -1
    clear = [pair for pair in found if sign * pair.predicted[model] > WORTH]
    return sum(sign * pair.gain > 0 for pair in clear), len(clear)


def ranges(pairs: Sequence[Pair], model: str) -> str:
    """The lengths for which a replacement is predicted, as table 2.5 writes them."""
    words = []
    for ranks in dict.fromkeys(pair.ranks for pair in pairs):
        mine = sorted((pair for pair in pairs if pair.ranks == ranks), key=lambda pair: pair.size)
        cheaper = [pair.predicted[model] > 0 for pair in mine]
        if all(cheaper):
            words.append(f"(always, p={ranks})")
            continue
        start = None
        for pair, yes in zip([*mine, None], [*cheaper, False], strict=True):
            if yes and start is None:
                start = pair
            elif not yes and start is not None:
                last = mine[-1] if pair is None else mine[mine.index(pair) - 1]
                span = (
                    sizes.name(start.size) if start is last else f"{sizes.name(start.size)} to {sizes.name(last.size)}"
                )
                words.append(f"(n = {span}, p={ranks})")
                start = None
    return ", ".join(words) or "none"


def report(found: Sequence[Pair]) -> str:
    """Table 2.5 for the three models that may decide; then signs; then primitives slower than their combinations."""
    blocks = []
    for model in USED:
        rows = []
        for what in COMBINATIONS:
            for name in dict.fromkeys(pair.mpi for pair in found):
                mine = [pair for pair in found if (pair.mpi, pair.what) == (name, what)]
                if not mine:
                    continue
                best = max(mine, key=lambda pair: pair.predicted[model])
                example = f"n={sizes.name(best.size)}, p={best.ranks}" if best.predicted[model] > 0 else ""
                gains = [f"{best.predicted[model]:+.0%}", f"{best.gain:+.0%}"] if example else ["", ""]
                rows.append([f"{what} = {' + '.join(COMBINATIONS[what])}", name, ranges(mine, model), example, *gains])
        signs = {word: right(found, model, gain) for word, gain in (("gain", True), ("loss", False))}
        blocks.append(
            f"by the model {model}\n"
            + table.lines(["primitive", "library", "replace at", "example", "predicted", "measured"], rows)
            + "".join(
                f"\n{word} of more than 10 % predicted: {clear} times, and measured in {good} of them"
                for word, (good, clear) in signs.items()
            )
        )
    rows = [
        [pair.mpi, pair.what, str(pair.ranks), sizes.name(pair.size), table.number(pair.one), table.number(pair.two),
         f"{pair.gain:.0%}", pair.distance]
        for pair in found if pair.one > pair.two * (1 + MARGIN)
    ]  # fmt: skip
    head = ["mpi", "primitive", "ranks", "length", "us", "combination, us", "gain", "cores"]
    slower = table.lines(head, rows) if rows else "none"
    return "\n\n".join([*blocks, f"primitives more than 10 % slower than their own combination, measured\n{slower}"])
