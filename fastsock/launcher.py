"""Run a program with fast sockets, unchanged: ``python -m fastsock.launcher app.py``.

The launcher sets the environment that covers child Pythons (launching/children.py), and C code and programs of other
languages (launching/preloading.py). Then it becomes the very
command that the user would have typed without it: the same process, with the same interpreter options. So
the program cannot tell the difference: Python itself runs it.

Where that is impossible, the program runs inside the launcher's process (launching/inprocess.py). Under
``-I``, ``-E`` or ``-S`` Python would not look at the environment. A debugger, a profiler or a coverage tool
that runs the launcher would be lost.
"""

from __future__ import annotations

import os
import sys

from .config import LAUNCHED, ConfigError
from .launching import children, preloading
from .launching.options import interpreter_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

USAGE = """\
usage: python [python options] -m fastsock.launcher [options] [--] app.py [arguments]
                                                             | -m module [arguments]
                                                             | -c code [arguments]
                                                             | - [arguments]

Runs a Python program with fast sockets, and what it starts too.

  --stats[=FILE]      at exit, say what each connection used and why, on standard error,
                      or as lines of JSON appended to FILE
  --transports PATHS  the paths to try, best first, as rdma,shm; or those to leave out, as ^shm
  --config FILE       rules: connect|listen host[/prefix] port|first-last|* paths
  --trace             tell every decision on standard error
  --no-children       the program alone: what it starts runs without
  --help, --version
"""

_MODULE = "fastsock.launcher"
_WITH_VALUE = {"--transports": "FASTSOCK_TRANSPORTS", "--config": "FASTSOCK_CONFIG"}


class UsageError(Exception):
    """A command line cannot be understood. The text says why."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line ``arguments`` (default: ``sys.argv[1:]``).

    Returns only if the program ran inside this process. Exits with 2, and a text on standard error, if the
    command line or a setting cannot be used.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        changes, program = parse(arguments)
    except UsageError as error:
        refuse(f"{error}\n\n{USAGE}")
    if program in (["--help"], ["--version"]):
        answer(program[0])
    with_children = children.CHILDREN not in changes
    os.environ.pop(children.CHILDREN, None)
    os.environ.update(changes)
    from .config import reload

    try:
        settings = reload()
    except ConfigError as error:
        refuse(f"{error}\n")
    os.environ[LAUNCHED] = str(os.getpid())
    options = _replaceable()
    if options is not None:
        children.cover(os.environ)
        preloading.cover_where_possible(settings, os.environ)
        become(sys.executable, [sys.orig_argv[0], *options, *program])
    from .launching import inprocess

    os.environ.pop(children.CHILDREN, None)
    inprocess.run(program, children=with_children)


def parse(arguments: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Split a command line into changes of the environment and the program's part.

    The program's part is ``["--help"]`` or ``["--version"]`` if the user asks for that. Raises UsageError if
    an option is unknown, a value is missing, or there is no program.
    """
    changes: dict[str, str] = {}
    rest = list(arguments)
    while rest and rest[0].startswith("--") and rest[0] != "--":
        name, equals, value = rest.pop(0).partition("=")
        if name in _WITH_VALUE:
            if not equals:
                if not rest:
                    raise UsageError(f"{name} needs a value")
                value = rest.pop(0)
            changes[_WITH_VALUE[name]] = os.path.abspath(value) if name == "--config" else value
        elif name == "--stats":
            changes["FASTSOCK_STATS"] = os.path.abspath(value) if value not in ("", "-") else "-"
        elif name == "--trace" and not equals:
            changes["FASTSOCK_TRACE"] = "1"
        elif name == "--no-children" and not equals:
            changes[children.CHILDREN] = "0"
        elif name in ("--help", "--version") and not equals:
            return {}, [name]
        else:
            raise UsageError(f"there is no option {name}")
    if rest and rest[0] == "-h":
        return {}, ["--help"]
    if rest and rest[0] == "--":
        del rest[0]
    if not rest:
        raise UsageError("there is no program to run")
    first = rest[0]
    if first in ("-m", "-c"):
        if len(rest) == 1:
            raise UsageError(f"{first} needs a value")
    elif first.startswith("-") and first != "-" and first[:2] not in ("-m", "-c"):
        raise UsageError(f"{first} is no option here; options of Python stand before -m {_MODULE}")
    return changes, rest


def _replaceable() -> list[str] | None:
    """The interpreter's options if this process is only the launcher and can be replaced, else None."""
    options, module = interpreter_options(sys.orig_argv)
    flags = sys.flags
    if module != _MODULE or not sys.executable or not children.can_cover():
        return None
    if flags.ignore_environment or flags.no_site or _observed():
        return None
    return options


def _observed() -> bool:
    """Whether a debugger, profiler or coverage tool watches this process."""
    if sys.gettrace() is not None or sys.getprofile() is not None:
        return True
    monitoring = getattr(sys, "monitoring", None)  # since Python 3.12
    return monitoring is not None and any(monitoring.get_tool(number) is not None for number in range(6))


def become(path: str, command: list[str]) -> NoReturn:
    """Replace this process by the program at `path`. Where the system refuses, exit with 2 and a text."""
    environ = _environment_at_start(os.environ)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        if sys.platform == "win32":
            _wait_for(path, command, environ)
        os.execve(path, command, environ)
    except OSError as error:
        refuse(f"{path} could not be started: {error.strerror}\n")


def _wait_for(path: str, command: list[str], environ: dict[str, str]) -> NoReturn:
    """Windows replaces no process: there an exec ends this one, and the shell goes on beside the program."""
    import signal
    import subprocess

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the program gets it, too
    sys.exit(subprocess.run(command, executable=path, env=environ, check=False).returncode)


def _environment_at_start(environ: os._Environ[str]) -> dict[str, str]:
    """A copy without the LC_CTYPE that Python sets for itself in the C locale.

    With it the next Python would see a UTF-8 locale, and would not switch its UTF-8 mode on.
    """
    copy = dict(environ)
    if sys.flags.utf8_mode and "LC_CTYPE" in copy:
        try:
            with open("/proc/self/environ", "rb") as file:
                given = file.read().split(b"\0")
        except OSError:
            return copy
        del copy["LC_CTYPE"]
        for entry in given:
            name, _, value = entry.partition(b"=")
            if name == b"LC_CTYPE":
                copy["LC_CTYPE"] = os.fsdecode(value)
    return copy


def answer(option: str, usage: str = USAGE) -> NoReturn:
    """What --version and --help print."""
    if option == "--version":
        import fastsock

        print(f"fastsock {fastsock.__version__}")
    else:
        print(usage, end="")
    sys.exit(0)


def refuse(text: str, command: str = f"python -m {_MODULE}") -> NoReturn:
    """Exit with 2 and the text, which ends a line, on standard error."""
    sys.stderr.write(f"{command}: {text}")
    sys.exit(2)


if __name__ == "__main__":
    main()
