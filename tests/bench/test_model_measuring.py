"""The suite that measures for the models: its calls and lengths, what it goes on with, what it refuses."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
if str(ROOT / "bench") not in sys.path:
    sys.path.insert(0, str(ROOT / "bench"))

from common import process, words  # noqa: E402
from common.interleave import Skipped  # noqa: E402
from model import boundaries, cli, measure, samples, targets  # noqa: E402

from fastsock.mpj import MPI  # noqa: E402
from fastsock.mpj.collectives import table as selection  # noqa: E402

from .made_up_samples import refused, sample  # noqa: E402


def test_random_lengths_are_new_and_can_be_dealt_to_all_ranks():
    found = measure.random_lengths(1 << 20, 4, [64, 4096])
    assert len(set(found)) == measure.UNSEEN
    assert not {64, 4096} & set(found)
    assert all(length % 32 == 0 and 0 < length <= 1 << 20 for length in found)
    assert measure.random_lengths(100, 4, [64]) == [32, 96]  # there are no more


def test_between_boundaries_lie_lengths_that_are_no_powers_of_two():
    start = measure.Start(measure.mpi.Mpi("openmpi", (), ""), "bcast", "bytes", 2)
    plain, beside, unseen = measure.deal(start, 1 << 20)
    assert plain == measure.powers(1 << 20)
    assert set(boundaries.of("openmpi", "bcast", 2)) - set(plain) < set(beside)
    assert any(256 << 10 < length < 1 << 20 and length & (length - 1) for length in beside)
    assert len({*plain, *beside, *unseen}) == len(plain) + len(beside) + len(unseen)
    assert measure.deal(start, 1 << 20, plain_only=True) == (plain, [], [])


def test_the_full_run_can_tell_ranks_from_their_logarithm():
    peers = [measure.mpi.Mpi(name, (), "") for name in ("fastsock", "mpich")]
    full, quick = ({(s.mpi.name, s.what, s.ranks) for s in targets.starts(peers, quick)} for quick in (False, True))
    assert {("fastsock", what, p) for what in measure.COLLECTIVES for p in (2, 3, 4)} < full
    assert ("mpich", "alltoall", 2) not in full
    assert {p for _, _, p in quick} == {2, 4}
    plan = measure.Plan((0, 1), 150, measure.seconds(False), "near", 0.0)
    peers = [measure.mpi.Mpi(name, (), "") for name in ("fastsock", "mpich", "openmpi")]
    assert targets.estimate(targets.starts(peers, False), 4 << 20, plan) < 3000


def test_a_failed_installation_is_told_in_one_line(monkeypatch, capsys):
    def install(_):
        raise process.Unusable("pip failed:\nno network")

    monkeypatch.setattr(cli.mpi, "install", install)
    refused(capsys, ["measure", "--install"], "pip failed: no network")


def test_samples_that_are_no_text_are_told_in_one_line(tmp_path, capsys):
    file = tmp_path / "samples"
    file.write_bytes(bytes(range(256)))
    for command in ("fit", "measure"):
        refused(capsys, [command, "--samples", str(file), "--peers", "fastsock"], "samples")
    assert file.read_bytes() == bytes(range(256))


@pytest.mark.parametrize(
    "words",
    [
        ["measure", "--samples"],
        ["fit", "--models"],
        ["errors", "--json"],
        ["substitute", "--json"],
        ["table", "--json"],
        ["table", "--write"],
    ],
    ids=" ".join,
)
def test_what_cannot_be_written_is_told_before_anything_is_measured(tmp_path, monkeypatch, capsys, words):
    for function in ("run", "install"):
        monkeypatch.setattr(cli.mpi, function, lambda *_, **__: pytest.fail("measured"))
    refused(capsys, [*words, str(tmp_path / "no" / "file")], "make its folder first")
    refused(capsys, [*words, str(tmp_path)], "is a folder")


def test_a_command_tells_in_one_line_what_it_does_not_understand(capsys):
    parser = words.Parser(prog="bench")
    parser.add_argument("--pin", type=cli.machine.two_cores)
    parser.add_argument("--turns", type=int)
    for said, told in (
        (["--pin", "x"], "argument --pin: x: say two cores"),
        (["--pin", "0,4096"], "argument --pin: this process may only use the cores"),
        (["--turns", "x"], "argument --turns: invalid int value"),
        (["--speed"], "unrecognized arguments: --speed"),
    ):
        with pytest.raises(SystemExit) as ended:
            parser.parse_args(said)
        error = capsys.readouterr().err
        assert (ended.value.code, error.count("\n")) == (2, 1)
        assert error.startswith(f"bench: {told}")


@pytest.mark.parametrize(
    "words",
    [
        ["measure", "--what", "broadcast"],
        ["measure", "--what", "bcast", "--kind", "words"],
        ["measure", "--kind", "words"],
        ["measure", "--quick", "--kind", "objects"],
        ["measure", "--what", "bcast:quickly"],
        ["measure", "--what", "bcast:two_level"],
        ["measure", "--what", "send:flat_tree"],
        ["measure", "--what", "bcast:flat_tree", "--kind", "objects"],
        ["measure", "--what", "algorithms", "--peers", "fastsock tcp"],
        ["measure", "--what", "bcast=scatter"],
        ["measure", "--what", "bcast=scatter+allgather", "--kind", "doubles"],
        ["measure", "--what", "rsend", "--kind", "objects"],
        ["measure", "--what", "ibcast", "--kind", "objects"],
        ["measure", "--what", "send_init", "--kind", "objects"],
        ["measure", "--what", "scatterv", "--kind", "objects"],
        ["measure", "--what", "alltoallw", "--kind", "doubles"],
        ["measure", "--ranks", "two"],
        ["measure", "--ranks", "1"],
        ["measure", "--sizes", "0,many"],
        ["measure", "--peers", "nobody"],
        ["measure", "--peers", "fastsock,nobody"],
        ["measure", "--times", "-1"],
        ["measure", "--distance", "x"],
        ["predict", "--what", "bcast", "--ranks", "1"],
        ["measure", "--pin", "x"],
        ["measure", "--pin", "0,4096"],
        ["table", "--what", "nonsense"],
        ["table", "--nonsense"],
        ["table", "--ranks", "2"],
        ["table", "--longest", "1k"],
        ["nonsense"],
        ["fit"],
        ["errors"],
        ["metrics"],
        ["substitute"],
        ["predict"],
    ],
    ids=" ".join,
)
def test_bad_words_are_told_in_one_line(tmp_path, capsys, words):
    files = [f"--{name}={tmp_path / 'none'}" for name in ("samples", "models") if words[0] in cli.OPTIONS[name][0]]
    refused(capsys, [*words, *files])


def test_a_command_refuses_words_that_it_would_not_heed(capsys):
    for command, word in (("fit", "--sizes=8"), ("metrics", "--ranks=2"), ("measure", "--json=x"), ("table", "--kind")):
        refused(capsys, [command, word], f"unrecognized arguments: {word}")


def test_calls_are_measured_and_what_is_there_is_not_measured_again(tmp_path):
    words = ["measure", "--samples", str(tmp_path / "samples"), "--peers", "fastsock", "--ranks", "2", "--times", "20"]
    words += ["--patience", "0", "--what", "send,bcast,iallreduce,bcast=scatter+allgather", "--sizes", "0,8,4k"]
    for _ in range(2):
        command = [sys.executable, "-m", "bench.model", *words]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        found = samples.read(str(tmp_path / "samples"))
        plain = [s for s in found if not s.edge and not s.unseen]
        assert len(plain) == 4 * 3
    assert {s.asked for s in plain} == {0, 8, 4096}
    assert len([s for s in found if s.unseen]) == 4 * measure.UNSEEN
    assert all((s.pace >= s.full > 0) == (s.probe is not None) for s in found)
    assert all(0 < s.least <= s.median <= s.ninety and s.versions["python"] for s in found)
    assert {s.what for s in plain if s.hidden is not None} == {"iallreduce"}


def measured(file, *words):
    """The samples of a short run on fastsock.mpj, without what the models need beside them."""
    words = ["--samples", file, "--peers", "fastsock", "--ranks", "2", "--times", "5", "--patience", "0", *words]
    done = subprocess.run(
        [sys.executable, "-m", "bench.model", "measure", *words], cwd=ROOT, capture_output=True, text=True, timeout=170
    )
    assert done.returncode == 0, done.stderr
    assert "skipped" not in done.stderr, done.stderr
    return [s for s in samples.read(str(file)) if not s.edge and not s.unseen]


def test_plain_lengths_are_measured_alone_and_calls_share_a_start(tmp_path):
    words = ["measure", "--samples", str(tmp_path / "samples"), "--peers", "fastsock", "--ranks", "2", "--times", "5"]
    words += ["--patience", "0", "--sizes", "0,8", "--plain", "--what"]
    for what, starts in (("send,bcast", 1), ("send,bcast,barrier,gather,barrier:dissemination,scatter", 3)):
        command = [sys.executable, "-m", "bench.model", *words, what]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        assert f"{starts} starts of ranks" in done.stderr
    found = samples.read(str(tmp_path / "samples"))
    both = {(what, n) for what in ("send", "bcast", "gather", "scatter") for n in (0, 8)}
    assert {(s.what, s.asked) for s in found} == {*both, ("barrier", 0), ("barrier:dissemination", 0)}
    assert len(found) == 10
    assert not any(s.edge or s.unseen for s in found)


# Not timed by themselves: the other half of a send, what the suite's ranks cannot do, and what moves nothing.
WITH_OTHERS = ("recv", "irecv", "recv_init")


PARTITIONED = ("psend_init", "precv_init")


def test_the_suite_has_every_call_of_the_library_that_moves_memory():
    moving = re.compile("send|recv|barrier|bcast|gather|scatter|alltoall|reduce|scan")
    known = {name.lower() for name in dir(MPI.Cartcomm) if name[0].isupper() and moving.search(name.lower())}
    known -= {name for name in known if name.startswith(("create", "get_", "mrecv"))}
    assert set(measure.CALLS) == known - {*WITH_OTHERS, *PARTITIONED}
    whole = [(call.what, call.kind) for call in measure.FULL]
    assert len(set(whole)) == len(whole)
    assert {what for what, kind in whole if kind == "bytes"} == set(measure.CALLS)


def test_every_call_is_measured_as_what_it_is_called(tmp_path):
    """All calls of the suite; each kind of data where the call has it."""
    for kind in measure.KINDS:
        names = [name for name in measure.CALLS if kind in measure.kinds(name)]
        if kind == "doubles":
            names = [name for name in names if name in ("rsend", "sendrecv_replace", "bsend_init", "iscatter", "scan")]
        start = measure.Start(measure.mpi.find("fastsock"), ",".join(names), kind, 2)
        plan = measure.Plan((0, 1), 2, 0.001, "", 0.0)
        suite = measure.Suite(plan, Skipped())
        found = suite.take(start, [0, 64])
        assert not suite.skipped
        assert {s.what for s in found} == set(names)
        assert all(s.kind == kind for s in found)
        assert {s.size for s in found if "barrier" not in s.what} >= {0, 64}
        assert all((s.hidden is not None) == (s.what not in measure.BLOCKING) for s in found)


def test_long_buffered_messages_are_measured(tmp_path):
    """A rank that probes the cores sends nothing. Before, its partner waited for the rest of a message for ever."""
    found = measured(tmp_path / "samples", "--what", "bsend", "--sizes", "1m,4m", "--times", "40")
    assert {s.asked for s in found} >= {1 << 20, 4 << 20}


def test_an_algorithm_is_measured_by_its_name(tmp_path):
    found = measured(tmp_path / "samples", "--what", "barrier:*,bcast:flat_tree", "--sizes", "0,8,64")
    barriers = [f"barrier:{name}" for name in measure.algorithms("barrier")]
    assert "barrier:shared_memory" in barriers
    assert {s.what for s in found} == {*barriers, "bcast:flat_tree"}


def test_the_ranks_use_the_algorithm_that_is_measured(tmp_path):
    start = measure.Start(measure.mpi.find("fastsock"), "reduce_scatter:bucket", "bytes", 2)
    told = dict(measure.forced(start).environment)
    assert selection.load(told).candidates("reduce_scatter", "host", 2, 8)[0] == "bucket"
    assert measure.forced(measure.Start(start.mpi, "reduce_scatter", "bytes", 2)) == start.mpi


HERE = {"machine": measure.described(), "mpi": "fastsock", "versions": {"python": "2.7"}}


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        (b"# Not samples\n", "measure wrote"),
        (b"no line ends here", "measure wrote"),
        (b"\xff\xfe\n", "measure wrote"),
        (json.dumps({"mpi": "fastsock"}).encode() + b"\n", "measure wrote"),
        ([sample("bcast", 2, 8, 1)], "another machine"),
        ([sample("bcast", 2, 8, 1, **HERE)], "other versions of fastsock (python 2.7"),
    ],
    ids=["text", "one line", "no text", "another record", "machine", "versions"],
)
def test_measure_leaves_a_file_alone_that_it_cannot_go_on_with(tmp_path, capsys, text, advice):
    file = tmp_path / "samples"
    if isinstance(text, bytes):
        file.write_bytes(text)
    else:
        samples.append(str(file), text)
    before = file.read_bytes()
    refused(capsys, ["measure", "--samples", str(file), "--what", "bcast", "--peers", "fastsock"], advice)
    assert file.read_bytes() == before


def test_measure_says_where_a_file_cannot_be_written(tmp_path, capsys):
    refused(capsys, ["measure", "--samples", str(tmp_path), "--peers", "fastsock"], "name a file")


def test_a_run_that_was_killed_goes_on_behind_its_last_whole_line(tmp_path):
    file = tmp_path / "samples"
    words = ["--what", "send", "--sizes", "0,8"]
    measured(file, *words)
    whole = file.read_bytes()
    with file.open("ab") as out:
        out.write(whole.splitlines(keepends=True)[0][:100])
    assert len(samples.read(str(file))) == len(whole.splitlines())
    measured(file, *words)
    assert file.read_bytes() == whole  # cut off, and nothing measured again
    os.truncate(file, len(whole) - 10)
    assert {s.asked for s in measured(file, *words)} == {0, 8}
    assert file.read_bytes().startswith(whole[: whole.rstrip().rfind(b"\n") + 1])


TURNS = """
import sys
sys.path.insert(0, {folder!r})
from argparse import Namespace
import turns
from mpi4py import MPI

now, probed, marks = [0.0], [0], []
def clock():
    now[0] += 1e-3 * (1 if where() == "near" else 100)
    return now[0]
def where():
    return {where}
class Probe:
    def probe(self):
        probed[0] += 1
        return 0.1, 1.0
    def name(self, before, after):
        return where()
turns.clock = clock
turns.time.sleep = lambda seconds: None
options = Namespace(times={times}, seconds={seconds}, distance={distance!r}, patience={patience}, cores="0", pace=0.0)
suite = turns.Turns(MPI.COMM_WORLD, options)
suite.clock, suite.probe = 0.0, Probe()
case = turns.Case(lambda: None)
done = suite.run([case], [])
print(done is not None, suite.distance, len(case.values), "near" if max(case.values, default=0.0) < 50e3 else
      "others" if min(case.values) > 50e3 else "both")
"""


def by_turns(tmp_path, **given):
    """What becomes of one case while the cores' distance is made up: where they are, after so many probes."""
    program = tmp_path / "program.py"
    program.write_text(TURNS.format(folder=str(ROOT / "bench" / "mpi"), **given))
    words = [sys.executable, "-m", "fastsock.mpj.run", "-n", "1", "--as-mpi4py", str(program)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_what_does_not_count_costs_no_measurements(tmp_path):
    """Every other group of calls ends on other cores."""
    given = {"times": 60, "seconds": 0.2, "distance": "near", "patience": 2.0}
    found = by_turns(tmp_path, where="'far' if probed[0] % 4 == 2 else 'near'", **given)
    assert found == ["True", "near", "60", "near"]


def test_cores_that_never_stay_end_a_case(tmp_path):
    """They are where they are wanted whenever that is asked before a group, and never behind it."""
    given = {"times": 60, "seconds": 0.2, "distance": "near", "patience": 2.0}
    assert by_turns(tmp_path, where="'near' if probed[0] % 2 else 'far'", **given)[:3] == ["False", "near", "0"]


def test_near_and_far_never_mix(tmp_path):
    """The cores go away for good: what was measured before does not count any more."""
    given = {"times": 60, "seconds": 99.0, "distance": "", "patience": 0.2}
    found = by_turns(tmp_path, where="'near' if probed[0] < 4 else 'away' if probed[0] % 2 else 'far'", **given)
    assert found == ["True", "mixed", "60", "others"]
