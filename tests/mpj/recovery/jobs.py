"""Runs a test's function on ranks of which some die, and the others go on."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile

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


MEETINGS = ["spawn", "ports"]
"""How two jobs meet."""

MEET = """
import sys

def meet():
    "The intercommunicator with the other job, and whether this one is the first of the two."
    if MEETING == "spawn":
        parent = MPI.Comm.Get_parent()
        if parent != MPI.COMM_NULL:
            return parent, False
        return MPI.COMM_WORLD.Spawn(sys.executable, ["-c", os.environ["PROGRAM"]], SECOND), True
    name, first = os.environ["MEETING_POINT"], "FIRST" in os.environ
    port = None
    if rank == 0 and first:
        port = MPI.Open_port()
        with open(name, "w") as file:
            file.write(port)
    elif rank == 0:
        with open(name) as file:
            port = file.read()
    return (comm.Accept if first else comm.Connect)(port), first

inter, first = meet()
whole = inter.Merge(not first)
whole.Barrier()
"""


@contextlib.contextmanager
def two_jobs(meeting, body, sizes, before="", options=()):
    """The bodies of ranks of two jobs that have met: `inter`, `whole`, `first`. The processes, and where to read."""
    texts = f"MEETING, SECOND = {meeting!r}, {sizes[1]}\n{before}"
    program = ranks.PREFIX + BEFORE + texts + MEET + body
    reader, writer = os.pipe()
    with tempfile.TemporaryDirectory() as folder:
        point = os.path.join(folder, "point")
        os.mkfifo(point)
        environ = os.environ | {"PYTHONWARNINGS": f"error,{ranks.NOT_OURS}", "MEETING_POINT": point, "PROGRAM": program}
        command = [sys.executable, "-m", "fastsock.mpj.run", "--keep-going", "--timeout", "100", *options]
        sides = [({"FIRST": "1"}, sizes[0])] + [({}, sizes[1])] * (meeting == "ports")
        processes = [
            subprocess.Popen(
                [*command, "-n", str(size), "-c", program],
                stdin=subprocess.DEVNULL,
                stdout=writer,
                stderr=writer,
                env=environ | own,
            )
            for own, size in sides
        ]
        os.close(writer)
        with open(reader, errors="replace") as output:
            try:
                yield processes, output
            finally:
                for process in processes:
                    process.terminate()
                    process.wait()
