"""Objects that need no messages, through the public module."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest

from fastsock.mpj import MPI


def test_import_is_light() -> None:
    heavy = "'numpy', 'ctypes', 'asyncio', 'ssl'"
    script = f"import sys; from fastsock.mpj import MPI; print([m for m in ({heavy}) if m in sys.modules])"
    told = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _path() + script], capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == "[]"


STARTING = """
import sys
before = set(sys.modules)
from fastsock.mpj import MPI
MPI.COMM_WORLD.Barrier()
class Own:
    pass
MPI.COMM_WORLD.bcast(Own())
heavy = {"numpy", "hashlib", "hmac", "pickle", "re", "ssl", "zlib"}
print(sorted(heavy & set(sys.modules) - before))
"""


def test_a_rank_starts_and_meets_the_others_without_heavy_modules() -> None:
    run = [sys.executable, "-m", "fastsock.mpj.run", "-n", "2", "-c", STARTING]
    told = subprocess.run(run, capture_output=True, text=True, timeout=60)
    assert (told.returncode, told.stdout.split()) == (0, ["[]", "[]"]), told.stderr


def test_the_runner_starts_ranks_before_it_imports_much() -> None:
    script = "import sys; from fastsock.mpj.run import parse; from fastsock.mpj.runner import launch; "
    script += "print([m for m in ('asyncio', 'ctypes', 'enum', 're', 'signal') if m in sys.modules])"
    told = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _path() + script], capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == "[]"


def test_a_pickle_that_the_program_replaced_makes_the_messages() -> None:
    script = "import pickle; pickle.dumps = lambda *a, **k: b'mine'; from fastsock.mpj import MPI; "
    script += "print(MPI.pickle.dumps([1, 2]), MPI.pickle.PROTOCOL == pickle.HIGHEST_PROTOCOL)"
    told = subprocess.run([sys.executable, "-c", _path() + script], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "b'mine' True"


def test_without_the_core_the_import_says_why() -> None:
    script = "sys.modules['fastsock.core.binding._core'] = None; from fastsock.mpj import MPI"
    told = subprocess.run([sys.executable, "-S", "-c", _path() + script], capture_output=True, text=True)
    assert told.returncode == 1
    assert "ImportError: fastsock.mpj needs the native core: the native core is not built" in told.stderr


def _path() -> str:
    return f"import sys; sys.path[:0] = {[entry for entry in sys.path if entry]!r}; "


@pytest.mark.parametrize("name", ["INT", "DATATYPE_NULL", "SUM", "OP_NULL", "GROUP_EMPTY"])
def test_constants_are_pickled_by_name(name: str) -> None:
    constant = getattr(MPI, name)
    assert pickle.loads(pickle.dumps(constant)) is constant
    copy = pickle.loads(pickle.dumps(type(constant)(constant)))
    assert copy is not constant
    assert copy == constant


def test_operations_on_memory() -> None:
    x, y = np.arange(5.0), np.ones(5)
    MPI.SUM.Reduce_local(x, y)
    assert y.tolist() == [1, 2, 3, 4, 5]


def test_errors_tell_class_and_detail() -> None:
    with pytest.raises(MPI.Exception) as caught:
        MPI.DATATYPE_NULL.Get_size()
    assert caught.value.Get_error_class() == MPI.ERR_TYPE
    assert "null" in str(caught.value)
