"""Samples of an MPI that obeys a model, and how the commands refuse: for the tests of models."""

from __future__ import annotations

import random
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
if str(ROOT / "bench") not in sys.path:
    sys.path.insert(0, str(ROOT / "bench"))

from model import cli, lines, measure, samples  # noqa: E402

RANKS = (2, 3, 4, 8)


def sample(what, ranks, size, took, **more):
    given = {
        "mpi": "some",
        "kind": "bytes",
        "count": 150,
        "distance": "near",
        "machine": "here",
        "versions": {"a": "1"},
    }
    return samples.Sample(
        what=what, ranks=ranks, size=size, least=took, median=took * 1.1, ninety=took * 1.3, asked=size, **given | more
    )


def made_up(t0, ti, tb, ranks=RANKS, noise=0.0, what="bcast"):
    """Samples of an MPI that obeys t0 + ti + tb n exactly (t0 alone for nothing), but for noise."""
    chance = random.Random(7)
    found = []
    for p in ranks:
        for n in measure.powers(4 << 20):
            took = t0.at(p) + (ti.at(p) + tb.at(p) * n if n else 0.0)
            found.append(sample(what, p, n, took * (1 + chance.uniform(-noise, noise))))
    return found


def refused(capsys, words, advice=""):
    """Status 2, and one line that holds the advice; what is skipped before is told too."""
    try:
        status = cli.main(words)
    except SystemExit as ended:  # argparse's way
        status = ended.code
    assert status == 2
    told = capsys.readouterr()
    lines_told = [line for line in told.err.splitlines() if not line.startswith("  skipped:")]
    assert (len(lines_told), told.out) == (1, "")
    assert advice in lines_told[0]


GOOD = made_up(lines.Line(2, 1, "p"), lines.Line(5), lines.Line(1e-3))
