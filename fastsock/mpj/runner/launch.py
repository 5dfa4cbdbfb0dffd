"""From a command line to running ranks."""

from __future__ import annotations

import binascii
import os
import sys

from ...launcher import interpreter_options
from ...xxdev import hello
from ...xxdev.job import JOINED, addresses, own
from .supervisor import Supervisor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..run import Options

_PYTHON_ENDINGS = (".py", ".pyw", ".pyc", ".pyz")


def run(options: Options) -> int:
    """Start the ranks and wait for them; the exit status, negative for a signal."""
    job = f"run-{os.uname().nodename}-{os.getpid()}-{binascii.hexlify(os.urandom(4)).decode()}"
    secret = hello.new_secret()
    supervisor = Supervisor(
        size=options.size, job=job, secret=secret, grace=options.grace, timeout=options.timeout, tag=options.tag
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
    first = program[0]
    if not (first in ("-m", "-c") or first.endswith(_PYTHON_ENDINGS) or os.path.isdir(first)):
        from shutil import which

        if which(first) is not None:
            return program
    options, _ = interpreter_options(sys.orig_argv)
    return [sys.executable, *options, *program]


def _environment(options: Options, job: str, secret: bytes, servers: list[str]) -> dict[str, str]:
    environ = dict(os.environ)
    environ.pop(JOINED, None)
    environ[own.JOB] = job
    environ[own.SIZE] = str(options.size)
    environ[own.SECRET] = secret.hex()
    environ[own.SERVERS] = ",".join(servers)
    environ[own.INTERFACE] = "127.0.0.1"
    if options.device:
        environ["FASTSOCK_MPJ_DEVICE"] = options.device
    return environ
