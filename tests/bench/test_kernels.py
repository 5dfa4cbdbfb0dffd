"""The kernels of NPB and JGF as programs of ranks: verified by their own values, refused where they cannot run."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fastsock import core
from fastsock.testing.waiting import until_readable

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(not core.available, reason="ranks need the native core")


def long(*values):
    """A row that the default run leaves out."""
    return pytest.param(*values, marks=pytest.mark.long)


NPB = [(kernel, ranks) for kernel in ("cg", "ep", "ft", "is", "mg") for ranks in (2, 4)]
NPB += [("sp", 4), ("dt-bh", 5), ("dt-wh", 5), ("dt-sh", 12)]
NPB += [long(kernel, 1) for kernel in ("cg", "ep", "ft", "is", "mg", "sp")]
JGF = [(kernel, ranks) for kernel in ("lufact", "crypt", "sor") for ranks in (2, 4)]
JGF += [long(kernel, 1) for kernel in ("lufact", "crypt", "sor")]


# each rank would compile for seconds: these are compiled in one test, and verified by plain numpy in the others
COMPILED = {"cg": 2, "is": 2, "mg": 2, "sp": 1}

# of each suite all that take a second; SP wants a square, DT a rank for each node
ON_DEVICES = [("npb", "ft", 2), ("npb", "is", 2), ("npb", "sp", 4), ("npb", "dt-bh", 5), ("jgf", "lufact", 2)]
ON_DEVICES += [long("npb", kernel, 2) for kernel in ("cg", "ep", "mg")]
ON_DEVICES += [long("jgf", kernel, 2) for kernel in ("crypt", "sor")]


def run(suite, ranks, *words, options=()):
    """Runs a kernel on ranks: the status, the lines of JSON, what was said."""
    program = [str(ROOT / "bench" / suite / "run.py"), *words]
    command = [sys.executable, "-m", "fastsock.mpj.run", "-n", str(ranks), *options, "--as-mpi4py", *program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return done.returncode, lines, done.stdout + done.stderr


@pytest.mark.parametrize(("kernel", "ranks"), NPB)
def test_npb_class_s_is_verified(kernel, ranks):
    status, [told], said = run("npb", ranks, kernel, "S", *(["--plain-numpy"] if kernel in COMPILED else []))
    assert status == 0, said
    assert told["verified"] is True
    assert (told["class"], told["ranks"]) == ("S", ranks)


@pytest.mark.long
def test_nine_ranks_share_a_cube():
    status, [told], said = run("npb", 9, "sp", "S", "--plain-numpy")  # nine compilers would take a minute of two cores
    assert (status, told["verified"]) == (0, True), said


@pytest.mark.parametrize("device", ["smpdev", "sysvdev"])
@pytest.mark.parametrize(("suite", "kernel", "ranks"), ON_DEVICES)
def test_each_device_gives_right_results(device, suite, kernel, ranks):
    if device == "sysvdev":
        pytest.importorskip("sysv_ipc")
    words = [kernel, "A" if suite == "jgf" else "S", "--plain-numpy"]
    status, [told], said = run(suite, ranks, *words, options=["--device", device])
    assert (status, told["verified"], told["ranks"]) == (0, True, ranks), said


@pytest.mark.parametrize(("kernel", "ranks"), COMPILED.items())
def test_compiled_loops_and_numpy_are_both_verified(kernel, ranks):
    pytest.importorskip("numba")
    for words, arithmetic in (((), "numba"), (("--plain-numpy",), "numpy")):
        status, [told], said = run("npb", ranks, kernel, "S", *words)
        assert (status, told["arithmetic"]) == (0, arithmetic), said


@pytest.mark.parametrize("kernel", ["is", long("mg")])
def test_a_short_kernel_runs_again_and_each_run_is_verified(kernel):
    status, [once], said = run("npb", 2, kernel, "S", "--plain-numpy")
    assert (status, once["runs"]) == (0, 1), said
    # the number of runs ends it, not the time
    status, [told], said = run("npb", 2, kernel, "S", "--plain-numpy", "--repeat", "1000")
    assert (status, told["verified"], told["runs"]) == (0, True, 20), said  # as many count
    calls = [{name: (row["calls"], row["bytes"]) for name, row in each["primitives"].items()} for each in (once, told)]
    assert calls[0] == calls[1]  # those of one run


@pytest.mark.parametrize(("kernel", "ranks"), [("mg", 2), ("is", 2), ("sp", 4)])
def test_the_same_through_objects_is_verified(kernel, ranks):
    status, [told], said = run("npb", ranks, kernel, "S", "--objects", "--plain-numpy")
    assert (status, told["verified"]) == (0, True), said
    assert "Warning" not in said


@pytest.mark.parametrize(("kernel", "ranks"), JGF)
def test_jgf_size_a_is_verified(kernel, ranks):
    status, [told], said = run("jgf", ranks, kernel, "A")
    assert status == 0, said
    assert told["verified"] is True


@pytest.mark.parametrize(("suite", "kernel", "problem", "ranks"), [("npb", "cg", "S", 4), ("npb", "sp", "S", 4),
                                                                    ("jgf", "lufact", "A", 2)])  # fmt: skip
def test_a_skeleton_makes_the_same_calls(suite, kernel, problem, ranks):
    counts = []
    for words in (("--plain-numpy",), ("--skeleton",)):
        _, [told], said = run(suite, ranks, kernel, problem, *words)
        counts.append({name: (each["calls"], each["bytes"]) for name, each in told["primitives"].items()})
        assert counts[-1], said
    assert counts[0] == counts[1]


@pytest.mark.parametrize(
    ("suite", "ranks", "words", "text"),
    [
        ("npb", 1, ("nonsense", "S"), "there is no kernel 'nonsense'"),
        ("npb", 1, ("cg", "Z"), "Z"),
        ("npb", 2, ("sp", "S"), "the nearest number that it can is"),
        ("npb", 3, ("cg", "S"), "the nearest number that it can is"),
    ],
)
def test_what_cannot_run_is_told_in_one_line(suite, ranks, words, text):
    status, lines, said = run(suite, ranks, *words)
    assert status == 2
    assert not lines
    own = [line for line in said.splitlines() if line.startswith("run.py: ")]
    assert len(own) == 1, said
    assert text in own[0]
    assert "Traceback" not in said


PATCHED = """
import dataclasses, sys
sys.path.insert(0, {bench!r})
from npb import constants
from ranks import program
{change}
program.main({{"cg": "npb.cg:CG"}}, ["cg", "S"])
"""


@pytest.fixture
def patched(tmp_path):
    """Runs CG on two ranks after a change of the program: the status, what was told, what was said."""

    def run_it(change):
        program = tmp_path / "patched.py"
        program.write_text(PATCHED.format(bench=str(ROOT / "bench"), change=change))
        command = [sys.executable, "-m", "fastsock.mpj.run", "-n", "2", "--as-mpi4py", str(program)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100)
        return done.returncode, done.stdout, done.stderr

    return run_it


def test_too_little_memory_is_told_before_anything_is_allocated(patched):
    status, told, said = patched("program.available_memory = lambda: 1 << 20")
    assert (status, told) == (2, "")
    [line] = [line for line in said.splitlines() if line.startswith("patched.py: ")]
    assert "GiB of memory are needed on a host that has 0.00 GiB left" in line


def test_a_wrong_result_is_told_beside_the_right_one(patched):
    status, told, said = patched("constants.CG['S'] = dataclasses.replace(constants.CG['S'], zeta=8.5)")
    assert status == 1, said
    [line] = [line for line in told.splitlines() if "FAILURE" in line]
    assert line.startswith(" FAILURE: zeta: 8.5971775078") and "expected 8.5," in line
    assert json.loads(told.splitlines()[-1])["verified"] is False


def kernels(*words, program=("bench/kernels.py",)):
    """bench/kernels.py on fastsock alone."""
    command = [sys.executable, *program, "--peers", "fastsock", *words]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def descendants(pid):
    """Descriptors of those processes: readable when they have ended."""
    found = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found += [os.pidfd_open(child), *descendants(child)]
    return found


TELLING = f"""
import sys
sys.path.insert(0, {str(ROOT / "bench")!r})
import kernels
from common import record

def write(*words, write=record.write):
    write(*words)
    print("written", flush=True)

record.write = write
sys.exit(kernels.main())
"""


def test_what_was_interrupted_goes_on_and_leaves_no_rank(tmp_path):
    file = tmp_path / "kernels.json"
    words = ["--what", "ep", "--classes", "S", "--ranks", "1", "--json", str(file), "--resume", "--turns"]
    interrupted = kernels(*words, "1000", program=("-c", TELLING))
    assert interrupted.stdout.readline() == "written\n", interrupted.communicate()
    begun = descendants(interrupted.pid)
    interrupted.send_signal(signal.SIGINT)
    _, said = interrupted.communicate(timeout=60)
    assert interrupted.returncode == 130
    assert said == f"kernels.py: interrupted; --json {file} --resume goes on\n"
    for number in begun:
        until_readable(number)
        os.close(number)
    before = json.loads(file.read_text())["samples"]
    assert [sample["turn"] for sample in before] == list(range(len(before)))
    resumed = kernels(*words, str(len(before) + 1))
    told, said = resumed.communicate(timeout=60)
    assert resumed.returncode == 0, told + said
    after = json.loads(file.read_text())
    assert after["samples"][: len(before)] == before
    assert [sample["turn"] for sample in after["samples"]] == list(range(len(before) + 1))
    assert [told["turn"] for told in after["told"]] == list(range(len(before) + 1))
    again = kernels(*words, "1", "--repeat", "0.1")
    told, said = again.communicate(timeout=60)
    assert again.returncode == 0, told + said
    assert said == f"kernels.py: {len(before) + 1} runs in {file} were timed in another way, and are made again\n"
    assert [told["repeat"] for told in json.loads(file.read_text())["told"]] == [0.1]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--classes", "Z"], "there is no class 'Z' of ep; there are S, W, A, B, C"),
        (["--json", "nowhere/kernels.json"], "nowhere/kernels.json cannot be written: make its folder first"),
        (["--json", "README.md", "--resume"], "README.md is no record of this program: name another file, or leave"),
        (["--peers", "nonsense"], "none of these MPIs can run here"),
        (["--json", "bench"], "bench is a folder: name a file"),
        (["--what", "dt-sh", "--classes", "A", "--ranks", "79"],
         "none of these can be run: dt-sh A cannot use 79 ranks; the nearest number that it can is 80"),
        (["--what", "sp", "--classes", "S", "--ranks", "2"],
         "none of these can be run: sp S cannot use 2 ranks; the nearest number that it can is 1"),
    ],
)  # fmt: skip
def test_what_the_runner_cannot_do_is_told_before_anything_runs(words, text):
    refused = kernels("--what", "ep", *words)
    told, said = refused.communicate(timeout=60)
    assert (refused.returncode, told) == (2, "")
    assert said.splitlines()[-1].startswith(f"kernels.py: {text}"), said


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--pin", "0,9999"], "argument --pin: this process may only use the cores ["),
        (["--ranks", "0"], "argument --ranks: 0: numbers are wanted, with commas, as 1,2,4"),
        (["--limit", "-1"], "argument --limit: -1: a number above 0 is wanted"),
        (["--turns", "many"], "argument --turns: many: a number above 0 is wanted"),
        (["--nonsense"], "unrecognized arguments: --nonsense"),
    ],
)
def test_a_mistake_in_the_words_is_one_line(words, text):
    refused = kernels(*words)
    told, said = refused.communicate(timeout=60)
    assert (refused.returncode, told, len(said.splitlines())) == (2, "", 1)
    assert said.startswith(f"kernels.py: {text}"), said


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"machine": "here"}, "is no record of this program"),
        ({"told": [{"what": "ep S whole, 1 ranks", "peer": "fastsock", "turn": 0}]}, "is no record of this program"),
        ({"pin": [1, 0]}, "is of other cores, --pin 1,0"),
    ],
)
def test_a_record_that_is_another_is_not_gone_on_with(change, text, tmp_path):
    file = tmp_path / "kernels.json"
    here = (sys.executable, "-c", HERE.format(bench=str(ROOT / "bench")))
    machine = json.loads(subprocess.run(here, capture_output=True, text=True, check=True).stdout)
    file.write_text(json.dumps({"machine": machine, "samples": [], "told": [], "pin": [0, 1], **change}))
    refused = kernels("--what", "ep", "--json", str(file), "--resume")
    told, said = refused.communicate(timeout=60)
    assert (refused.returncode, told) == (2, "")
    assert said.startswith(f"kernels.py: {file} {text}"), said


def test_what_is_left_out_and_what_takes_too_long_is_told():
    words = ["--what", "ep,lufact", "--classes", "S", "--ranks", "1,300", "--turns", "1", "--limit", "0.01"]
    limited = kernels(*words)
    told, said = limited.communicate(timeout=60)
    assert limited.returncode == 1
    assert [line.strip() for line in said.splitlines()[:2]] == [
        "left out: ep S cannot use 300 ranks; the nearest number that it can is 256",
        "left out: lufact has no class S; the nearest that it has is A",
    ]
    assert "skipped: ep S whole, 1 ranks on fastsock: fastsock: run did not end within 0.01 s" in said
    assert "0 of 1 cases" in next(line for line in told.splitlines() if line.startswith("verified on fastsock"))


OLD_MPICH = """#!/bin/sh
shift 3
{python} -m fastsock.mpj.run -n 5 --as-mpi4py "$@" | sed 's/"numpy": "[^"]*"/"numpy": "1.23.0"/'
"""
WITH_FOLDER = """
import sys
from pathlib import Path
sys.path.insert(0, {bench!r})
import kernels
from common import venvs
venvs.FOLDER = Path({folder!r})
sys.exit(kernels.main())
"""
HERE = """
import json, sys
sys.path.insert(0, {bench!r})
from common import machine
print(json.dumps(machine.description()))
"""


def test_mpis_that_do_not_compute_alike_are_not_compared(tmp_path):
    """The stand-in for another MPI says that its numpy is old. DT has its own number of ranks where none is named."""
    mpiexec = tmp_path / "mpich" / "bin" / "mpiexec"
    mpiexec.parent.mkdir(parents=True)
    mpiexec.write_text(OLD_MPICH.format(python=sys.executable))
    mpiexec.chmod(0o755)
    program = WITH_FOLDER.format(bench=str(ROOT / "bench"), folder=str(tmp_path))
    words = ["--what", "dt-bh", "--classes", "S", "--peers", "fastsock,mpich", "--turns", "1"]
    refused = kernels(*words, "--json", str(tmp_path / "out"), program=("-c", program))
    told, said = refused.communicate(timeout=60)
    assert (refused.returncode, told) == (2, "")
    assert said.startswith("kernels.py: fastsock and mpich do not compute alike (numpy "), said
    assert said.endswith(", 1.23.0): run --install again\n")
    assert not (tmp_path / "out").exists()


def test_an_mpi_that_changed_is_no_part_of_the_same_record(tmp_path):
    file = tmp_path / "kernels.json"
    words = ["--what", "ep", "--classes", "S", "--ranks", "1", "--json", str(file), "--resume", "--turns"]
    first = kernels(*words, "1")
    told, said = first.communicate(timeout=60)
    assert first.returncode == 0, told + said
    file.write_text(file.read_text().replace('"mpi": "', '"mpi": "older than '))
    refused = kernels(*words, "2")
    _, said = refused.communicate(timeout=60)
    assert refused.returncode == 2
    assert said.startswith("kernels.py: fastsock has changed since the record began (mpi older than "), said


def test_what_computes_is_installed_as_it_is_here(monkeypatch):
    import numpy

    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    from common import mpi, venvs

    made = []
    monkeypatch.setattr(venvs, "make", lambda name, packages: made.append((name, list(packages))))
    mpi.install("mpich")
    [(name, packages)] = made
    assert name == "mpich" and {f"numpy=={numpy.__version__}", "mpi4py", "mpich"} <= set(packages)


def test_cases_whose_times_a_line_divides_take_part_in_every_turn(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    from common import kernel_targets as targets

    divided = [case for case in (*targets.NEVER_SLOWER, *targets.SKELETONS, *targets.CROWDED) if case.kernel != "sp"]
    divided += [targets.Case("cg", "S", 1), targets.Case("moldyn", "A", 1)]  # a speedup's
    assert {targets.turns(case, 5) for case in divided} == {5}
    once = {case.name for case in targets.full() if targets.turns(case, 5) == 1}
    assert {"sp A whole, 4 ranks", "dt-sh S whole, 12 ranks", "cg W plain numpy, 1 ranks"} <= once


def test_a_turn_counts_only_where_the_cores_were_near_for_every_mpi(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    from common import kernel_targets as targets
    from common.interleave import Sample

    def line(*rows):
        case = targets.Case("cg", "S", 2, "skeleton")
        taken = [Sample(case.name, peer, 0, value, turn, place, None, None, False) for turn, peer, value, place in rows]
        [found] = targets.results(taken, (), {}, None)
        return found.measured, found.at_least, found.note

    moved = [(0, "fastsock", 2.0, "near"), (0, "mpich", 8.0, "near"), (0, "openmpi", 3.0, "mixed")]
    near = [(1, "fastsock", 2.0, "near"), (1, "mpich", 8.0, "near"), (1, "openmpi", 4.0, "near")]
    assert line(*moved) == (1.5, None, "never near")
    assert line(*moved, *near) == (2.0, 1.3, "")
    again = [(2, *row[1:]) for row in moved]
    assert line(*moved, *near, *again) == (2.0, None, "near in 1 of 3 turns")


def test_speedups_are_those_of_near_cores(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    from common import kernel_targets as targets
    from common.interleave import Sample

    def lines(*turns):
        taken = [
            Sample(targets.Case("ep", "W", ranks).name, peer, 0, value, turn, place, None, None, False)
            for turn, (place, ours, theirs) in enumerate(turns)
            for peer, values in (("fastsock", ours), ("mpich", theirs))
            for ranks, value in zip((1, 2), values, strict=True)
        ]
        found = {line.what: line for line in targets.results(taken, (), {}, 1.9)}
        return found["ep W, speedup of 2 ranks"], found["ep W, 2 ranks over 1"]

    far, near = ("far", (8.0, 8.0), (8.0, 4.0)), ("near", (8.0, 4.0), (8.0, 4.0))
    beside, alone = lines(far, near, far)
    assert (beside.measured, beside.at_least, alone.measured, alone.at_least) == (1.0, 1.0, 2.0, 1.7)
    beside, alone = lines(far, far)
    assert (beside.measured, beside.at_least, beside.note) == (0.5, None, "never near: fastsock 1.00, mpich 2.00")
    assert (alone.measured, alone.at_least, alone.note) == (1.0, None, "never near")


def test_all_cases_must_be_verified_on_each_device(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    from common import kernel_targets as targets
    from common.interleave import Sample

    names = [targets.Case("ep", "S", n).name for n in (1, 2)] + [targets.Case("cg", "S", 2, "skeleton").name]
    taken = [Sample(name, peer, 0, 1.0, 0, "near", None, None, False)
             for name in names for peer in ("fastsock", "fastsock smpdev")]  # fmt: skip
    failed = [(names[0], "fastsock smpdev"), (names[2], "fastsock")]
    found = targets.results(taken, failed, {"fastsock sysvdev": "needs sysv_ipc"}, None)
    told = {line.what: (line.met, line.note) for line in found if line.what.startswith("verified on")}
    assert told == {
        "verified on fastsock": (True, "2 of 2 cases"),
        "verified on fastsock smpdev": (False, "1 of 2 cases"),
        "verified on fastsock sysvdev": (None, "needs sysv_ipc"),
    }
    verified = {case.kernel for case in targets.full() if targets.by_device(case)}
    assert verified == {*targets.NPB, *targets.DT, *targets.JGF}


ONE_BREAKS = f"""
import sys
sys.path.insert(0, {str(ROOT / "bench")!r})
import targets
from common.process import Broken

def broken(options):
    raise Broken("no rank came up")

targets.QUESTIONS = {{"kernels": broken, "model": lambda options: [targets.Result("the other", 1.0, "x", 1.0)]}}
sys.exit(targets.main())
"""


def test_a_question_that_cannot_be_answered_leaves_the_others(tmp_path):
    command = [sys.executable, "-c", ONE_BREAKS, "--json", str(tmp_path / "out")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert "no rank came up" in done.stdout and "1 targets met" in done.stdout
    assert json.loads((tmp_path / "out").read_text())["results"]["model"][0]["measured"] == 1.0


def test_a_compiled_program_stands_beside_ours(tmp_path):
    program = tmp_path / "ep.S.x"
    program.write_text("#!/bin/sh\necho ' Time in seconds =  2.50'\necho ' Verification    =  SUCCESSFUL'\n")
    program.chmod(0o755)
    words = ["--what", "ep", "--classes", "S", "--ranks", "1", "--peers", "fastsock", "--turns", "1"]
    command = [sys.executable, "bench/kernels.py", *words, "--native", str(tmp_path), "--json", str(tmp_path / "out")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    recorded = json.loads((tmp_path / "out").read_text())
    [native] = [sample for sample in recorded["samples"] if sample["peer"] == "native"]
    assert (native["what"], native["value"]) == ("ep S whole, 1 ranks", 2.5e6)
    assert any("a compiled NPB's time over ours" in str(result) for result in recorded["results"])


def test_a_folder_without_compiled_programs_is_a_mistake(tmp_path):
    command = [sys.executable, "bench/kernels.py", "--what", "ep", "--classes", "S", "--native", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"kernels.py: {tmp_path} has no program for one rank")
