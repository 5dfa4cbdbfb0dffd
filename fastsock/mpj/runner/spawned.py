"""The runner of a job that a rank of another one has spawned: a child process of that rank.

Standard input is a connection with the parent. It brings what to run, and later that the parent does without this job.
Where the parent dies before it has said that, this job ends too. If both keep going, it ends with the parent's runner.
"""

from __future__ import annotations

import _socket
import contextlib
import json
import os
import struct
import sys

from ...system.reading import exactly
from ...xxdev.job import own
from . import checking, hosts, launch
from .options import Options, Part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from .supervisor import Supervisor

_LENGTH = struct.Struct("!I")


def main() -> NoReturn:
    """Run the job that the parent asks for; exit as the first rank that failed."""
    line = _socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    try:
        asked = json.loads(exactly(line, _LENGTH.unpack(exactly(line, _LENGTH.size))[0]))
    except ConnectionError:  # the parent died at once
        os._exit(1)
    try:
        status = launch.run(_options(asked, _Parent(line, asked)))
    except (checking.LaunchError, ValueError, OSError) as error:
        line.sendall(str(error).encode("utf-8", "replace"))
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status if status >= 0 else 128 - status)


def _options(asked: dict[str, Any], parent: _Parent) -> Options:
    options = Options()
    options.name = "fastsock.mpj: Spawn"
    options.as_mpi4py = asked["as_mpi4py"]
    options.device = asked["device"]
    options.keep_going = asked["keep_going"]
    options.python = asked["python"]
    options.hostfile = asked["hostfile"]
    options.hosts = hosts.parse(asked["hosts"]) if asked["hosts"] else None
    options.on_supervisor = parent.watch
    os.environ.update(asked["environ"])
    for number, told in enumerate(asked["parts"]):
        part = options if number == 0 else Part()
        part.program, part.size, part.directory = told["program"], told["size"], told["directory"]
        part.environ = {**told["environ"], own.PARENT: asked["parent"], own.APPLICATION: str(number)}
        part.literal = True
        if number:
            options.others.append(part)
    return options


class _Parent:
    """The rank that spawned this job."""

    def __init__(self, line: _socket.socket, asked: dict[str, Any]) -> None:
        self._line, self._pid = line, asked["parent_pid"]
        self._watch = -1
        self._runner = -1
        if asked["keep_going"]:
            with contextlib.suppress(OSError):  # it has ended, and the parent ends
                self._runner = os.pidfd_open(asked["runner_pid"])
        self._supervisor: Any = None

    def watch(self, supervisor: Supervisor) -> None:
        """Ends the job with the parent, until that lets it go."""
        self._supervisor = supervisor
        self._watch = os.pidfd_open(self._pid)
        if os.getppid() != self._pid:  # it has died already, and the number may be another's
            self._died(0)
            return
        self._line.setblocking(False)
        supervisor.loop.watch(self._watch, self._died)

    def _died(self, _: int) -> None:
        loop = self._supervisor.loop
        loop.forget(self._watch)
        os.close(self._watch)
        try:
            let_go = bool(self._line.recv(1))
        except OSError:
            let_go = False
        if let_go:
            return
        if self._runner < 0:
            self._supervisor.end("the rank that spawned this job is gone")
        else:
            loop.watch(self._runner, self._runner_ended)

    def _runner_ended(self, _: int) -> None:
        self._supervisor.loop.forget(self._runner)
        self._supervisor.end("the job that spawned this one is over")
