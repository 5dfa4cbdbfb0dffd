"""What the models must reach, on near cores."""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from common import mpi
from common.placement import NEAR
from common.process import Broken, Unusable
from common.question import Options
from common.target import Result

from . import choosing, errors, fits, measure, samples, substitute
from .errors import Errors
from .fits import HOCKNEY, LEAST, MEDIAN, MODELS, PIECES
from .samples import BYTES

BARS = {"send": 0.10, "collectives, 2 ranks": 0.15, "collectives, 4 ranks": 0.25}  # mean absolute relative errors
OF_HOCKNEYS = 0.5
JUDGED = MEDIAN  # the least of many is luck: measured again it is another
RANKS = (2, 3, 4)  # two alone cannot tell p from log2 p; quick: the first and the last
STARTING = 1.0  # seconds of a start of ranks beside its measurements
PATIENCE = 12.0  # seconds for each start: the bars are those of near cores


def results(options: Options) -> list[Result]:
    """Measure, fit, test and use the models of fastsock.mpj; substitution on all MPIs."""
    peers = []
    for name in (mpi.FASTSOCK, *mpi.OTHERS):
        try:
            peers.append(mpi.find(name))
        except Unusable as error:
            options.skipped.add(name, str(error))
    plan = measure.Plan(options.cores, options.times(50, 150), measure.seconds(options.quick), NEAR, PATIENCE)
    suite = measure.Suite(plan, options.skipped)
    todo, longest = starts(peers, options.quick), options.times(1 << 20, 4 << 20)
    print(f"  {len(todo)} starts of ranks, up to {estimate(todo, longest, plan) / 60:.0f} minutes", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        taken = measure.run(suite, todo, longest, [], str(Path(folder) / "samples"))
    mine = [peer for peer in peers if peer.name == mpi.FASTSOCK]
    found: list[Errors] = []
    pairs: list[substitute.Pair] = []
    chosen = None
    ranks = RANKS[:: 2 if options.quick else 1]
    try:
        known = fits.both(taken, options.skipped)
        found = errors.run(suite, known, mine, taken)
        pairs = substitute.run(suite, [each for each in known if each.statistic == JUDGED], peers, JUDGED)
        chosen = choosing.run(options.cores, "bcast,reduce,allreduce,allgather", ranks, 1 << 20, options.quick)
    except (samples.Unfit, Unusable, Broken) as error:
        options.skipped.add("models", str(error))
    return [*of_errors(found), *of_pairs(pairs), *of_tables(chosen)]


def starts(peers: Sequence[mpi.Mpi], quick: bool) -> list[measure.Start]:
    """fastsock.mpj: in the full run all blocking calls; the others: what substitution needs."""
    names, ranks = (measure.QUICK, RANKS[::2]) if quick else (measure.BLOCKING, RANKS)
    needed = substitute.NEEDED.split(", ")
    wanted = measure.starts(peers, [(name, BYTES) for name in names], ranks)
    return [one for one in wanted if one.mpi.name == mpi.FASTSOCK or one.what in needed]


def estimate(todo: Sequence[measure.Start], longest: int, plan: measure.Plan) -> float:
    """The seconds that measuring, and testing what is fitted, take at most where the cores are as they are wanted."""
    first = sum(STARTING + plan.seconds * len({*itertools.chain(*measure.deal(one, longest))}) for one in todo)
    again = sum(STARTING + plan.seconds * measure.UNSEEN for one in todo if one.mpi.name == mpi.FASTSOCK)
    pairs = [one for one in todo if one.what in substitute.COMBINATIONS]
    return first + again + sum(STARTING + 2 * plan.seconds * len(measure.powers(longest)) for one in pairs)


def of_errors(found: Sequence[Errors]) -> list[Result]:
    """The model in pieces beside its bar, and beside Hockney's, by the statistic that predicts. The rest: a note."""
    lines = []
    by_label = errors.groups(found)
    for label, bar in BARS.items():
        mine = {name: [each for each in by_label.get(label, []) if each.statistic == name] for name in (JUDGED, LEAST)}
        chosen = mine[JUDGED]
        if not chosen:
            lines.append(Result(f"error of the model in pieces, {label}", None, "", None, bar, NEAR, "not measured"))
            continue
        means = {model: errors.mean(chosen, model) for model in MODELS}
        note = ", ".join(f"{model} {value:.0%}" for model, value in means.items() if model != PIECES)
        note += f"; measured again {errors.share(errors.again(chosen))}"
        luck = mine[LEAST]
        note += f"; of the {LEAST} {errors.mean(luck, PIECES):.0%}, again {errors.share(errors.again(luck))}"
        lines.append(Result(f"error of the model in pieces, {label}", means[PIECES], "", None, bar, NEAR, note))
        beside = means[PIECES] / means[HOCKNEY]
        lines.append(Result(f"the same beside Hockney's, {label}", beside, "x", None, OF_HOCKNEYS, NEAR))
    for label in (each for each in by_label if each not in BARS):
        mean = errors.mean([each for each in by_label[label] if each.statistic == JUDGED], PIECES)
        lines.append(Result(f"error of the model in pieces, {label}", mean, "", cores=NEAR))
    return lines


def of_pairs(found: Sequence[substitute.Pair]) -> list[Result]:
    """Signs of the gains, and primitives of fastsock.mpj that are slower than their own combinations."""
    good, clear = substitute.right(found, PIECES)
    losses = substitute.right(found, PIECES, gain=False)
    own = [pair for pair in found if pair.mpi == mpi.FASTSOCK]
    worst = max(own, key=lambda pair: pair.one / pair.two, default=None)
    note = f"{worst.what}, {worst.ranks} ranks, {worst.size} B" if worst else "not measured"
    return [
        Result("substitution: gains of more than 10 % predicted, and measured", good / clear if clear else None,
               "of them", 0.9, None, NEAR, f"{good} of {clear}; losses {losses[0]} of {losses[1]}"),
        Result("primitives over their own combinations, worst", worst.one / worst.two if worst else None, "x", None,
               1 + substitute.MARGIN, NEAR, note),
    ]  # fmt: skip


def of_tables(found: choosing.Found | None) -> list[Result]:
    """The table from models beside the tuned one."""
    good = None if found is None else choosing.within(found)
    note = "not measured"
    if found is not None:
        same = sum(each.tuned == each.model for each in found.choices)
        note = f"{same} of {len(found.choices)} are the same; {len(found.choices) - len(found.judged)} not measured"
        note += f"; {found.settled} have one algorithm"
    share = None if found is None else found.took / found.tuning
    return [
        Result("table from models: choices within 10 % of the tuned one's", good, "of them", 0.9, note=note),
        Result("table from models: time of measuring", share, "of tuning", None, 0.2),
    ]
