"""The MPIs side by side: fastsock.mpj, and mpi4py on MPICH and on Open MPI, all with the same program."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata, resources, util
from pathlib import Path

from . import machine, venvs
from .process import Broken, Unusable

PROGRAMS = Path(__file__).parent.parent / "mpi"
FASTSOCK, FASTSOCK_TCP, MPICH, OPENMPI = "fastsock", "fastsock tcp", "mpich", "openmpi"
OTHERS = (MPICH, OPENMPI)
DEVICES = {f"fastsock {device}": device for device in ("smpdev", "sysvdev")}  # beside the default, iodev


@dataclass(frozen=True)
class Mpi:
    """One MPI: how its ranks are started. ``{ranks}`` is filled in."""

    name: str
    command: tuple[str, ...]
    python: str
    environment: tuple[tuple[str, str], ...] = ()


def install(name: str) -> None:
    """Make a virtual environment of this interpreter with mpi4py and that MPI's wheel. Raises Unusable.

    What computes is what this interpreter has: the same numpy, and the same Numba or none.
    """
    there = [package for package in ("numpy", "numba") if util.find_spec(package) is not None]
    venvs.make(name, [*(f"{package}=={metadata.version(package)}" for package in there), "mpi4py", name])


def find(name: str) -> Mpi:
    """The MPI of that name. Raises Unusable where it cannot run here."""
    if name in (FASTSOCK, FASTSOCK_TCP, *DEVICES):
        if util.find_spec("fastsock") is None or util.find_spec("fastsock.mpj") is None:
            raise Unusable("fastsock.mpj cannot be imported")
        if DEVICES.get(name) == "sysvdev" and util.find_spec("sysv_ipc") is None:
            raise Unusable("sysvdev needs sysv_ipc: pip install sysv_ipc, or fastsock with its extra `sysv`")
        tcp = _plain_tcp() if name == FASTSOCK_TCP else ()
        device = ("--device", DEVICES[name]) if name in DEVICES else ()
        run = (sys.executable, "-m", "fastsock.mpj.run", "-n", "{ranks}", *device, "--as-mpi4py")
        return Mpi(name, run, sys.executable, tcp)
    if name not in OTHERS:
        raise Unusable(f"there is no MPI {name!r}; there are {', '.join((FASTSOCK, FASTSOCK_TCP, *DEVICES, *OTHERS))}")
    folder = venvs.FOLDER / name / "bin"
    if not (folder / "mpiexec").exists():
        raise Unusable(f"{name} is not installed: run with --install")
    extra: tuple[str, ...] = ()
    if name == OPENMPI:
        # the program places its ranks itself, the same for every MPI
        extra = ("--allow-run-as-root", "--oversubscribe", "--bind-to", "none")
    return Mpi(name, (str(folder / "mpiexec"), *extra, "-n", "{ranks}", str(folder / "python")), str(folder / "python"))


def _plain_tcp() -> tuple[tuple[str, str], ...]:
    """What the ranks find in the environment so that everything goes by messages over TCP, collectives too."""
    shipped = resources.files("fastsock.mpj.collectives").joinpath("table.txt").read_text().splitlines()
    rows = [line.replace(" messages ", " host ") for line in shipped if " messages " in line and line[:1] != "#"]
    file = Path(tempfile.mkdtemp(prefix="fastsock-bench-")) / "by_messages.txt"
    file.write_text("\n".join(rows) + "\n")
    atexit.register(shutil.rmtree, file.parent)
    return ("FASTSOCK_TRANSPORTS", "tcp"), ("FASTSOCK_MPJ_COLLECTIVES", str(file))


def run(mpi: Mpi, ranks: int, program: str | Path, arguments: Sequence[str], timeout: float = 120.0) -> list[dict]:
    """Run a program, one of bench/mpi's where it is no path, to its end: the JSON lines of rank 0. Raises Broken."""
    file = program if isinstance(program, Path) else PROGRAMS / f"{program}.py"
    command = [*(part.format(ranks=ranks) for part in mpi.command), str(file), *arguments]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
            env={**os.environ, **dict(mpi.environment)},
            start_new_session=True,
            preexec_fn=machine.die_with_parent,
        )
        watched = os.pidfd_open(process.pid)
        try:  # Popen.wait(timeout) looks every 50 ms only
            lapsed = not select.select([watched], [], [], timeout)[0]
        finally:  # they are a session of their own, which no Ctrl-C reaches
            os.close(watched)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        errors.seek(0)
        told = out.read().splitlines()
        said = _complaint(told, errors.read().strip().splitlines(), file.name) or f"status {process.returncode}"
        if lapsed:
            raise Broken(f"{mpi.name}: {file.stem} did not end within {timeout:g} s: {said}")
        if process.returncode:
            raise Broken(f"{mpi.name}: {file.stem}: {said}")
        return [json.loads(line) for line in told if line.startswith("{")]


def _complaint(told: Sequence[str], errors: Sequence[str], program: str) -> str:
    """What went wrong: the program's own words before those of what started it."""
    own = [line for line in errors if line.startswith(f"{program}: ")] + [line for line in told if "FAILURE" in line]
    return (own[:1] or list(errors[-1:]) or [""])[0].strip()
