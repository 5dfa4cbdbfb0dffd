"""Runs a test's function on ranks of which some die, and the others go on."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from .. import ranks

PROCESSES = ["iodev", "sysvdev"]
DEVICES = [*PROCESSES, "iodev over tcp"]
TCP = " over tcp"
BEFORE = """
import os
import signal
import time

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def error_of(call, *arguments, **named):
    try:
        call(*arguments, **named)
    except MPI.Exception as error:
        return error.Get_error_class()
    return MPI.SUCCESS

def until(code, call, *arguments):
    "Calls until that error comes: others may be told of a death a moment later."
    while (found := error_of(call, *arguments)) != code:
        assert found == MPI.SUCCESS, found
"""


def run(function, size, device="iodev", *, deaths=1, before="", options=(), environ=None):
    """Runs the body of a function with `--keep-going`; what the ranks wrote. So many die by a signal."""
    kind = device.removesuffix(TCP)
    if kind == "sysvdev":
        pytest.importorskip("sysv_ipc")
    command = [sys.executable, "-m", "fastsock.mpj.run", "-n", str(size), "--device", kind, "--keep-going", *options]
    own = {"FASTSOCK_TRANSPORTS": "tcp"} if kind != device else {}
    finished = subprocess.run(
        [*command, "--timeout", "55", "-c", ranks.PREFIX + BEFORE + before + ranks.source_of(function)],
        capture_output=True,
        text=True,
        timeout=80,
        stdin=subprocess.DEVNULL,
        env=os.environ | {"PYTHONWARNINGS": f"error,{ranks.NOT_OURS}"} | own | (environ or {}),
    )
    said = finished.stdout + finished.stderr
    assert finished.returncode == (137 if deaths else 0), said
    assert said.count("was killed by signal 9") == deaths, said
    return said
