"""Spawn and Spawn_multiple (MPI 4.1, section 11.8): a new job, and the intercommunicator with its ranks.

The root starts a runner for the new job on its host. The runner starts the ranks, as `python -m fastsock.mpj.run` does.
They find each other by a wire-up of their own, and their rank 0 connects to a port of the root.
"""

from __future__ import annotations

import os
import sys

from .. import search_path
from ..communicators.communicator_record import Communicator
from ..communicators.introduction import introduce
from ..constants import ERR_SPAWN
from ..exceptions import Exception as MPIException
from .child import Child
from .line import StreamLine
from .port import Port, PortError
from .ports import await_one

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

_HINTS = ("wdir", "path", "host", "hostfile", "env")


class Program:
    """What some of the new ranks run. `hints`: wdir, path, host, hostfile, env, of an Info."""

    def __init__(self, command: str, arguments: Sequence[str], count: int, hints: Mapping[str, str]) -> None:
        self.command, self.arguments, self.count = os.fspath(command), [str(word) for word in arguments], int(count)
        self.hints = {name: value for name, value in hints.items() if name in _HINTS}


def spawn(communicator: Communicator, programs: Sequence[Program], root: int) -> Communicator:
    """Returns the intercommunicator with the new ranks. The programs count at the root. Raises MPI.Exception."""
    world = communicator.world
    started: list[Child] = []

    def dial() -> StreamLine:
        for program in programs:
            if program.count < 1:
                raise MPIException(ERR_SPAWN, f"{program.command}: {program.count} ranks cannot be spawned")
        port = Port(world.job.interface)
        try:
            child = Child(world, _asked(programs, port.name) | {"keep_going": world.job.keeps_going}, port.cancel)
            try:
                line = await_one(communicator, port)
            except PortError:
                raise MPIException(ERR_SPAWN, f"{_names(programs)} cannot be spawned: {child.failure()}") from None
            except BaseException:  # an interrupt
                child.give_up()
                raise
        finally:
            port.close()
        started.append(child)
        return line

    communicator.root(root, communicator.size)
    try:
        made = introduce(communicator, root, dial, first=True, error_class=ERR_SPAWN)
    except BaseException:
        for child in started:
            child.give_up()
        raise
    for child in started:
        child.has_joined(world.others.outside.process(made.peers[0]).job)
    return made


def _asked(programs: Sequence[Program], port_name: str) -> dict[str, Any]:
    as_mpi4py = search_path.AS_MPI4PY in (*sys.path, *os.environ.get("PYTHONPATH", "").split(os.pathsep))
    environ: dict[str, str] = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    why_not = search_path.cover(environ, as_mpi4py)
    if why_not is not None:
        raise MPIException(ERR_SPAWN, why_not)
    first = programs[0].hints
    return {
        "parent": port_name,
        "as_mpi4py": as_mpi4py,
        "environ": {"PYTHONPATH": environ["PYTHONPATH"]} if environ["PYTHONPATH"] else {},
        "device": "iodev" if os.environ.get("FASTSOCK_MPJ_DEVICE") == "smpdev" else None,
        "hosts": first.get("host"),
        "hostfile": first.get("hostfile"),
        "python": sys.executable,
        "parts": [_part(program) for program in programs],
    }


def _part(program: Program) -> dict[str, Any]:
    hints, environ = program.hints, {}
    for entry in hints.get("env", "").splitlines():
        name, equals, value = entry.partition("=")
        if equals:
            environ[name] = value
    if "path" in hints:
        environ["PATH"] = os.pathsep.join([hints["path"], os.environ.get("PATH", os.defpath)])
    return {
        "program": [program.command, *program.arguments],
        "size": program.count,
        "directory": hints.get("wdir"),
        "environ": environ,
    }


def _names(programs: Sequence[Program]) -> str:
    return ", ".join(program.command for program in programs)
