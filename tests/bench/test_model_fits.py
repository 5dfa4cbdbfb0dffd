"""The models of message passing: what the fits find, the thesis's tables, selection tables."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
if str(ROOT / "bench") not in sys.path:
    sys.path.insert(0, str(ROOT / "bench"))

from common import collective_tuning, interleave  # noqa: E402
from model import boundaries, choosing, cli, errors, fits, lines, measure, metrics, samples, substitute  # noqa: E402

from fastsock.mpj.collectives import table as selection  # noqa: E402

from .made_up_samples import GOOD, RANKS, made_up, refused, sample  # noqa: E402

PEAKS_FROM = {"2.1": (2, 4, 8, 16), "2.2": (2, 4, 8), "2.3": (4, 8, 16), "2.4": (8, 16, 32)}
ROWS = [
    line.split()
    for line in (Path(__file__).parent / "thesis_tables.txt").read_text().splitlines()
    if line[:1] != "#"
]  # fmt: skip


@pytest.mark.parametrize("form", [lines.LINEAR, lines.LOGARITHMIC])
@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_a_fit_recovers_the_parameters_that_samples_were_made_of(form, noise):
    t0, ti, tb = lines.Line(2, 1.5, form), lines.Line(5, 2, form), lines.Line(1e-3, 4e-3, form)
    (found,) = fits.fit(made_up(t0, ti, tb, noise=noise))
    assert found.t0.form == form
    for p in RANKS:
        assert found.t0.at(p) == pytest.approx(t0.at(p), rel=0.03)
        assert found.tb.at(p) == pytest.approx(tb.at(p), rel=0.03)
        assert found.relative_tb.at(p) == pytest.approx(tb.at(p), rel=0.03)
        assert found.relative_ti.at(p) == pytest.approx(ti.at(p), rel=0.2 if noise else 1e-6)
    if not noise:
        assert found.tb.form == form
        assert found.ti.at(4) == pytest.approx(ti.at(4), rel=1e-6)


def test_point_to_point_needs_two_ranks_only():
    (found,) = fits.fit(made_up(lines.Line(4), lines.Line(13), lines.Line(3.89e-3), (2,), what="send"))
    assert (str(found.t0), found.ti.at(2)) == ("4", pytest.approx(13))
    assert found.predict(fits.HOCKNEY, 4096, 2) == pytest.approx(4 + 3.89e-3 * 4096)


def test_the_worked_example():
    """Section 2.2: an Send of 4 KB with t0 4 us, ti 13 us, tb 3.89 ns. Hockney says 20 us, the model 30 us."""
    assert round(fits.time(4, 0, 3.89e-3, 4096)) == 20
    assert round(fits.time(4, 13, 3.89e-3, 4096)) == 30
    assert fits.time(4, 13, 3.89e-3, 0) == 4


def parameter(text):
    """``-3+16lp`` as a line; None for ``-``."""
    if text == "-":
        return None
    for form in ("[2lp]", "lp", "p"):
        if text.endswith(form):
            start, slope = re.fullmatch(r"(-?[\d.]+(?=[+-]))?\+?(-?[\d.]*)", text.removesuffix(form)).groups()
            return lines.Line(float(start or 0), float(slope or 1), form)
    return lines.Line(float(text))


# Where the text's peak is not that of the text's own parameters, over powers of two of ranks.
UNLIKE = {
    ("2.1", "gather", "mpiJava"),  # 165 MB/s, the text 140.4
    ("2.2", "scatter", "MPJ/Ibis"),  # 22.7 KB/s, the text 19.23
    ("2.3", "allgather", "MPJ/Ibis"),  # 25.2 KB/s, the text 20.13
    ("2.4", "barrier", "ScaMPI"),  # 2385 KB/s, the text 2067
    ("2.4", "barrier", "mpiJava"),  # 1107 KB/s, the text 1937
    ("2.4", "allreduce", "MPJ/Ibis"),  # 344 MB/s, the text 306.3
}


def test_the_thesis_tables_are_whole():
    assert len(ROWS) == 147
    assert {row[0] for row in ROWS} == set(PEAKS_FROM)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(row[:3]))
def test_metrics_give_the_peaks_of_the_thesis(row):
    number, what, library, t0, _, tb, specific, bandwidth = row
    found = metrics.peaks(what, parameter(t0), parameter(tb), PEAKS_FROM[number])
    close = found.specific == pytest.approx(float(specific), rel=0.02)
    if bandwidth != "-":
        close = close and found.bandwidth == pytest.approx(float(bandwidth), rel=0.02)
    assert close == ((number, what, library) not in UNLIKE), (found, specific, bandwidth)


def test_pieces_follow_a_protocol_that_changes():
    """Two straight lines that meet nowhere: the model in pieces has both, the others have neither."""
    ends = [end for end in boundaries.of("openmpi", "bcast", 2) if end < 4 << 20]
    found = []
    for p in (2, 4):
        for n in sorted({*measure.powers(4 << 20), *ends, *(end + 16 for end in ends)}):
            plain = n in measure.powers(4 << 20)
            took = 1 + 1e-3 * n if n <= ends[0] else 40 + 1e-4 * n
            found.append(sample("bcast", p, n, took, mpi="openmpi", edge=not plain))
    (fit,) = fits.fit(found)
    assert fit.predict(fits.PIECES, ends[0] // 2, 2) == pytest.approx(1 + 1e-3 * (ends[0] // 2), rel=1e-3)
    assert fit.predict(fits.PIECES, 100_000, 4) == pytest.approx(50, rel=1e-3)
    assert fit.predict(fits.PIECES, 100_000, 3) == pytest.approx(50, rel=1e-3)
    with pytest.raises(samples.Unfit, match="--ranks 8"):
        fit.predict(fits.PIECES, 100_000, 8)


def test_the_boundaries_are_those_of_the_core():
    header = (ROOT / "fastsock/core/team/memory.h").read_text()
    assert "FS_TEAM_INLINE = FS_LINE - 8" in header
    for name, value in (
        ("CMA", boundaries.DIRECT_FROM),
        ("LONG", boundaries.STEP),
        ("BUFFER", boundaries.BUFFER),
    ):
        assert f"FS_TEAM_{name} = {value // 1024} * 1024" in header
    shared = f"FS_SHARED_FROM ({boundaries.SHARED_FROM // 1024}u * 1024)"
    assert shared in (ROOT / "fastsock/core/engine/link.h").read_text()
    shortest = f"FS_COST_SHORT_BITS {boundaries.FETCHED_FROM.bit_length() - 1}"
    assert shortest in (ROOT / "fastsock/core/cost.h").read_text()
    assert f"CHUNK ({boundaries.CHUNK // 1024}u * 1024)" in (ROOT / "fastsock/core/engine/link_shm.c").read_text()


def test_models_come_back_from_their_file(tmp_path):
    known = fits.fit(made_up(lines.Line(2, 1, "p"), lines.Line(5), lines.Line(1e-3)))
    fits.write(str(tmp_path / "models"), known)
    assert fits.read(str(tmp_path / "models")) == known


def test_no_fit_sees_the_lengths_that_tell_its_errors():
    good = made_up(lines.Line(2, 1, "p"), lines.Line(5), lines.Line(1e-3))
    unseen = [sample("bcast", 2, n, 1e6, unseen=True) for n in (1000, 3000)]
    assert fits.fit([*good, *unseen]) == fits.fit(good)


def test_errors_are_those_of_each_model():
    known = fits.fit(made_up(lines.Line(2, 1, "p"), lines.Line(0.0), lines.Line(1e-3)))
    new = [sample("bcast", 2, n, 2 * (4 + 1e-3 * n)) for n in (1000, 3000)]
    again = [sample("bcast", 2, n, 3 * (4 + 1e-3 * n)) for n in (1000, 3000)]
    found = errors.of(known[0], new, 2, again)
    assert found.again == pytest.approx(0.5)
    assert errors.of(known[0], new, 2).again is None
    assert found.mean[fits.PROPOSED] == pytest.approx(0.5, abs=1e-3)
    assert found.largest[fits.HOCKNEY][0] == pytest.approx(0.5, abs=1e-3)


def test_a_replacement_is_predicted_where_two_calls_are_cheaper():
    flat = lines.Line(1.0)
    known = fits.fit(
        made_up(flat, lines.Line(0.0), lines.Line(4e-3), what="bcast")
        + made_up(flat, lines.Line(0.0), lines.Line(1e-3), what="scatter")
        + made_up(flat, lines.Line(0.0), lines.Line(1e-3), what="allgather")
    )
    short, long = (substitute.predicted(known, "some", "bcast", n, 4, fits.LEAST, fits.PROPOSED) for n in (64, 1 << 20))
    assert short < -0.5
    assert long == pytest.approx(0.5, abs=0.01)
    said = dict.fromkeys(substitute.USED, -0.2)
    pairs = [
        substitute.Pair("some", "bcast", 4, 64, said, 1, 2, "near"),
        substitute.Pair("some", "bcast", 4, 1 << 20, said | {fits.PROPOSED: 0.5}, 4, 2, "near"),
        substitute.Pair("some", "bcast", 4, 4 << 20, said | {fits.PROPOSED: 0.5}, 4, 5, "near"),
    ]
    assert substitute.right(pairs, fits.PROPOSED) == (1, 2)
    assert substitute.right(pairs, fits.PROPOSED, gain=False) == (1, 1)
    assert substitute.right(pairs, fits.PIECES) == (0, 0)
    assert substitute.right(pairs, fits.PIECES, gain=False) == (2, 3)
    assert substitute.ranges(pairs, fits.PROPOSED) == "(n = 1 MiB to 4 MiB, p=4)"
    assert "+50%" in substitute.report(pairs)


class Measured(measure.Suite):
    """Gives what is said instead of measuring."""

    def __init__(self, taken, machine="here"):
        super().__init__(measure.Plan((0, 1), 20, 0.05, "", 0.0), interleave.Skipped())
        self.taken, self.machine = taken, machine

    def take(self, start, sizes, beside=(), unseen=()):
        return [s for s in self.taken if s.ranks == start.ranks and s.asked in sizes]


SOME = measure.mpi.Mpi("some", (), "")


def test_pairs_of_another_distance_do_not_stand_beside_the_fits():
    flat = lines.Line(1.0)
    parts = {"bcast": 4e-3, "scatter": 1e-3, "allgather": 1e-3}
    made = [s for what, tb in parts.items() for s in made_up(flat, lines.Line(0.0), lines.Line(tb), what=what)]
    known = fits.fit([s for s in made if s.ranks < 8 or s.what != "scatter"])
    both = "bcast", "bcast=scatter+allgather"
    taken = [sample(what, 2, n, 10) for n in (64, 256) for what in both]
    taken += [sample(both[0], 2, 1024, 10), sample(both[1], 2, 1024, 10, distance="far"), sample(both[0], 2, 4096, 10)]
    suite = Measured(taken)
    found = substitute.run(suite, known, [SOME], fits.LEAST)
    assert [pair.size for pair in found] == [64, 256]
    told = "\n".join(f"{name}: {why}" for name, why in suite.skipped.items())
    assert "2 ranks, some: measured at far cores, and the fits are of near ones" in told
    assert "below 16 bytes" in told
    assert "bcast=scatter+allgather, 8 ranks, some: there is no fit of scatter" in told
    assert "allreduce=reduce+bcast, some: there is no fit of allreduce, reduce" in told
    with pytest.raises(samples.Unfit, match="another machine"):
        substitute.run(Measured(taken, "there"), known, [SOME], fits.LEAST)


@pytest.mark.parametrize(
    ("other", "advice"),
    [({"machine": "there"}, "another machine"), ({"versions": {"a": "2"}}, "different versions \\(a 1, 2\\)")],
)
def test_errors_are_not_told_of_another_machine_or_version(other, advice):
    unseen = [sample("bcast", 2, 1000, 5, unseen=True, **other)]
    with pytest.raises(samples.Unfit, match=advice):
        errors.run(Measured([]), fits.both(GOOD), [SOME], unseen)


def table_of_models(**measured):
    """A table from models of Broadcast by messages, up to 1 MiB; ``measured``: what tuning found of 8 bytes."""
    few = {
        ("bcast", "messages", p, n): {"binomial_tree": 1 + 1e-3 * n, "flat_tree": 5 + 1e-4 * n}
        for p in (2, 4)
        for n in (0, 2048, 32768, 1 << 20)
    }
    few |= {(name, "host", *key): {"shared_memory": 1.0, "flat_tree": 2.0} for name, _, *key in few}
    modelled = choosing.predicted(few, [8, 1024, 65536, 1 << 20])
    rows = list(collective_tuning.chosen(modelled))
    choices, settled = choosing.compared(modelled, rows, {("bcast", "messages", 2, 8): measured})
    return choosing.Found(rows, modelled, choices, 1.0, 10.0, settled)


def test_a_written_table_keeps_what_the_models_do_not_tell(tmp_path, monkeypatch, capsys):
    found = table_of_models()
    monkeypatch.setattr(choosing, "run", lambda *_: found)
    file = tmp_path / "table.txt"
    shipped = collective_tuning.SHIPPED.read_text()
    file.write_text(shipped)
    assert cli.main(["table", "--what", "bcast", "--write", str(file)]) == 0
    assert collective_tuning.SHIPPED.read_text() == shipped

    def kept(text):
        found = [line for line in text.splitlines() if line[:1] != "#"]
        models = [["bcast", reach, ranks] for reach in ("messages", "host") for ranks in ("2", "4")]
        return [line for line in found if line.split()[:3] not in models]

    assert kept(file.read_text()) == kept(shipped)
    assert "neighbour_allgather messages 1 0 flat_tree" in file.read_text()
    longer = "bcast messages 2 16777216 flat_tree  # measured once"
    file.write_text(f"{shipped}{longer}\n")
    choosing.write(str(file), found)
    assert longer in file.read_text().splitlines()
    read = selection.load({selection.FILE_VARIABLE: str(file)})
    assert read.candidates("bcast", "messages", 2, 1 << 20)[0] == "flat_tree"
    assert read.candidates("bcast", "messages", 8, 8) == selection.load({}).candidates("bcast", "messages", 8, 8)
    file.write_text("something else\n")
    capsys.readouterr()
    refused(capsys, ["table", "--write", str(file)], "name a selection table")
    assert file.read_text() == "something else\n"


def test_only_choices_that_the_models_have_and_that_were_measured_count(tmp_path, monkeypatch):
    shipped = tmp_path / "table.txt"
    shipped.write_text("bcast host 1 0 shared_memory\nbcast messages 1 0 flat_tree\n")
    monkeypatch.setattr(collective_tuning, "SHIPPED", shipped)
    found = table_of_models(binomial_tree=3.0, flat_tree=2.0)
    assert found.settled == 6  # on a host below 128 KiB there is a rule
    assert [each.lost for each in found.choices] == [pytest.approx(0.5), None, 0, 0, None, None, 0, 0, 0, 0]
    assert choosing.within(found) == pytest.approx(6 / 7)
    assert "3 whose algorithms were not both measured, 6 that have one" in choosing.report(found)
    assert choosing.within(choosing.Found([], {}, [], 1.0, 1.0)) is None


def test_tuning_counts_near_starts_where_there_are_any():
    cell, other = ("bcast", "host", 2, 8), ("reduce", "host", 2, 8)
    times = {"near": (3.0, 1.0, 2.0), "far": (9.0, 9.0, 9.0), "mixed": (5.0, 5.0)}
    taken = [(where, {cell: {"flat_tree": took}}) for where, those in times.items() for took in those]
    taken.append(("far", {other: {"flat_tree": 7.0}}))
    assert collective_tuning.medians(taken) == {cell: {"flat_tree": 2.0}, other: {"flat_tree": 7.0}}


def test_the_table_of_models_is_read_back_by_the_library(tmp_path):
    choosing.write(str(tmp_path / "table.txt"), table_of_models())
    read = selection.load({selection.FILE_VARIABLE: str(tmp_path / "table.txt")})
    assert read.candidates("bcast", "messages", 2, 8)[0] == "binomial_tree"
    assert read.candidates("bcast", "messages", 2, 1 << 20)[0] == "flat_tree"
    assert read.candidates("bcast", "hosts", 2, 8) == selection.load({}).candidates("bcast", "hosts", 2, 8)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (made_up(lines.Line(2), lines.Line(5), lines.Line(1e-3), (2,), what="scatter"), "scatter (bytes) on some: "),
        ([sample("bcast", 16, 8, 1)], "bcast (bytes) on some, 16 ranks: no sample of length 0"),
    ],
    ids=["a call", "a number of ranks"],
)
def test_what_is_too_little_for_a_fit_is_told_and_the_rest_is_fitted(tmp_path, capsys, more, told):
    file, models = str(tmp_path / "samples"), str(tmp_path / "models")
    samples.append(file, [*GOOD, *more])
    assert cli.main(["fit", "--samples", file, "--models", models, "--peers", "some"]) == 0
    assert capsys.readouterr().err.count(f"skipped: {told}") == 1
    assert fits.read(models) == fits.both(GOOD)


@pytest.mark.parametrize(
    ("records", "advice"),
    [
        ([s for s in GOOD if s.ranks == 2], "--ranks 2,4"),
        ([s for s in GOOD if s.size in (0, 1)], "--sizes"),
        ([s for s in GOOD if s.size], "length 0"),
        ([*GOOD, sample("send", 2, 8, 1, machine="there")], "different machines"),
        ([*GOOD, sample("send", 2, 8, 1, distance="far")], "--distance"),
        ([*GOOD, sample("send", 2, 8, 1, versions={"a": "2"})], "different versions (a 1, 2)"),
        ([], "measure"),
    ],
    ids=["ranks", "lengths", "no length 0", "machines", "distances", "versions", "nothing"],
)
def test_what_fits_no_model_is_refused_in_one_line(tmp_path, capsys, records, advice):
    file, models = tmp_path / "samples", tmp_path / "models"
    file.touch()
    samples.append(str(file), records)
    refused(capsys, ["fit", "--samples", str(file), "--models", str(models), "--peers", "some"], advice)
    assert not models.exists()


def test_one_distance_can_be_chosen(tmp_path, capsys):
    file, models = str(tmp_path / "samples"), ["--models", str(tmp_path / "models"), "--peers", "some"]
    samples.append(file, [*GOOD, sample("send", 2, 8, 1, distance="far")])
    assert cli.main(["fit", "--samples", file, *models, "--distance", "near"]) == 0
    assert cli.main(["predict", *models, "--what", "bcast", "--ranks", "4"]) == 0
    assert "bcast of 64 KiB on 4 ranks" in capsys.readouterr().out
    assert cli.main(["predict", *models, "--what", "bcast", "--ranks", "16"]) == 0
    told = capsys.readouterr()
    assert told.out.split()[-1] == "-"  # the model in pieces; the others are lines in p
    assert told.out.split()[-2] != "-"
    assert "--ranks 16" in told.err
    refused(capsys, ["predict", *models, "--what", "scan"], "no model of scan")
    models[-1] = "nobody"
    refused(capsys, ["metrics", *models], "no model of nobody, but of some")
    refused(capsys, ["predict", *models, "--what", "bcast"], "no model of nobody, but of some")


def test_metrics_tell_rates_and_their_aggregates_by_the_number_of_ranks():
    found = fits.fit(made_up(lines.Line(2, 1, "p"), lines.Line(5), lines.Line(1e-3), what="bcast=scatter+allgather"))
    rows = [line.split() for line in metrics.report(found).splitlines()]
    assert ["bcast=scatter+allgather", "some", "4", "167", "1000", "500", "3000"] in rows
    assert metrics.transferred("allreduce:rabenseifner")(4) == 6
