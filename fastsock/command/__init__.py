"""The command `fastsock`: a file for each of its subcommands.

main() looks at the first word and imports that subcommand alone: `fastsock run` becomes a program, and must not pay for
the others. So `run` and `ranks` read their options by hand, and argparse is imported by the others only. A subcommand
has two functions: usage() gives its help, main() does it and gives the exit status.

Exit status of all of them: 0; 1 where what was asked for is not well (each says what that means); 2 where the command
line or a setting cannot be used; 130 where Ctrl-C ended it. `run` and `ranks` end as their programs do.

Tests: tests/command.
"""

from __future__ import annotations

import importlib
import sys

from .table import COMMANDS, usage
from .words import print_help_or_version, refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line `arguments` (default: ``sys.argv[1:]``), and exit."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words in (["--help"], ["-h"], ["--version"]):
        print_help_or_version(words[0], usage())
    if not words:
        refuse(usage())
    name, *rest = words
    if name not in COMMANDS:
        refuse(f"there is no {'option' if name.startswith('-') else 'command'} {name}\n\n{usage()}")
    if sys.platform != "linux" and not COMMANDS[name].everywhere:
        refuse(f"the command {name} needs Linux, and this is {sys.platform}\n")
    command = importlib.import_module(f"{__name__}.{COMMANDS[name].module}")
    if rest in (["--help"], ["-h"], ["--version"]):
        print_help_or_version(rest[0], command.usage())
    try:
        status = command.main(rest)
        sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # as of `fastsock list | head`
        from os import devnull, dup2, open

        dup2(open(devnull, 1), 1)
        sys.exit(0)
    sys.exit(status)
