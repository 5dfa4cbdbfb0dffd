"""What a program chooses by `rc`, and whoever starts it by MPI4PY_RC_*."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from fastsock import core

if not core.available:
    pytest.skip("needs the native core", allow_module_level=True)

NAMES = ("initialize", "threads", "thread_level", "finalize", "fast_reduce", "recv_mprobe", "irecv_bufsz", "errors")


def say(program: str, **environment: str) -> str:
    """What the program prints, errors included."""
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **environment}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return (done.stdout + done.stderr).strip()


@pytest.mark.parametrize(
    ("errors", "handler"),
    [("default", "ARE_FATAL"), ("exception", "RETURN"), ("abort", "ABORT"), ("fatal", "ARE_FATAL")],
)
def test_error_handler_of_all_communicators(errors, handler):
    program = f"from fastsock.mpj import rc; rc.errors = {errors!r}; from fastsock.mpj import MPI; "
    program += f"print(MPI.COMM_WORLD.Get_errhandler() == MPI.ERRORS_{handler})"
    assert say(program) == "True"
    program = f"from fastsock.mpj import MPI; print(MPI.COMM_SELF.Get_errhandler() == MPI.ERRORS_{handler})"
    assert say(program, MPI4PY_RC_ERRORS=errors) == "True"


@pytest.mark.parametrize("level", ["single", "funneled", "serialized", "multiple"])
def test_thread_level(level):
    program = f"from fastsock.mpj import MPI; print(MPI.Query_thread() == MPI.THREAD_{level.upper()})"
    assert say(program, MPI4PY_RC_THREAD_LEVEL=level) == "True"


@pytest.mark.parametrize("word", ["false", "no", "0", "FALSE"])
def test_the_environment_goes_before_the_program(word):
    program = "from fastsock.mpj import rc; rc.initialize = True; from fastsock.mpj import MPI; "
    program += "print(MPI.Is_initialized(), rc.initialize)"
    assert say(program, MPI4PY_RC_INITIALIZE=word) == "False False"


def test_a_program_may_initialize_by_itself():
    program = "from fastsock.mpj import rc; rc(initialize=False); from fastsock.mpj import MPI; "
    program += "print(MPI.Is_initialized(), MPI.Init_thread() == MPI.THREAD_MULTIPLE, MPI.Is_initialized())"
    assert say(program) == "False True True"


@pytest.mark.parametrize("name", NAMES)
def test_what_means_nothing_is_told_and_not_taken(name):
    program = f"from fastsock.mpj import rc; rc.{name} = -7; from fastsock.mpj import MPI; "
    program += "print(MPI.Is_initialized(), MPI.COMM_WORLD.Get_errhandler() == MPI.ERRORS_RETURN)"
    said = say(program)
    assert said.startswith("True True") and f"RuntimeWarning: fastsock.mpj.rc.{name}: unexpected value -7" in said
