"""The command: ``fastsock run [options] PROGRAM [arguments]``, also as ``python -m fastsock run``; ``fastsock doctor``.

It runs any program with fast sockets. A Python program gets what `python -m fastsock.launcher` gives. Any other gets
the preloaded library (core/preload), and so do all children that are no Python.
"""

from __future__ import annotations

import os
import sys

from .config import LAUNCHED, ConfigError, reload
from .launcher import UsageError, answer, become, parse, refuse
from .launching import children, preloading, programs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from .config import Settings

USAGE = """\
usage: fastsock run [options] [--] PROGRAM [arguments]
                                 | app.py [arguments] | -m module [arguments] | -c code [arguments]

Runs a program of any language with fast sockets, and what it starts too.

  --stats[=FILE]      at exit, say what each connection used and why, on standard error,
                      or as lines of JSON appended to FILE
  --transports PATHS  the paths to try, best first, as shm,tcp; or those to leave out, as ^shm
  --config FILE       rules: connect|listen host[/prefix] port|first-last|* paths
  --trace             tell every decision on standard error
  --no-children       the program alone: what it starts runs without
  --help, --version

       fastsock doctor [--] PROGRAM [arguments]

Says what `fastsock run` would do with that. Exit status 0: the program gets fast sockets; 1: it runs on plain TCP;
2: there is no such program. `fastsock doctor` alone: which paths work here, and how fast they are.
"""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line ``arguments`` (default: ``sys.argv[1:]``). Becomes the program.

    Exits with 2, and a text on standard error, if the command line or a setting cannot be used.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words in (["--help"], ["-h"]):
        answer("--help", USAGE)
    if words == ["--version"]:
        answer("--version")
    if words[:1] == ["doctor"]:
        _examine(words[1:])
    if words[:1] != ["run"]:
        _refuse(f"there is no command {words[0]}\n\n{USAGE}" if words else USAGE)
    try:
        changes, program = parse(words[1:])
    except UsageError as error:
        _refuse(f"{error}\n\n{USAGE}")
    if program in (["--help"], ["--version"]):
        answer(program[0], USAGE)
    os.environ.pop(children.CHILDREN, None)
    os.environ.update(changes)
    try:
        settings = reload()
    except ConfigError as error:
        _refuse(f"{error}\n")
    for name in ("FASTSOCK_CONFIG", "FASTSOCK_STATS"):  # children may run in other folders
        if os.environ.get(name, "-") not in ("", "-"):
            os.environ[name] = os.path.abspath(os.environ[name])
    _become(program, settings)


def _become(program: list[str], settings: Settings) -> NoReturn:
    if not children.can_cover():
        _refuse(f"{children.BOOTSTRAP} has a colon in its path, and cannot stand in PYTHONPATH; install it elsewhere\n")
    start = programs.found(program)
    if start is None:
        _refuse(f"there is no program {program[0]}\n")
    path, command = start
    try:
        preloading.cover(os.environ)
        preloading.hand_on_rules(settings, os.environ)
    except preloading.CannotPreload as error:
        _refuse(f"{error}\n")
    children.cover(os.environ)
    os.environ[LAUNCHED] = str(os.getpid())
    if path != sys.executable:
        obstacle = programs.obstacle(path)
        if obstacle is not None:
            sys.stderr.write(f"fastsock run: {obstacle}\n")
    become(path, command)


def _examine(words: list[str]) -> NoReturn:
    """`fastsock doctor`. Without a program it is `python -m fastsock.doctor`."""
    if words in (["--help"], ["-h"]):
        answer("--help", USAGE)
    if not words or (words[0].startswith("--") and words[0] != "--"):
        become(sys.executable, [sys.executable, "-m", "fastsock.doctor", *words])
    try:
        lines, enters = programs.told(words[1:] if words[0] == "--" and words[1:] else words)
    except LookupError as error:
        refuse(f"{error.args[0]}; for a host and a port: python -m fastsock.doctor HOST PORT\n", "fastsock doctor")
    print("\n".join(lines))
    sys.exit(0 if enters else 1)


def _refuse(text: str) -> NoReturn:
    refuse(text, "fastsock run")


if __name__ == "__main__":
    main()
