"""The papers' figures: each draws from small records, with its axes, panels and lines, or is told why not."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
if str(ROOT / "bench") not in sys.path:
    sys.path.insert(0, str(ROOT / "bench"))

pytest.importorskip("matplotlib")

import curves  # noqa: E402
import pmm  # noqa: E402
import rmi  # noqa: E402
from common import mpi, record  # noqa: E402
from common.interleave import Sample  # noqa: E402
from common.kernel_runs import Case  # noqa: E402
from common.target import Result  # noqa: E402
from model import samples as model_samples  # noqa: E402
from paper_figures import drawing, headlines, registry  # noqa: E402
from paper_figures.figure import Missing  # noqa: E402
from paper_figures.records import FULL, LARGE, QUICK, SOURCES, Records, of_one_distance  # noqa: E402
from paper_figures.undrawn import UNDRAWN  # noqa: E402

from fastsock import core  # noqa: E402

THREE = (mpi.FASTSOCK, mpi.MPICH, mpi.OPENMPI)
SIZES = (8, 1024, 4096, 1 << 20)
# what the issue asks for, paper by paper
ASKED = [
    *(f"A 2.{n}" for n in range(1, 6)), *(f"A 3.{n}" for n in range(13, 17)), "A 4.9",
    *(f"A 4.{n}" for n in range(14, 19)), *(f"A 5.{n}" for n in range(8, 12)), *(f"A 6.{n}" for n in range(1, 10)),
    "D 9", "E 2", "E 3", *(f"E {n}" for n in range(5, 13)),
]  # fmt: skip
NEED_HARDWARE = ["B 10", "B 11", "C 2", "C 3"]
BYTES, MBIT = "message length, bytes", "bandwidth, Mbit/s"
# panels; of the first one: scales of x and y, labels of x and y, lines or bars
SHAPES = {
    "A 2.1": (2, "log", "linear", BYTES, "bandwidth, MB/s", 9),
    "A 2.2": (2, "log", "linear", BYTES, "latency, us", 6),
    "A 2.3": (4, "log", "linear", BYTES, "bandwidth, MB/s", 6),
    "A 2.4": (4, "log", "linear", BYTES, "bandwidth, MB/s", 6),
    "A 2.5": (2, "linear", "linear", "size and number of ranks", "speedup", 4),
    "A 3.13": (1, "log", "linear", BYTES, "latency, us", 6),
    "A 3.14": (1, "log", "linear", BYTES, MBIT, 6),
    "A 3.15": (2, "linear", "linear", "ranks", "runtime, s", 4),
    "A 3.16": (2, "linear", "linear", "ranks", "runtime, s", 3),
    "A 4.9": (2, "log", "linear", BYTES, "latency, us", 4),
    "A 4.14": (1, "linear", "linear", "", "overhead, us", 3),
    "A 4.15": (2, "log", "linear", BYTES, "latency, us", 4),
    "A 4.16": (2, "log", "linear", BYTES, "latency, us", 5),
    "A 4.17": (2, "log", "log", "objects of 3 KB in a call", "latency, us", 2),
    "A 4.18": (2, "linear", "linear", "workers", "ms a step", 2),
    "A 5.8": (2, "log", "linear", BYTES, "latency, us", 9),
    "A 5.9": (4, "linear", "linear", "ranks", "aggregated bandwidth, MB/s", 3),
    "A 5.10": (2, "linear", "linear", "ranks", "speedup", 3),
    "A 5.11": (1, "linear", "linear", "ranks", "speedup", 3),
    "A 6.1": (3, "linear", "linear", "NPB kernel", "runtime of openmpi / runtime", 3),
    "A 6.2": (3, "linear", "linear", "NPB kernel", "runtime of openmpi / runtime", 3),
    **{f"A 6.{n}": (6, "linear", "linear", "ranks", "speedup", 4 if n < 5 else 3) for n in range(3, 10)},
    "D 9": (2, "log", "linear", BYTES, "latency, us", 5),
    "E 2": (1, "linear", "linear", BYTES, "us", 5),
    "E 3": (1, "log", "linear", BYTES, "bandwidth, MB/s", 5),
    "E 5": (1, "linear", "linear", BYTES, "us", 4),
    "E 6": (1, "log", "linear", BYTES, "bandwidth, MB/s", 4),
    **{f"E {n}": (1, "linear", "linear", "", "time in communication, ms", 1) for n in (7, 8)},
    **{f"E {n}": (1, "linear", "linear", "workers", "Mflop/s", 5) for n in (9, 10)},
    "E 11": (1, "linear", "linear", BYTES, "us", 5),
    "E 12": (1, "log", "linear", BYTES, "bandwidth, MB/s", 5),
}


def taken(what, peer, size, value, turn=1, placement="near"):
    return Sample(what, peer, size, float(value), turn, placement, 0.1, 0.1, False)


def every(what, peers, sizes=SIZES):
    return [taken(what, peer, n, 2 + i + n / 1e3) for i, peer in enumerate(peers) for n in sizes]


def ranks_of(kernel):
    return (1, 4, 9) if kernel == "sp" else (1, 2, 4)


def of_kernels(peers):
    cases = [Case(k, "S", n) for k in ("cg", "ep", "ft", "is", "mg", "sp") for n in ranks_of(k)]
    cases += [Case(k, "A", n) for k in ("lufact", "series", "crypt", "moldyn") for n in (1, 2, 4)]
    found = [taken(c.name, peer, 0, (4 + i) * 1e6 / c.ranks) for c in cases for i, peer in enumerate(peers)]
    return found + [taken(Case("lufact", "A", n, "objects").name, mpi.FASTSOCK, 0, 9e6 / n) for n in (1, 2)]


def of_products():
    return [
        taken(f"{workers} workers, {size} x {size}: {kind}", variant, size, took * size)
        for workers in (2, 8)
        for size in pmm.SIZES
        for variant in pmm.VARIANTS
        for kind, took in ((pmm.MOVING, 1), (pmm.WHOLE, 4))
    ]


SAMPLES = {
    "arrays": lambda: every("ping-pong", [curves.BYTES_UNIX, curves.BYTES_TCP, curves.BYTES_SHM, curves.PICKLED,
                                          curves.ARRAYS_SHM, curves.ARRAYS_TCP]),
    "buffers": lambda: [s for what in ("ping-pong", "stream") for s in every(what, [curves.RAW, *pmm.VARIANTS])],
    "bulks": lambda: [s for what in ("ping-pong", "stream")
                      for s in every(what, [curves.RAW, curves.HANDED, curves.POOL, curves.SEGMENT, curves.FRESH])],
    "remote_arrays": lambda: every(curves.INTEGERS, [rmi.OWN, curves.OWN_TCP, rmi.TCP, rmi.LAUNCHED, rmi.PYRO,
                                                     rmi.PYRO_LAUNCHED, rmi.GRPC]),
    "remote_objects": lambda: every(curves.OBJECTS, [rmi.OWN, curves.OWN_TCP, rmi.TCP, rmi.LAUNCHED], (1, 4, 16)),
    "overhead": lambda: [taken(what, peer, 0, value) for peer in (rmi.OWN, rmi.UNIX, rmi.TCP)
                         for what, value in ((curves.WHOLE, 100), (curves.NETWORK, 40), (curves.SERIALIZATION, 25))],
    "devices": lambda: every("ping-pong", [mpi.FASTSOCK, mpi.FASTSOCK_TCP, *mpi.DEVICES, mpi.MPICH, mpi.OPENMPI]),
    "gradient": lambda: [taken(f"conjugate gradient on {n} workers", peer, 0, 1000 / n)
                         for n in (1, 2) for peer in (rmi.OWN, rmi.TCP)],
    "collectives": lambda: [taken(f"{call}, {n} ranks", peer, size, size / 100 + i)
                            for call in ("bcast", "reduce") for n in (2, 4) for size in (1 << 10, 1 << 20)
                            for i, peer in enumerate(THREE)],
    "kernels": lambda: of_kernels([*THREE, mpi.FASTSOCK_TCP]),
    "pmm": of_products,
}  # fmt: skip
RESULTS = {
    "ping_pong": [Result("ping-pong 1 B, times faster than TCP", 91.0, "x", cores="near")],
    "send_array": [Result("send_array, recv_array_into, 512 KiB float64, ping-pong, times pickle over tcp", 13.0, "x")],
    "rmi": [Result("3 KB object: times as fast as managers, TCP", 8.0, "x", cores="far"),
            Result("conjugate gradient on 2 workers: times as fast as managers, TCP", None, "x", note="no manager")],
    "active": [Result("request and reply, no word, its time by that of 1 B over the socket", 2.25, "x")],
}  # fmt: skip


def of_model(peers, whats, kinds=(model_samples.BYTES,), ranks=(2, 4)):
    return [
        model_samples.Sample(name, what, kind, p, n, 2.0 + p + n / 1e3, 3.0 + p + n / 1e3, 4.0, 20, "near", "here", n,
                             {"a": "1"}, edge=n == 256)
        for name in peers for what in whats for kind in kinds
        for p in ((2,) if what == "send" else ranks) for n in (0, 1, 256, 1024, 4096, 1 << 20)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A record of each source, written as the benches write theirs."""
    made = tmp_path_factory.mktemp("records")
    for name, samples in SAMPLES.items():
        record.write(str(made / SOURCES[name].file), {"samples": samples(), "results": []})
    for name, results in RESULTS.items():
        record.write(str(made / SOURCES[name].file), {"results": results})
    model = of_model(THREE, ("send", "bcast", "reduce", "scatter", "alltoall"))
    model_samples.append(str(made / "model.jsonl"), model)
    kinds = (model_samples.BYTES, model_samples.DOUBLES, model_samples.OBJECTS)
    model_samples.append(str(made / "kinds.jsonl"), of_model(THREE, ["send"], kinds))
    return made


@pytest.fixture
def draw(folder):
    """Draws a figure without a file: its panels and matplotlib's axes."""
    from matplotlib import pyplot

    def drawn(name):
        records, figure = Records(folder), registry.FIGURES[name]
        panels = figure.panels(records)
        whole = drawing.build(figure, panels, records.caption(figure.sources, figure.of))
        return panels, [axes for axes in whole.axes if axes.axison], whole

    yield drawn
    pyplot.close("all")


def figures(*words):
    command = [sys.executable, str(ROOT / "bench" / "figures.py"), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    return done.returncode, done.stdout, done.stderr


def test_every_figure_is_drawn_or_told_why_not():
    assert set(ASKED) == set(registry.FIGURES)
    assert set(NEED_HARDWARE) <= set(UNDRAWN)
    assert not set(UNDRAWN) & set(registry.FIGURES)
    assert all(reason for reason in UNDRAWN.values())


@pytest.mark.parametrize("name", registry.FIGURES)
def test_a_figure_has_its_axes_panels_and_lines(draw, name):
    panels, axes, whole = draw(name)
    number, x, y, x_label, y_label, lines = SHAPES[name]
    assert len(panels) == len(axes) == number
    first = axes[0]
    assert (first.get_xscale(), first.get_yscale()) == (x, y)
    assert (first.get_xlabel(), first.get_ylabel()) == (x_label, y_label)
    assert len(first.lines or first.containers) == lines
    assert name in whole.get_suptitle()
    caption = " ".join(whole.get_supxlabel().split())
    assert "Cores near" in caption


def test_measured_and_estimated_differ_by_their_symbols(draw):
    _, (latency, _), _ = draw("A 2.2")
    empty = [line.get_label() for line in latency.lines if line.get_fillstyle() == "none"]
    assert empty == [f"{name}, measured" for name in THREE]
    assert len({line.get_color() for line in latency.lines}) == len(THREE)


def test_two_models_of_one_mpi_differ_by_their_dashes(draw):
    _, (send, _), _ = draw("A 2.1")
    dashes = {line.get_label(): line.get_linestyle() for line in send.lines if line.get_label().startswith("mpich")}
    assert len(dashes) == len(set(dashes.values())) == 3


def test_a_linear_axis_of_lengths_begins_at_no_byte(draw):
    _, [axes], _ = draw("E 2")
    assert axes.xaxis.get_major_formatter()(0.0) == "0 B"


def test_the_parts_of_a_call_add_up_to_it(draw):
    [panel], [axes], _ = draw("A 4.14")
    assert [sum(values) for values in zip(*panel.bars.values.values(), strict=True)] == [100, 100, 100]
    assert "100 us" in [text.get_text() for text in axes.texts]


def test_a_share_stands_above_each_bar(draw):
    [panel], _, _ = draw("E 8")
    assert panel.title == "256 x 256, 8 workers"
    assert set(panel.bars.tops.values()) == {"25%"}


def test_speedups_and_relative_times(draw):
    [cg, *_], _, _ = draw("A 6.5")
    assert cg.title == "CG, class S"  # the largest that was recorded
    assert cg.curves[0].points == [(1, 1.0), (2, 2.0), (4, 4.0)]
    [one, *_], _, _ = draw("A 6.1")
    assert one.bars.values["fastsock"][0] == pytest.approx(6 / 4)


def test_aggregated_bandwidth_counts_what_all_ranks_get(draw):
    [broadcast, *_], _, _ = draw("A 5.9")
    assert broadcast.curves[0].points == [(2, 1024 / 10.24), (4, 3 * 1024 / 10.24)]


def test_boundaries_of_protocols_are_left_out(draw):
    panels, _, _ = draw("A 5.8")
    assert {x for curve in panels[0].curves for x, _ in curve.points} == {1, 1024}


def test_the_command_draws_into_files(folder, tmp_path):
    status, _, said = figures("a2.1", "E-7", "--records", folder, "--out", tmp_path)
    assert (status, said) == (0, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["A-2.1.png", "E-7.png"]
    assert all(path.read_bytes()[:4] == b"\x89PNG" for path in tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["A", "2.1"], "run `python -m bench.model measure --samples "),
        (["E 8"], "run `python bench/pmm.py --json "),
        (["A 2.9"], "there is no figure A 2.9; near it: A 2.5, A 2.4, A 2.3, A 2.2"),
        (["Z 1"], "there is no figure Z 1; near it: "),
        (["nonsense"], "there is no figure NONSENSE; near it: "),
        (["B 10"], "needs an RDMA device of hardware: run `python bench/rdma.py` there"),
        (["A 3.5"], "needs the network SCI between two hosts"),
    ],
)
def test_what_cannot_be_drawn_is_one_line_that_says_what_to_do(words, text, tmp_path):
    status, out, said = figures(*words, "--records", tmp_path)
    assert (status, out) == (2, "")
    assert len(said.splitlines()) == 1
    assert text in said


def test_a_record_of_something_else_is_refused(tmp_path):
    (tmp_path / "pmm.json").write_text("[]")
    with pytest.raises(Missing, match=r"pmm\.json is no record of a bench: delete it"):
        registry.FIGURES["E 8"].panels(Records(tmp_path))


def test_the_distance_that_has_most_points():
    def chosen(points, places):
        found = of_one_distance(list(range(1, len(points) + 1)), points, places)
        return found.samples, found.distance, found.left_out

    assert chosen(["a", "a", "b", "b"], ["far", "near", "far", "near"]) == ([2, 4], "near", [])
    assert chosen(["a", "a", "b"], ["near", "far", "far"]) == ([2, 3], "far", [])
    assert chosen(["a", "b"], ["far", "near"]) == ([2], "near", ["a"])
    assert chosen(["a", "b", "c"], ["mixed", "near", "mixed"]) == ([2], "near", ["a", "c"])
    assert chosen(["a"], ["mixed"]) == ([1], "mixed", [])
    assert chosen(["a", "b", "c"], ["one core", "far", "mixed"]) == ([1, 2], "far", ["c"])
    assert chosen(["a", "b"], ["one core", "mixed"]) == ([1, 2], "mixed", [])
    assert chosen(["a", "b"], ["one core", "one core"]) == ([1, 2], "one core", [])


def test_near_and_far_never_mix_in_a_fit(tmp_path):
    """A call has one distance. What that lacks is left out, and told in the caption."""
    near = [*of_model(THREE, ["send", "bcast"]), *of_model(THREE[1:], ["reduce"])]
    far = [replace(s, distance="far", least=9 * s.least) for s in of_model(THREE[:1], ["reduce", "gather"])]
    model_samples.append(str(tmp_path / "model.jsonl"), [*near, *far])
    records = Records(tmp_path)
    figure = registry.FIGURES["A 2.3"]
    panels = figure.panels(records)
    assert {panel.title for panel in panels} >= {"Broadcast, 2 ranks", "Broadcast, 4 ranks", "Reduce, 2 ranks"}
    drawn = {(s.what, s.mpi, s.distance) for s in records.model("model")[0]}
    assert {each for each in drawn if each[0] == "reduce"} == {("reduce", name, "near") for name in THREE[1:]}
    assert {each for each in drawn if each[0] == "gather"} == {("gather", THREE[0], "far")}
    caption = records.caption(figure.sources, figure.of)
    assert "Cores near, without 12 of 72 points." in caption
    assert f"Left out: no sample of that distance for reduce (bytes), 2 ranks on {THREE[0]}; " in caption
    assert "Cores near, but far for gather (bytes), without 12 of " in records.caption(["model"])
    status, _, said = figures("A 2.4", "--records", tmp_path, "--out", tmp_path)
    assert (status, len(said.splitlines())) == (2, 1)
    assert "has no alltoall: measure --what alltoall" in said


def test_what_is_too_little_for_a_model_is_drawn_without_one(tmp_path):
    """Two ranks near and four far are two distances: neither has the two numbers of ranks that a model wants."""
    samples = [replace(s, distance="far") if s.ranks == 4 else s for s in of_model(THREE, ["send", "bcast"])]
    model_samples.append(str(tmp_path / "model.jsonl"), samples)
    send, broadcast = registry.FIGURES["A 2.1"].panels(Records(tmp_path))
    assert {curve.label for curve in broadcast.curves} == {f"{name}, measured, too few for a model" for name in THREE}
    assert all(curve.points for curve in broadcast.curves)
    assert len(send.curves) == 9


@pytest.mark.parametrize("never", ["far", "mixed", "unknown"])
def test_a_kernel_that_was_never_near_is_drawn_as_it_was_measured(never, tmp_path):
    """One rank has no distance, whatever the cores did: it stands beside all. The caption says the others' distance."""
    cases = [("moldyn", "A", n) for n in (1, 2, 4)]
    samples = [taken(Case(*of).name, peer, 0, 8e6 / of[2], placement="near" if of[2] == 1 else never)
               for of in cases for peer in THREE]  # fmt: skip
    samples += [taken(Case("cg", "S", n).name, peer, 0, 1e6) for n in (1, 2) for peer in THREE]
    records = write_kernels(tmp_path, samples)
    for name in ("A 3.16", "A 5.11"):
        figure = registry.FIGURES[name]
        panels = figure.panels(records)
        assert all(len(panel.curves) == 3 for panel in panels)
        assert panels[-1].curves[0].points == [(1, 1.0), (2, 2.0), (4, 4.0)]
        assert f"Cores {never}. " in records.caption(figure.sources, figure.of)
    assert "Cores near. " in records.caption(["kernels"], registry.FIGURES["A 6.5"].of)
    ours = ratios(tmp_path)["MolDyn, speedup beside other libraries"][3]
    assert ours == f"1.00 times the better MPI's speedup: 4.00 by 4.00, A on 4 ranks ({never})"


def test_classes_of_a_kernel_have_distances_of_their_own(tmp_path):
    samples = [taken(Case("lufact", letter, n).name, peer, 0, 1e6, placement=place)
               for letter, place in (("A", "near"), ("B", "far")) for n in (1, 2) for peer in THREE]  # fmt: skip
    records = write_kernels(tmp_path, samples)
    assert registry.FIGURES["A 5.10"].panels(records)[0].title == "LUFact, size B"
    assert "Cores near, but far for lufact B. " in records.caption(["kernels"], ["lufact"])


def write_kernels(folder, samples):
    record.write(str(folder / "kernels.json"), {"samples": samples, "results": []})
    return Records(folder)


def test_class_c_is_drawn_where_it_was_run(tmp_path):
    cases = [Case("cg", letter, n) for letter in "BC" for n in (1, 2)] + [Case("ft", "B", n) for n in (1, 2)]
    records = write_kernels(tmp_path, [taken(c.name, p, 0, 4e6 / c.ranks) for c in cases for p in THREE])
    titles = [panel.title for panel in registry.FIGURES["A 6.9"].panels(records)]
    assert titles == ["CG, class C", "FT, class B"]
    [one, *_] = registry.FIGURES["A 6.2"].panels(records)
    assert one.bars.categories == ["CG C", "FT B"]


def test_devices_and_skeletons_are_no_lines(tmp_path):
    ways = [("cg", "S", n) for n in (1, 2)]
    samples = [taken(Case(*of).name, peer, 0, 1e6) for of in ways for peer in (*THREE, *mpi.DEVICES, "native")]
    samples += [taken(Case("cg", "S", 2, "skeleton").name, mpi.FASTSOCK, 0, 1e6, placement="far")]
    records = write_kernels(tmp_path, samples)
    [panel] = registry.FIGURES["A 6.5"].panels(records)
    assert [curve.label for curve in panel.curves] == list(THREE)
    assert records.samples("kernels")[1] == "near"


def test_figures_are_chosen_by_paper_and_by_name():
    assert registry.chosen([]) == list(registry.FIGURES)
    assert registry.chosen(["A", "2.1", "d9", "A-2.1"]) == ["A 2.1", "D 9"]
    assert registry.chosen(["E"]) == [name for name in registry.FIGURES if name[0] == "E"]


def test_every_command_names_a_program_that_is_there(tmp_path):
    for source in SOURCES.values():
        for measure in (QUICK, FULL, LARGE):
            for command in source.commands(tmp_path, measure):
                program = command.split()[1]
                assert program == "-m" or (ROOT / program).exists(), command


@pytest.mark.skipif(not core.available, reason="remote calls between these workers need the native core")
def test_what_is_missing_is_measured_first(tmp_path):
    status, _, said = figures("A 4.18", "--quick", "--records", tmp_path / "new", "--out", tmp_path)
    assert status == 0, said
    command = f"python bench/curves.py gradient --json {tmp_path}/new/gradient.json --quick"
    assert said.splitlines()[0] == f"measuring: {command}"
    assert (tmp_path / "A-4.18.png").exists()


def ratios(folder):
    records = Records(folder)
    return {each.what: headlines.line(each, records) for each in headlines.HEADLINES}


def test_the_papers_ratios_stand_beside_the_recorded_ones(folder):
    lines = ratios(folder)
    assert len(lines) == len(headlines.HEADLINES)
    assert lines["start-up in shared memory, beside plain sockets"][3] == "91.0 times (near)"
    assert lines["a call with a 3 KB object"][3] == "88% less (far)"
    assert lines["Broadcast, 1 KB and 1 MB"][3].endswith("times as fast as the better MPI, 4 ranks (near)")
    told_of = "1.00 times the better MPI's speedup: 4.00 by 4.00, A on 4 ranks (near)"
    assert lines["MolDyn, speedup beside other libraries"][3] == told_of
    assert lines["NPB, performance relative to MPI"][3].startswith("1.25 (")
    assert lines["the same, rate"][3].startswith("32768 Mflop/s")
    assert lines["CG on remote objects"][3].endswith("no manager")


def test_a_ratio_of_speedups_is_no_ratio_of_times(tmp_path):
    """Twice as fast on one rank and on two: the speedups are alike."""
    times = {mpi.FASTSOCK: (1e6, 5e5), mpi.MPICH: (2e6, 1e6), mpi.OPENMPI: (2e6, 16e5)}
    named = [(Case("crypt", "A", n + 1).name, peer, both[n]) for peer, both in times.items() for n in (0, 1)]
    write_kernels(tmp_path, [taken(name, peer, 0, took) for name, peer, took in named])
    ours = ratios(tmp_path)["Crypt, speedup beside other libraries"][3]
    assert ours == "1.00 times the better MPI's speedup: 2.00 by 2.00, A on 2 ranks (near)"


def test_a_kernel_that_only_others_ran_has_no_ratio(tmp_path):
    samples = [taken(Case("moldyn", "A", n).name, mpi.MPICH, 0, 1e6) for n in (1, 2)]
    write_kernels(tmp_path, samples)
    ours = ratios(tmp_path)["MolDyn, speedup beside other libraries"][3]
    assert ours == "the record has no speedup of moldyn on fastsock and on another MPI"


@pytest.mark.parametrize(
    ("file", "content", "what"),
    [
        ("errors.json", {"errors": [{"mpi": mpi.FASTSOCK}]}, "error of the model, Send"),
        ("errors.json", {}, "error of the model, collectives"),
        ("pairs.json", {"pairs": [{"predicted": {}}]}, "calls replaced by cheaper combinations"),
        ("rmi.json", {"results": [{"name": "other"}]}, "a call with a 3 KB object"),
        ("targets.json", {"results": []}, "start-up in shared memory, beside plain sockets"),
        ("kernels.json", {"samples": [{"what": "cg"}]}, "MolDyn, speedup beside other libraries"),
        ("collectives.json", {"samples": [vars(taken("ping-pong", "x", 1, 1.0))]}, "Reduce, 1 KB and 1 MB"),
    ],
)
def test_a_record_of_another_shape_is_told(file, content, what, tmp_path):
    record.write(str(tmp_path / file), content)
    _, _, _, ours, command = ratios(tmp_path)[what]
    assert "another shape than a bench writes" in ours or (ours == "not recorded: run" and command)


def test_a_run_measures_what_is_missing_and_says_how_long(tmp_path):
    """An hour where the two longest records are there, and these go on where they end."""
    every = [source for figure in registry.FIGURES.values() for source in figure.sources]
    for file in ("kernels.json", "model.jsonl"):
        (tmp_path / file).touch()
    minutes = Records(tmp_path, FULL).estimate(every)
    assert sum(minutes.values()) < 60
    assert {"kernels", "model", "arrays"} <= set(minutes)
    assert "arrays" in Records(tmp_path, QUICK).estimate(every)
    assert not {"kernels", "model"} & set(Records(tmp_path, QUICK).estimate(every))
    kernels = SOURCES["kernels"]
    assert not any("--classes B,C" in command for command in kernels.commands(tmp_path, FULL))
    assert any("--classes B,C" in command for command in kernels.commands(tmp_path, LARGE))
    for source in (SOURCES[name] for name in ("kernels", "model", "kinds")):
        assert source.rest and all("--resume" in c or "--samples" in c for c in source.commands(tmp_path, LARGE))


def test_what_was_not_recorded_says_what_to_run(tmp_path):
    for where, what, theirs, ours, command in ratios(tmp_path).values():
        assert where and what and theirs
        assert (ours == "not recorded: run" and command) or ours.startswith("cannot be measured here: ")


def test_one_record_of_all_targets_counts(tmp_path):
    record.write(str(tmp_path / "targets.json"), {"results": {"ping_pong": RESULTS["ping_pong"]}})
    assert ratios(tmp_path)["start-up in shared memory, beside plain sockets"][3] == "91.0 times (near)"


def test_papers_prints_a_table():
    done = subprocess.run([sys.executable, str(ROOT / "bench" / "papers.py"), "--records", "/nowhere"],
                          capture_output=True, text=True, timeout=100)  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["paper", "what", "theirs", "here", "command"]
    assert len(lines) == len(headlines.HEADLINES) + 2
