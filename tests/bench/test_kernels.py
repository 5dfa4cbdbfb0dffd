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

NPB = [(kernel, ranks) for kernel in ("cg", "ep", "ft", "is", "mg") for ranks in (1, 2, 4)]
NPB += [("sp", 1), ("sp", 4), ("dt-bh", 5), ("dt-wh", 5), ("dt-sh", 12)]
JGF = [(kernel, ranks) for kernel in ("lufact", "crypt", "sor") for ranks in (1, 2, 4)]


def run(suite, ranks, *words):
    """Runs a kernel on ranks: the status, the lines of JSON, what was said."""
    program = [str(ROOT / "bench" / suite / "run.py"), *words]
    command = [sys.executable, "-m", "fastsock.mpj.run", "-n", str(ranks), "--as-mpi4py", *program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return done.returncode, lines, done.stdout + done.stderr


@pytest.mark.parametrize(("kernel", "ranks"), NPB)
def test_npb_class_s_is_verified(kernel, ranks):
    status, [told], said = run("npb", ranks, kernel, "S")
    assert status == 0, said
    assert told["verified"] is True
    assert (told["class"], told["ranks"]) == ("S", ranks)


def test_nine_ranks_share_a_cube():
    status, [told], said = run("npb", 9, "sp", "S", "--plain-numpy")  # nine compilers would take a minute of two cores
    assert (status, told["verified"]) == (0, True), said


@pytest.mark.parametrize(("kernel", "ranks"), [("cg", 2), ("is", 2), ("mg", 2), ("sp", 1)])
def test_compiled_loops_and_numpy_are_both_verified(kernel, ranks):
    pytest.importorskip("numba")
    for words, arithmetic in (((), "numba"), (("--plain-numpy",), "numpy")):
        status, [told], said = run("npb", ranks, kernel, "S", *words)
        assert (status, told["arithmetic"]) == (0, arithmetic), said


@pytest.mark.parametrize(("suite", "kernel", "problem"), [("npb", "is", "S"), ("jgf", "lufact", "A")])
def test_a_short_kernel_runs_again_and_each_run_is_verified(suite, kernel, problem):
    status, [once], said = run(suite, 2, kernel, problem, "--plain-numpy")
    assert (status, once["runs"]) == (0, 1), said
    status, [told], said = run(suite, 2, kernel, problem, "--plain-numpy", "--repeat", "3")
    assert (status, told["verified"]) == (0, True), said
    assert told["runs"] > 1
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
    for words in ((), ("--skeleton",)):
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


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--classes", "Z"], "there is no class 'Z' of ep; there are S, W, A, B, C"),
        (["--json", "nowhere/kernels.json"], "nowhere/kernels.json cannot be written: make its folder first"),
        (["--json", "README.md", "--resume"], "README.md is no record of this program: name another file, or leave"),
        (["--peers", "nonsense"], "none of these MPIs can run here"),
    ],
)
def test_what_the_runner_cannot_do_is_told_before_anything_runs(words, text):
    refused = kernels("--what", "ep", *words)
    told, said = refused.communicate(timeout=60)
    assert (refused.returncode, told) == (2, "")
    assert said.splitlines()[-1].startswith(f"kernels.py: {text}"), said


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
        [found] = targets.results(taken, None)
        return found.measured, found.at_least, found.note

    moved = [(0, "fastsock", 2.0, "near"), (0, "mpich", 8.0, "near"), (0, "openmpi", 3.0, "mixed")]
    near = [(1, "fastsock", 2.0, "near"), (1, "mpich", 8.0, "near"), (1, "openmpi", 4.0, "near")]
    assert line(*moved) == (1.5, None, "never near")
    assert line(*moved, *near)[0] == 2.0


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
