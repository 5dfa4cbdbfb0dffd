"""`fastsock run`: any program with fast sockets.

A Python program gets what `python -m fastsock.launcher` gives. Any other gets the preloaded library (core/preload), and
so do all children that are no Python.
"""

from __future__ import annotations

import os
import sys

from ..config import LAUNCHED, ConfigError, reload
from ..launcher import UsageError, become, parse
from ..launching import children, preloading, programs
from .words import print_help_or_version, refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from ..config import Settings

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

It ends as the program does.
"""


def usage() -> str:
    return USAGE


def main(words: Sequence[str]) -> NoReturn:
    """Becomes the program."""
    try:
        changes, program = parse(words)
    except UsageError as error:
        _refuse(f"{error}\n\n{USAGE}")
    if program in (["--help"], ["--version"]):
        print_help_or_version(program[0], USAGE)
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
    if sys.platform == "linux":
        try:
            preloading.cover(os.environ)
            preloading.hand_on_rules(settings, os.environ)
        except preloading.CannotPreload as error:
            _refuse(f"{error}\n")
    else:
        sys.stderr.write(f"fastsock run: the program runs on plain TCP: {preloading.ELSEWHERE}\n")
    children.cover(os.environ)
    os.environ[LAUNCHED] = str(os.getpid())
    if path != sys.executable and sys.platform == "linux":
        obstacle = programs.obstacle(path)
        if obstacle is not None:
            sys.stderr.write(f"fastsock run: {obstacle}\n")
    become(path, command)


def _refuse(text: str) -> NoReturn:
    refuse(text, "fastsock run")
