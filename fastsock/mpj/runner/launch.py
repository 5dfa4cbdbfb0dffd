"""From a command line to running ranks."""

from __future__ import annotations

import binascii
import os
import sys

from ...launcher import interpreter_options
from ...xxdev import hello
from ...xxdev.job import JOINED, addresses, own
from . import environment
from .local import LOCAL
from .stdin import Feeder, Pipe
from .supervisor import Supervisor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from typing import NoReturn

    from ..run import Options

_PYTHON_ENDINGS = (".py", ".pyw", ".pyc", ".pyz")


class LaunchError(Exception):
    """The ranks cannot be started; the text says why."""


def run(options: Options) -> int:
    """Start the ranks and wait for them; the exit status, negative for a signal. Raises LaunchError."""
    if options.hostfile is None:
        options.size = options.size or 1
    if options.device == "smpdev":
        if options.hostfile is not None:
            raise LaunchError("--device smpdev: ranks are threads of one process, so there is no use for --hostfile")
        _run_threads(options)
    placed = _place(options)
    job = f"run-{os.uname().nodename}-{os.getpid()}-{binascii.hexlify(os.urandom(4)).decode()}"
    secret = hello.new_secret().hex()
    supervisor = Supervisor(
        size=options.size,
        job=job,
        secret=secret.encode(),
        grace=options.grace,
        timeout=options.timeout,
        tag=options.tag,
    )
    name = f"fastsock/mpj/{job}"
    supervisor.server.listen(addresses.listen_unix(name), addresses.unix(name))
    environ = _environment(options, job, secret, supervisor.server.addresses)
    program = command(options.program)
    others = dict(placed)
    here = others.pop(LOCAL, [])
    port = _listen(supervisor) if others else 0
    interface = next(filter(None, map(addresses.route_towards, others)), "") if others else "127.0.0.1"
    if interface:
        environ.setdefault(own.INTERFACE, interface)

    def start() -> None:
        nothing = os.open(os.devnull, os.O_RDONLY)
        terminal = Pipe(supervisor.loop) if 0 in here and os.isatty(0) else None
        first = terminal.reads if terminal is not None else 0
        for rank in here:
            own_part = {own.RANK: str(rank)}
            supervisor.local.start(rank, program, environ | own_part, None, nothing if rank else first)
        os.close(nothing)
        if terminal is not None:
            os.close(terminal.reads)
            Feeder(supervisor.loop, terminal)
        for host, ranks in others.items():
            number, remote = supervisor.add_host(host)
            shared = {name: value for name, value in environ.items() if name != own.INTERFACE}
            shared[own.SERVERS] = addresses.tcp(addresses.route_towards(host) or "?", port)
            python = options.python or sys.executable
            words = [python, *program[1:]] if program[0] == sys.executable else program
            each = {rank: {own.RANK: str(rank)} for rank in ranks}
            remote.start(number, words, os.getcwd(), shared, each, python)
            if 0 in ranks:
                Feeder(supervisor.loop, remote)

    return supervisor.run(start)


def _place(options: Options) -> dict[str, list[int]]:
    if options.hostfile is None:
        return {LOCAL: list(range(options.size))}
    from . import hosts

    try:
        found = hosts.read(options.hostfile)
    except (OSError, ValueError) as error:
        raise LaunchError(f"--hostfile {options.hostfile}: {error}") from None
    options.size = options.size or sum(count for _, count in found)
    return hosts.place(found, options.size)


def _listen(supervisor: Supervisor) -> int:
    """Ranks on other hosts join by TCP."""
    listener = addresses.listen_tcp()
    port = int(listener.getsockname()[1])
    supervisor.server.listen(listener, addresses.tcp("0.0.0.0", port))
    return port


def command(program: list[str]) -> list[str]:
    """The words to execute: Python's programs by the Python that runs here, with the options that it was given."""
    if not _is_python(program[0]):
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
        sys.path.insert(1, environment.AS_MPI4PY)
    threaded.run(options.size, options.program, timeout=options.timeout, grace=options.grace, tag=options.tag)


def _is_python(first: str) -> bool:
    if first in ("-m", "-c") or first.endswith(_PYTHON_ENDINGS) or os.path.isdir(first):
        return True
    from shutil import which

    return which(first) is None


def _cover(environ: MutableMapping[str, str], as_mpi4py: bool) -> None:
    why_not = environment.cover(environ, as_mpi4py)
    if why_not is not None:
        raise LaunchError(why_not)


def _environment(options: Options, job: str, secret: str, servers: list[str]) -> dict[str, str]:
    environ = dict(os.environ)
    environ.pop(JOINED, None)
    environ[own.JOB] = job
    environ[own.SIZE] = str(options.size)
    environ[own.SECRET] = secret
    environ[own.SERVERS] = ",".join(servers)
    if options.size > 1 and sys.stdout.isatty():
        environ["PYTHONUNBUFFERED"] = "1"  # what ranks print comes through a pipe, and should appear as on a terminal
    if options.device:
        environ["FASTSOCK_MPJ_DEVICE"] = options.device
    _cover(environ, options.as_mpi4py)
    return environ
