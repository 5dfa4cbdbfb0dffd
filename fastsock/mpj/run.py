"""Run a program as the ranks of one job: ``python -m fastsock.mpj.run -n 4 app.py``."""

from __future__ import annotations

import os
import sys

from .runner.options import Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

_MODULE = "fastsock.mpj.run"
_USAGE = """\
usage: {name} [options] [--] app.py [arguments]
       {room}             | -m module [arguments]
       {room}             | -c code [arguments]
       {room}             | program [arguments]

Starts N ranks of a program. They find each other by `from fastsock.mpj import MPI`.

  -n N                 how many ranks (default 1, or as many as the host file has places)
  --hostfile FILE      start them on these hosts, by ssh: lines of host, host:4 or host slots=4
  --python PATH        the Python of the other hosts (default: where this one is)
  --device NAME        how messages travel: iodev (default), ibvdev (RDMA), sysvdev, or smpdev: ranks are threads
  --as-mpi4py          `from mpi4py import MPI` means fastsock.mpj, in child Pythons too
  --timeout SECONDS    end all ranks after that time; the exit status is 124 then
  --tag-output         begin each line that a rank prints with its number
  --keep-going         the others go on when a rank fails; they hear of it (see docs: recovery)
  --grace SECONDS      how long the others may go on after a rank has failed (default 2); they are told at once
  --help, --version
"""

_FLAGS = {"--tag-output": "tag", "--as-mpi4py": "as_mpi4py", "--keep-going": "keep_going"}
_DEVICES = ("iodev", "ibvdev", "smpdev", "sysvdev")


def usage(name: str = f"python [python options] -m {_MODULE}") -> str:
    """The help, of a command of that name."""
    return _USAGE.format(name=name, room=" " * len(name))


class UsageError(Exception):
    """A command line that cannot be understood; the text says why."""


def parse(arguments: Sequence[str]) -> Options:
    """Return the options of a command line. Raises UsageError.

    `program` is ["--help"] or ["--version"] where that is asked for.
    """
    options = Options()
    rest = list(arguments)
    while rest and rest[0].startswith("-") and rest[0] not in ("--", "-m", "-c"):
        name, equals, value = rest.pop(0).partition("=")

        def needed(name: str = name, equals: str = equals, value: str = value) -> str:
            if equals:
                return value
            if not rest:
                raise UsageError(f"{name} needs a value")
            return rest.pop(0)

        if name in ("-n", "-np"):
            options.size = int(_number(name, needed(), int))
        elif name == "--device":
            options.device = needed()
            if options.device not in _DEVICES:
                raise UsageError(f"there is no device {options.device!r}; there are {', '.join(_DEVICES)}")
        elif name == "--hostfile":
            options.hostfile = needed()
        elif name == "--python":
            options.python = needed()
        elif name == "--timeout":
            options.timeout = _number(name, needed(), float)
        elif name == "--grace":
            options.grace = _number(name, needed(), float)
        elif name in _FLAGS:
            if equals:
                raise UsageError(f"{name} takes no value")
            setattr(options, _FLAGS[name], True)
        elif name in ("-h", "--help", "--version"):
            options.program = ["--help" if name == "-h" else name]
            return options
        else:
            raise UsageError(f"there is no option {name}")
    if rest and rest[0] == "--":
        del rest[0]
    if not rest:
        raise UsageError("there is no program to run")
    if rest[0] in ("-m", "-c") and len(rest) == 1:
        raise UsageError(f"{rest[0]} needs a value")
    options.program = rest
    return options


def _number(name: str, text: str, kind: type[int] | type[float]) -> int | float:
    try:
        number = kind(text)
    except ValueError:
        raise UsageError(f"{name} {text}: not a number") from None
    if not 0 < number < 1e9:
        raise UsageError(f"{name} {text}: must be more than 0")
    return number


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command line (default: ``sys.argv[1:]``); exit with the status of the first rank that failed, else with 0.

    A command line that cannot be understood is explained on standard error; the exit status is 2.
    """
    try:
        options = parse(sys.argv[1:] if arguments is None else arguments)
    except UsageError as error:
        sys.stderr.write(f"python -m {_MODULE}: {error}\n\n{usage()}")
        sys.exit(2)
    if options.program == ["--help"]:
        print(usage(), end="")
        sys.exit(0)
    if options.program == ["--version"]:
        import fastsock

        print(f"fastsock {fastsock.__version__}")
        sys.exit(0)
    run(options)


def run(options: Options) -> NoReturn:
    """Run the ranks and exit as the first that failed does: with 2 where they cannot be started."""
    from .runner import checking, launch

    try:
        status = launch.run(options)
    except checking.LaunchError as error:
        sys.stderr.write(f"{options.name}: {error}\n")
        sys.exit(error.status)
    if status > 0 and not options.as_mpi4py:
        hint = checking.hint(options)
        if hint is not None:
            sys.stderr.write(f"{options.name}: {hint}\n")
    if status < 0:  # as a parent expects of an interrupted program
        import signal  # it imports much

        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    # Nothing is left to do that the end of the process does not do.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
