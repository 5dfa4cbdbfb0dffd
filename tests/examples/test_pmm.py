"""examples/pmm.py: the product is numpy's by each way that a block can go, for rings of even and odd length."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from fastsock import core

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "pmm.py"
VARIANTS = ["copy, posted", "copy, allocated", "pin, posted", "pin, allocated", "buffer handed over"]

pytestmark = [
    pytest.mark.skipif(not EXAMPLE.exists(), reason="fastsock is installed without its repository"),
    pytest.mark.skipif(not core.available, reason="registered buffers need the native core"),
]


@pytest.mark.parametrize("workers", [2, 3, 4])
def test_the_product_is_that_of_numpy(workers: int) -> None:
    command = [sys.executable, str(EXAMPLE), "--workers", str(workers), "--size", "24", "--turns", "1"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    differences = dict(re.findall(r"^(.+): path .+ difference from numpy is (\S+)$", done.stdout, re.MULTILINE))
    assert list(differences) == VARIANTS
    assert all(float(difference) < 1e-9 for difference in differences.values())
    told = done.stdout.partition("\n\n")[2]
    assert [variant for variant in VARIANTS if variant in told] == VARIANTS


@pytest.mark.parametrize("workers", [2, 3])
def test_buffers_are_handed_on_without_a_copy(workers: int) -> None:
    command = [sys.executable, str(EXAMPLE), "--workers", str(workers), "--size", "24", "--turns", "1"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    row = done.stdout.rstrip().splitlines()[-1]
    assert row.startswith(VARIANTS[-1]) and row.endswith(" 100%"), row


def test_columns_that_cannot_be_dealt_out_are_refused() -> None:
    command = [sys.executable, str(EXAMPLE), "--workers", "3", "--size", "25"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "25 columns cannot be dealt out evenly to 3 workers" in done.stderr
