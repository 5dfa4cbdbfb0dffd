"""Programs of several jobs: each test's function is run by parents, and by those that they spawn."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import textwrap

from .. import ranks

DEVICES = ["iodev", "smpdev", "sysvdev"]
SPAWN = """
def spawn(body, count, comm=comm, root=0, **hints):
    import sys
    info = MPI.Info.Create(hints) if hints else MPI.INFO_NULL
    return comm.Spawn(sys.executable, ["-c", CHILD + body], count, info, root)
"""


PARENT = """
parent = MPI.Comm.Get_parent()
"""


def spawning(child):
    """Statements after which `spawn(CHILD_BODY, n)` runs the body of `child`."""
    return f"CHILD = {ranks.PREFIX + PARENT!r}\nCHILD_BODY = {ranks.source_of(child)!r}\n{SPAWN}"


def run(function, count, device="iodev", status=0, child=None, **bodies):
    """As ranks.run(); the body of `child` is what `spawn(CHILD_BODY, n)` runs, with `parent` beside `comm`.

    `bodies`: further functions. Parents and children have the statements of each under its name in capitals.
    """
    body = "" if child is None else ranks.source_of(child)
    texts = f"CHILD_START = {ranks.PREFIX + PARENT!r}\n"
    for name, each in bodies.items():
        texts += f"{name.upper()} = {ranks.source_of(each)!r}\n"
    before = f"{texts}CHILD = {ranks.PREFIX + PARENT + texts!r}\nCHILD_BODY = {body!r}\n{SPAWN}"
    return ranks.run(function, count, device, status, before)


def program_of(child, rest):
    """A program by itself, which spawns one rank as `children` and does the rest."""
    return f"{ranks.PREFIX}{spawning(child)}children = spawn(CHILD_BODY, 1)\n{rest}\n"


def output_of(command):
    """What a command wrote, which ended well."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def is_gone(pid, patience=20.0):
    """Whether a process ends within that many seconds."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], patience)[0])
    finally:
        os.close(descriptor)


def of(*bodies):
    """One program of several texts."""
    return "".join(textwrap.dedent(body) for body in bodies)


@contextlib.contextmanager
def job(body, count, device="iodev", options=(), **environ):
    """A job of its own, which runs these statements: its process, with pipes."""
    command = [sys.executable, "-m", "fastsock.mpj.run", "-n", str(count), "--device", device, "--timeout", "55"]
    process = subprocess.Popen(
        [*command, *options, "-c", ranks.PREFIX + body],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PYTHONWARNINGS": f"error,{ranks.NOT_OURS}"} | environ,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate()


def ended(process):
    """What a job wrote, once it has ended well."""
    said = process.communicate(timeout=60)[0]
    assert process.returncode == 0, said
    return said
