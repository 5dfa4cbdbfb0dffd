"""From a command line to running ranks."""

from __future__ import annotations

import binascii
import os
import sys

from ...launcher import interpreter_options
from ...xxdev import hello
from ...xxdev.job import JOINED, addresses, own
from . import environment
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
    if options.device == "smpdev":
        _run_threads(options)
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

    def start() -> None:
        nothing = os.open(os.devnull, os.O_RDONLY)
        for rank in range(options.size):
            own_part = {own.RANK: str(rank)}
            supervisor.local.start(rank, program, environ | own_part, None, 0 if rank == 0 else nothing)
        os.close(nothing)

    return supervisor.run(start)


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
    environ[own.INTERFACE] = "127.0.0.1"
    if options.size > 1 and sys.stdout.isatty():
        environ["PYTHONUNBUFFERED"] = "1"  # what ranks print comes through a pipe, and should appear as on a terminal
    if options.device:
        environ["FASTSOCK_MPJ_DEVICE"] = options.device
    _cover(environ, options.as_mpi4py)
    return environ
