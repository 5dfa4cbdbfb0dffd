"""What the models must reach, on near cores."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from common import mpi
from common.placement import NEAR
from common.process import Unusable
from common.question import Options
from common.target import Result

from . import choosing, errors, fits, measure, samples, substitute
from .errors import Errors
from .fits import HOCKNEY, LEAST, MEDIAN, MODELS, PIECES
from .samples import BYTES

BARS = {"send": 0.10, "collectives, 2 ranks": 0.15, "collectives, 4 ranks": 0.25}  # mean absolute relative errors
OF_HOCKNEYS = 0.5
JUDGED = MEDIAN  # the least of many is luck: measured again it is another
RANKS = (2, 4)
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
    with tempfile.TemporaryDirectory() as folder:
        todo = list(measure.starts(peers, [(name, BYTES) for name in measure.QUICK], RANKS))
        taken = measure.run(suite, todo, options.times(1 << 20, 4 << 20), [], str(Path(folder) / "samples"))
    known = []
    for name in dict.fromkeys((s.mpi, s.what) for s in taken):
        try:
            known += fits.both([s for s in taken if (s.mpi, s.what) == name])
        except samples.Unfit as error:
            options.skipped.add(", ".join(name), str(error))
    mine = [peer for peer in peers if peer.name == mpi.FASTSOCK]
    found = errors.run(suite, known, mine, taken)
    pairs = substitute.run(suite, [each for each in known if each.statistic == JUDGED], peers, JUDGED)
    chosen = choosing.run(options.cores, "bcast,reduce,allreduce,allgather", RANKS, 1 << 20, options.quick)
    return [*of_errors(found), *of_pairs(pairs), *of_tables(chosen)]


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
    return lines


def of_pairs(found: Sequence[substitute.Pair]) -> list[Result]:
    """Signs of the gains, and primitives of fastsock.mpj that are slower than their own combinations."""
    good, clear = substitute.right(found, PIECES)
    own = [pair for pair in found if pair.mpi == mpi.FASTSOCK]
    worst = max(own, key=lambda pair: pair.one / pair.two, default=None)
    note = f"{worst.what}, {worst.ranks} ranks, {worst.size} B" if worst else "not measured"
    return [
        Result("substitution: sign of the gain", good / clear if clear else None, "of it", 0.9, None, NEAR,
               f"{good} of {clear}"),
        Result("primitives over their own combinations, worst", worst.one / worst.two if worst else None, "x", None,
               1 + substitute.MARGIN, NEAR, note),
    ]  # fmt: skip


def of_tables(found: choosing.Found) -> list[Result]:
    """The table from models beside the tuned one."""
    return [
        Result(
            "table from models: choices within 10 % of the tuned one's", choosing.within(found.choices), "of it", 0.9
        ),
        Result("table from models: time of measuring", found.took / found.tuning, "of tuning", None, 0.2),
    ]
