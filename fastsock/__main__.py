"""The command: ``fastsock run [options] PROGRAM [arguments]``, also as ``python -m fastsock run``.

It runs any program with fast sockets. A Python program gets what `python -m fastsock.launcher` gives. Any other gets
the preloaded library (core/preload), and so do all children that are no Python.
"""

from __future__ import annotations

import os
import sys

from .config import LAUNCHED, ConfigError, reload
from .launcher import UsageError, answer, become, parse, refuse
from .launching import children, preloading

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
    path, command = _found(program)
    try:
        preloading.cover(os.environ)
        preloading.hand_on_rules(settings, os.environ)
    except preloading.CannotPreload as error:
        _refuse(f"{error}\n")
    children.cover(os.environ)
    os.environ[LAUNCHED] = str(os.getpid())
    if path != sys.executable:
        obstacle = preloading.obstacle(path)
        if obstacle is not None:
            sys.stderr.write(f"fastsock run: {obstacle}\n")
    become(path, command)


def _found(program: list[str]) -> tuple[str, list[str]]:
    """The file to start, and its words. Python's own words are for this Python."""
    first = program[0]
    if first[:2] in ("-m", "-c") or first == "-" or first.endswith((".py", ".pyz")):
        return sys.executable, [sys.executable, *program]
    path = preloading.which(first)
    if path is None:
        _refuse(f"there is no program {first}\n")
    return path, program


def _refuse(text: str) -> NoReturn:
    refuse(text, "fastsock run")


if __name__ == "__main__":
    main()
