"""CPython's own tests of managers pass on the drop-in."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("cpython_managers.py")
KINDS = ("fork", "spawn", "forkserver") if os.environ.get("FASTSOCK_SOAK") else ("fork",)  # the others take minutes


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", KINDS)
def test_cpython_tests_of_managers(kind):
    if importlib.util.find_spec("test._test_multiprocessing") is None:
        pytest.skip("this Python was installed without its tests")
    done = subprocess.run(
        [sys.executable, str(PROGRAM), kind], capture_output=True, text=True, timeout=850, check=False
    )
    assert done.returncode == 0, done.stderr[-5000:]
