"""The kernels of NPB and JGF as programs of ranks: verified by their own values, refused where they cannot run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fastsock import core

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
