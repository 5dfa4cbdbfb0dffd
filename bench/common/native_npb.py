"""A compiled NPB beside the kernels in Python, on one rank: what their arithmetic costs."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .kernel_runs import WHOLE, Case
from .process import Broken, Unusable

NATIVE = "native"  # the name of its samples' peer
ENDINGS = ("", ".x")  # "cg.W", as serial versions are named, and "cg.W.x"


def find(folder: str, cases: Sequence[Case]) -> dict[Case, Path]:
    """Its programs for those of the cases that run on one rank. Raises Unusable where there are none."""
    found = {}
    for case in cases:
        for ending in ENDINGS:
            program = Path(folder) / f"{case.kernel}.{case.letter}{ending}"
            if case.ranks == 1 and case.way == WHOLE and os.access(program, os.X_OK) and program.is_file():
                found[case] = program
    if not found:
        one = next((case for case in cases if case.ranks == 1), Case("cg", "W", 1))
        raise Unusable(f"{folder} has no program for one rank of these cases, such as {one.kernel}.{one.letter}")
    return found


def run(program: Path, core: int, limit: float) -> float:
    """The seconds that it tells. Raises Broken, also where its result is not right."""
    command = ["taskset", "-c", str(core), str(program.resolve())]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        raise Broken(f"{program.name} did not end within {limit:g} s") from None
    seconds = re.search(r"Time in seconds\s*=\s*([0-9.eE+-]+)", done.stdout)
    if done.returncode or seconds is None or not re.search(r"Verification\s*=\s*SUCCESSFUL", done.stdout):
        raise Broken(f"{program.name}: status {done.returncode}, told nothing that is verified")
    return float(seconds[1])
