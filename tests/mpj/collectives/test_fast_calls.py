"""The compiled path of blocking calls does what the general one does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("fastsock.core._core")


@pytest.mark.parametrize("ranks", [2, 3])
def test_as_the_general_path(ranks):
    program = Path(__file__).with_name("fast_calls.py")
    command = [sys.executable, "-m", "fastsock.mpj.run", "-n", str(ranks), "--timeout", "60", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr[-3000:]
