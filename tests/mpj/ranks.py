"""Runs a test's function on several ranks, and fails with what the ranks wrote."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import textwrap

import pytest

DEVICES = ["iodev", "smpdev", "sysvdev"]
# a free-threaded Python says so of the package that sysvdev stands on
NOT_OURS = "ignore:The global interpreter lock (GIL) has been enabled to load module 'sysv_ipc':RuntimeWarning"
PATIENCE_S = 50  # after which ranks that go on are hung, and say where
PREFIX = f"""
import faulthandler, threading
if threading.current_thread().name in ("MainThread", "rank 0"):  # one thread for all: two at once hang without the GIL
    faulthandler.dump_traceback_later({PATIENCE_S}, exit=True)
from fastsock.mpj import MPI
import numpy as np
comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
"""


def source_of(function):
    """The statements in a function without arguments."""
    lines = inspect.getsource(function).splitlines()  # of a nested function: `body`
    first = next(number for number, line in enumerate(lines) if line.rstrip().endswith(":"))
    return textwrap.dedent("\n".join(lines[first + 1 :])) + "\n"


def run(function, ranks, device="iodev", status=0, before="", patience=PATIENCE_S):
    """Runs the body of a function on so many ranks, after the statements `before`; what they wrote. `status`: 0, 1 a
    failure, None either."""
    if device == "sysvdev":
        pytest.importorskip("sysv_ipc")
    command = [sys.executable, "-m", "fastsock.mpj.run", "-n", str(ranks), "--device", device]
    command += ["--timeout", str(patience + 5)]
    finished = subprocess.run(
        [*command, "-c", PREFIX.replace(f"({PATIENCE_S},", f"({patience},") + before + source_of(function)],
        capture_output=True,
        text=True,
        timeout=patience + 30,
        stdin=subprocess.DEVNULL,
        env=os.environ | {"PYTHONWARNINGS": f"error,{NOT_OURS}"},
    )
    assert status is None or (finished.returncode == 0) == (status == 0), finished.stdout + finished.stderr
    return finished.stdout + finished.stderr
