"""What users get wrong of the commands that start ranks: one line, and no traceback."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest

ME = sys.executable
RUN = ["fastsock.mpj.run"]
MPIEXEC = ["fastsock.mpj.mpiexec"]
FUTURES = ["fastsock.mpj.futures"]
ONE = ["fastsock.mpj"]


def run(words, cwd, **environ):
    command = [ME, "-m", *words]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, cwd=cwd, env=os.environ | environ, check=False
    )


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        ([*MPIEXEC, "-n", "2", "nosuchprog"], 127, "mpiexec (fastsock): there is no program nosuchprog on the PATH"),
        ([*MPIEXEC, "-n", "2", "./nosuchprog"], 127, "mpiexec (fastsock): there is no program ./nosuchprog"),
        ([*MPIEXEC, "-n", "2", "./text"], 126, "mpiexec (fastsock): ./text cannot be executed"),
        ([*MPIEXEC, "-n", "2", "nosuch.py"], 2, "mpiexec (fastsock): there is no file and no program nosuch.py"),
        ([*MPIEXEC, "-wdir", "nodir", ME, "-c", "1"], 127, "there is no folder "),
        ([*RUN, "-n", "2", "nosuch.py"], 2, "python -m fastsock.mpj.run: there is no file and no program nosuch.py"),
        ([*RUN, "-n", "2", "--device", "smpdev", "nosuch.py"], 2, "there is no file and no program nosuch.py"),
    ],
)
def test_what_is_not_there_is_told_once(tmp_path, words, status, text):
    (tmp_path / "text").write_text("no program")
    done = run(words, tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (status, "", 1), done.stderr
    assert text in done.stderr


@pytest.mark.parametrize("option", ["-ppn", "-timeout"])
def test_a_number_that_must_be_more_than_0(tmp_path, option):
    done = run([*MPIEXEC, option, "-3", ME, "-c", "1"], tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"mpiexec (fastsock): {option} -3: must be more than 0")


@pytest.mark.parametrize("command", [ONE, FUTURES])
@pytest.mark.parametrize(
    ("program", "status", "text"),
    [
        (["nosuch.py"], 2, "can't open file"),
        (["-m", "nosuch"], 1, "No module named nosuch"),
        (["-m", "nosuch.below"], 1, "No module named nosuch.below"),
    ],
)
def test_a_program_of_one_rank(tmp_path, command, program, status, text):
    done = run([*command, *program], tmp_path)
    assert (done.returncode, done.stdout) == (status, "")
    assert text in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("option", ["-m", "-c"])
def test_an_option_of_futures_without_its_value(tmp_path, option):
    done = run([*FUTURES, option], tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"Argument expected for the {option} option")


@pytest.mark.skipif(importlib.util.find_spec("mpi4py") is not None, reason="mpi4py is installed")
@pytest.mark.parametrize("as_file", [True, False])
def test_a_program_of_mpi4py_without_the_option(tmp_path, as_file):
    code = "import sys\nfrom mpi4py import MPI\n"
    (tmp_path / "app.py").write_text(code)
    words = ["app.py"] if as_file else ["-c", code]
    done = run([*RUN, "-n", "2", *words], tmp_path)
    assert done.returncode == 1
    assert "imports mpi4py, which is not installed: with --as-mpi4py that name means fastsock.mpj" in done.stderr
    assert run([*RUN, "-n", "2", "--as-mpi4py", *words], tmp_path).stderr == ""


def test_a_program_that_fails_otherwise_gets_no_hint(tmp_path):
    done = run([*RUN, "-c", "# import mpi4py\nraise SystemExit(3)"], tmp_path)
    assert done.returncode == 3
    assert "--as-mpi4py" not in done.stderr


@pytest.mark.parametrize(
    ("variable", "value", "text"),
    [
        ("FASTSOCK_MPJ_RANK", "a", "FASTSOCK_MPJ_RANK is 'a': write a number from 0 up"),
        ("FASTSOCK_MPJ_SIZE", "0", "FASTSOCK_MPJ_SIZE is '0': write a number from 1 up"),
        ("FASTSOCK_MPJ_ADDRESS", "a", "FASTSOCK_MPJ_ADDRESS is 'a': write host:port"),
    ],
)
def test_ranks_by_hand(tmp_path, variable, value, text):
    environ = {
        "FASTSOCK_MPJ_RANK": "0",
        "FASTSOCK_MPJ_SIZE": "1",
        "FASTSOCK_MPJ_ADDRESS": "127.0.0.1:4000",
        "FASTSOCK_MPJ_SECRET": "a secret of these tests",
    }
    command = [ME, "-c", "from fastsock.xxdev.job import current; current()"]
    env = os.environ | environ | {variable: value}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith(text)
