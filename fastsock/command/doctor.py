"""`fastsock doctor`: which paths work here, which one a connection takes, and what a program would get."""

from __future__ import annotations

from .words import parser, refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

_NAME = "fastsock doctor"
USAGE = """\
usage: fastsock doctor [--json] [--no-measure] [HOST PORT]
       fastsock doctor [--] PROGRAM [arguments]

Says which paths work here, and how fast they are. With HOST PORT: connects there, and says which path that takes.
With PROGRAM: says what `fastsock run` would do with it.

  --json              print JSON
  --no-measure        do not measure the paths
  --help, --version

Exit status 0: all is well, or the program gets fast sockets; 1: something is not as it should be, or the program runs
on plain TCP; 2: there is no such program, or the command line cannot be used.
"""


def usage() -> str:
    return USAGE


def main(words: Sequence[str]) -> int:
    if not words or (words[0].startswith("--") and words[0] != "--"):
        _of_this_machine(words)
    from ..launching import programs

    program = words[1:] if words[0] == "--" and words[1:] else words
    try:
        lines, enters = programs.described(program)
    except LookupError as error:
        if _is_address(words):
            _of_this_machine(words)
        refuse(f"{error.args[0]}; for a host and a port: {_NAME} HOST PORT\n", _NAME)
    print("\n".join(lines))
    return 0 if enters else 1


def _of_this_machine(words: Sequence[str]) -> NoReturn:
    from ..doctor import __main__ as machine

    machine.run(words, parser("doctor", usage=USAGE))


def _is_address(words: Sequence[str]) -> bool:
    host, *rest = words
    return bool(rest) and rest[0].isascii() and rest[0].isdigit() and host != "--"
