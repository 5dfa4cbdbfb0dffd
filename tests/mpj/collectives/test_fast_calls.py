"""The compiled path of blocking calls does what the general one does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("fastsock.core.binding._core")


def run(name, ranks, device="iodev"):
    program = Path(__file__).with_name(name)
    command = [sys.executable, "-m", "fastsock.mpj.run", "-n", str(ranks), "--device", device, "--timeout", "100"]
    command.append(str(program))
    done = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_as_the_general_path(ranks):
    run("fast_calls.py", ranks)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_objects(ranks):
    run("object_calls.py", ranks)


@pytest.mark.parametrize(("device", "ranks"), [("iodev", 2), ("sysvdev", 2), ("smpdev", 3)])
def test_every_operation_on_every_datatype(device, ranks):
    run("every_reduction.py", ranks, device)
