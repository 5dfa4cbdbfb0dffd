"""mpiexec by other names: the options of other MPIs', and where the plain names are found."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fastsock.mpj import install_mpiexec, mpiexec, search_path
from fastsock.mpj.run import UsageError

MPIEXEC = [sys.executable, "-m", "fastsock.mpj.mpiexec"]
WHO = "from mpi4py import MPI; import os, sys; print(MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size, *sys.argv[1:])"


def run(*words, command=MPIEXEC, env=None, cwd=None):
    return subprocess.run(
        [*command, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        env=os.environ | (env or {}),
        cwd=cwd,
    )


@pytest.mark.parametrize(
    "words",
    [
        ["-n", 2],
        ["-np", 2, "--oversubscribe", "--allow-run-as-root", "--bind-to", "none"],
        ["--np", 2, "--mca", "btl", "self,vader", "--map-by", ":OVERSUBSCRIBE"],
        ["-host", "localhost:2"],
        ["--host", "127.0.0.1,localhost", "--timeout", 50],
        ["-hosts", "localhost", "-ppn", 2, "-launcher", "fork", "-genvall"],
    ],
)
def test_the_options_that_programs_pass(words):
    done = run(*words, sys.executable, "-c", WHO, "-n", "x")
    assert (sorted(done.stdout.splitlines()), done.stderr) == (["0 2 -n x", "1 2 -n x"], "")
    assert done.returncode == 0


def test_variables_and_the_directory(tmp_path):
    code = "import os; print(*(os.environ.get(name) for name in ('ONE', 'TWO', 'THREE', 'FOUR')), os.getcwd())"
    options = ["-x", "ONE", "-x", "TWO=2", "-env", "THREE", 3, "-genv", "FOUR", 4, "-wdir", tmp_path]
    done = run(*options, sys.executable, "-c", code, env={"ONE": "1"})
    assert done.stdout == f"1 2 3 4 {tmp_path}\n"


def test_several_programs_are_one_job():
    code = (
        "from mpi4py import MPI; import os; print(MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size, %r, os.environ.get('PART'))"
    )
    first, second = ([sys.executable, "-c", code % name] for name in ("first", "second"))
    done = run("-genv", "PART", "all", "-n", 1, "-env", "PART", "one", *first, ":", "-n", 2, *second)
    assert sorted(done.stdout.splitlines()) == ["0 3 first one", "1 3 second all", "2 3 second all"]
    assert done.returncode == 0, done.stderr


def test_a_host_file(tmp_path):
    file = tmp_path / "hosts"
    file.write_text("localhost slots=3\n")
    assert len(run("-f", file, sys.executable, "-c", WHO).stdout.splitlines()) == 3


def test_ranks_are_told_in_the_words_of_other_launchers():
    code = "import os; print(*(os.environ[name] for name in ('PMI_RANK', 'PMI_SIZE', 'MPI_LOCALRANKID')))"
    assert sorted(run("-n", 2, sys.executable, "-c", code).stdout.splitlines()) == ["0 2 0", "1 2 1"]


def test_a_program_that_nobody_can_execute_is_pythons(tmp_path):
    (tmp_path / "app.py").write_text(WHO)
    assert run(tmp_path / "app.py").stdout == "0 1\n"
    assert run("no-such-program").returncode == 127


def test_the_status_is_that_of_the_rank_that_failed():
    assert run("-n", 2, sys.executable, "-c", "import sys; sys.exit(3)").returncode == 3


def test_the_version_names_what_programs_look_for():
    done = run("--version")
    assert done.stdout.startswith("mpiexec (fastsock)") and "HYDRA" in done.stdout and done.returncode == 0
    assert run("--help").stdout.startswith("usage: mpiexec")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "no program"),
        (["-n", "2"], "no program"),
        (["-n", "2", "a", ":", "-n", "2"], "no program"),
        (["-npernode"], "unrecognized argument npernode"),  # libEnsemble tells MPICH by these words
        (["--nonsense", "a"], "unrecognized argument nonsense"),
        (["-n", "two", "a"], "not a number"),
        (["-n", "0", "a"], "more than 0"),
        (["-host", "-oProxyCommand=x", "a"], "no host"),
    ],
)
def test_what_cannot_be_understood(words, says):
    with pytest.raises(UsageError, match=says):
        mpiexec.parse(words)


# ---- the plain names ----


def test_commands_are_executable():
    for name in ("mpiexec", "mpirun"):
        assert os.access(Path(search_path.COMMANDS) / name, os.X_OK)


@pytest.mark.parametrize("name", ["mpiexec", "mpirun"])
def test_a_rank_starts_ranks_by_the_plain_name(name, tmp_path):
    code = f"import subprocess, sys; subprocess.run([{name!r}, '-n', '2', sys.executable, '-c', {WHO!r}], check=True)"
    bare = {"PATH": "/usr/bin:/bin"}
    if shutil.which(name, path=bare["PATH"]):
        pytest.skip("another MPI is installed here")
    words = ["-m", "fastsock.mpj.run", "--as-mpi4py", "-c", code]
    done = run(*words, command=[sys.executable], env=bare, cwd=tmp_path)
    assert sorted(done.stdout.splitlines()) == ["0 2", "1 2"], done.stderr
    words.remove("--as-mpi4py")
    assert "FileNotFoundError" in run(*words, command=[sys.executable], env=bare, cwd=tmp_path).stderr


def test_another_mpi_goes_first(tmp_path):
    theirs = tmp_path / "mpiexec"
    theirs.write_text("#!/bin/sh\necho theirs\n")
    theirs.chmod(0o755)
    words = ["-m", "fastsock.mpj.run", "--as-mpi4py", "-c", "import subprocess; subprocess.run(['mpiexec'])"]
    done = run(*words, command=[sys.executable], env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert done.stdout == "theirs\n", done.stderr


def test_installing(tmp_path):
    install = [sys.executable, "-m", "fastsock.mpj.install_mpiexec"]
    assert run(tmp_path, command=install).returncode == 0
    done = run("-n", 2, sys.executable, "-c", WHO, command=[tmp_path / "bin" / "mpirun"], cwd="/")
    assert sorted(done.stdout.splitlines()) == ["0 2", "1 2"], done.stderr
    assert run(tmp_path, command=install).returncode == 0  # again
    assert run("--remove", tmp_path, command=install).returncode == 0
    assert not list((tmp_path / "bin").iterdir())


def test_installing_leaves_another_mpis_commands_alone(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "mpirun").write_text("theirs")
    with pytest.raises(install_mpiexec.InstallError, match="another MPI's"):
        install_mpiexec.install(tmp_path)
    assert install_mpiexec.remove(tmp_path) == []
    assert [file.name for file in (tmp_path / "bin").iterdir()] == ["mpirun"]


# ---- a rank by a Python without fastsock ----


def test_a_python_without_fastsock_is_told_what_to_do(tmp_path):
    if not search_path.found_anywhere():
        pytest.skip("fastsock is not installed, so its ranks are told where it is")
    words = ["-m", "fastsock.mpj.run", "--as-mpi4py", sys.executable, "-S", "-c", "import mpi4py"]
    done = run(*words, command=[sys.executable], cwd=tmp_path)
    assert "has no fastsock" in done.stderr and "pip install fastsock" in done.stderr, done.stderr
    assert "No module named" not in done.stderr
