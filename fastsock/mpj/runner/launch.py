"""From a command line to running ranks."""

from __future__ import annotations

import binascii
import os
import sys

from ...launching.options import interpreter_options
from ...xxdev import hello
from ...xxdev.job import JOINED, addresses, own
from .. import search_path
from . import checking
from .checking import LaunchError
from .local import LOCAL
from .stdin import Feeder, Pipe
from .supervisor import Supervisor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from typing import NoReturn

    from .options import Options, Part

_PYTHON_ENDINGS = (".py", ".pyw", ".pyc", ".pyz")


def run(options: Options) -> int:
    """Start the ranks and wait for them; the exit status, negative for a signal. Raises LaunchError."""
    hosts = _hosts(options)
    parts = [options, *options.others]
    if hosts is None or options.others:
        for part in parts:
            part.size = part.size or 1
    if hosts is None:
        checking.check_settings(parts)
        for part in parts:
            checking.check_program(part)
    if options.device == "smpdev":
        if hosts is not None or options.others:
            raise LaunchError("--device smpdev: ranks are threads of one process, of one program, on one host")
        _run_threads(options)
    placed = _place(parts, hosts)
    size = sum(part.size for part in parts)
    job = f"run-{os.uname().nodename}-{os.getpid()}-{binascii.hexlify(os.urandom(4)).decode()}"
    secret = hello.new_secret().hex()
    supervisor = Supervisor(
        size=size,
        job=job,
        secret=secret.encode(),
        grace=None if options.keep_going else options.grace,
        timeout=options.timeout,
        tag=options.tag,
    )
    if options.on_supervisor is not None:
        options.on_supervisor(supervisor)
    name = f"fastsock/mpj/{job}"
    supervisor.server.listen(addresses.listen_unix(name), addresses.unix(name))
    environ = _environment(options, size, job, secret, supervisor.server.addresses)
    others = dict(placed)
    here = others.pop(LOCAL, [])
    if others and options.others:
        raise LaunchError("several programs run on this host only, not on others")
    part_of = [part for part in parts for _ in range(part.size)]
    commands = {id(part): command(part.program, part.literal) for part in parts}
    port = _listen(supervisor) if others else 0
    interface = next(filter(None, map(addresses.route_towards, others)), "") if others else "127.0.0.1"
    if interface:
        environ.setdefault(own.INTERFACE, interface)

    def start() -> None:
        nothing = os.open(os.devnull, os.O_RDONLY)
        terminal = Pipe(supervisor.loop) if 0 in here and os.isatty(0) else None
        first = terminal.reads if terminal is not None else 0
        for place, rank in enumerate(here):
            part = part_of[rank]
            own_part = part.environ | _own(options, rank, size, place, len(here))
            supervisor.local.start(
                rank, commands[id(part)], environ | own_part, part.directory, nothing if rank else first
            )
        os.close(nothing)
        if terminal is not None:
            os.close(terminal.reads)
            Feeder(supervisor.loop, terminal)
        for host, ranks in others.items():
            number, remote = supervisor.add_host(host)
            program = commands[id(options)]
            shared = {name: value for name, value in (environ | options.environ).items() if name != own.INTERFACE}
            shared[own.SERVERS] = addresses.tcp(addresses.route_towards(host) or "?", port)
            python = options.python or sys.executable
            words = [python, *program[1:]] if program[0] == sys.executable else program
            each = {rank: _own(options, rank, size, place, len(ranks)) for place, rank in enumerate(ranks)}
            remote.start(number, words, options.directory or os.getcwd(), shared, each, python)
            if 0 in ranks:
                Feeder(supervisor.loop, remote)

    return supervisor.run(start)


def _hosts(options: Options) -> list[tuple[str, int]] | None:
    if options.hostfile is None:
        return options.hosts
    from . import hosts

    try:
        return hosts.read(options.hostfile)
    except (OSError, ValueError) as error:
        raise LaunchError(f"--hostfile {options.hostfile}: {error}") from None


def _place(parts: list[Part], places: list[tuple[str, int]] | None) -> dict[str, list[int]]:
    """The ranks of each host."""
    if places is None:
        return {LOCAL: list(range(sum(part.size for part in parts)))}
    from . import hosts

    parts[0].size = parts[0].size or sum(count for _, count in places)
    return hosts.place(places, sum(part.size for part in parts))


def _own(options: Options, rank: int, size: int, place: int, here: int) -> dict[str, str]:
    """What only one rank's environment says; `place`: which of the `here` ranks of its host."""
    found = {own.RANK: str(rank)}
    if options.as_mpi4py:  # by what programs ask whether they are ranks, without a call of MPI
        found |= {"PMI_RANK": str(rank), "PMI_SIZE": str(size)}
        found |= {"MPI_LOCALRANKID": str(place), "MPI_LOCALNRANKS": str(here)}
    return found


def _listen(supervisor: Supervisor) -> int:
    """Ranks on other hosts join by TCP."""
    listener = addresses.listen_tcp()
    port = int(listener.getsockname()[1])
    supervisor.server.listen(listener, addresses.tcp("0.0.0.0", port))
    return port


def command(program: list[str], literal: bool = False) -> list[str]:
    """The words to execute: Python's programs by the Python that runs here, with the options that it was given."""
    if literal or not _is_python(program[0]):
        return program
    options, _ = interpreter_options(sys.orig_argv)
    return [sys.executable, *options, *program]


def _run_threads(options: Options) -> NoReturn:
    """The ranks are threads of this very process."""
    from . import threaded

    if not _is_python(options.program[0]):
        raise LaunchError(f"--device smpdev runs Python programs in threads, and {options.program[0]} is none")
    os.environ["FASTSOCK_MPJ_DEVICE"] = "smpdev"
    _cover(os.environ, options.as_mpi4py)
    if options.as_mpi4py:
        sys.path.insert(1, search_path.AS_MPI4PY)
    grace = None if options.keep_going else options.grace
    threaded.run(options.size, options.program, timeout=options.timeout, grace=grace, tag=options.tag)


def _is_python(first: str) -> bool:
    if first in ("-m", "-c") or first.endswith(_PYTHON_ENDINGS) or os.path.isdir(first):
        return True
    from shutil import which

    return which(first) is None


def _cover(environ: MutableMapping[str, str], as_mpi4py: bool) -> None:
    why_not = search_path.cover(environ, as_mpi4py)
    if why_not is not None:
        raise LaunchError(why_not)


def _environment(options: Options, size: int, job: str, secret: str, servers: list[str]) -> dict[str, str]:
    environ = dict(os.environ)
    for name in (JOINED, own.PARENT, own.APPLICATION):  # of the job that this runner may belong to
        environ.pop(name, None)
    environ[own.JOB] = job
    environ[own.SIZE] = str(size)
    environ[own.SECRET] = secret
    environ[own.SERVERS] = ",".join(servers)
    if size > 1 and sys.stdout.isatty():
        environ["PYTHONUNBUFFERED"] = "1"  # what ranks print comes through a pipe, and should appear as on a terminal
    if options.device:
        environ["FASTSOCK_MPJ_DEVICE"] = options.device
    _cover(environ, options.as_mpi4py)
    return environ
