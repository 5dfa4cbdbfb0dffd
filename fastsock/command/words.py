"""What the subcommands say, in one style: help on standard output, mistakes on standard error with exit status 2."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser
    from typing import NoReturn

MISTAKE = 2


def answer(text: str) -> NoReturn:
    """Print the text, which ends a line, and exit."""
    sys.stdout.write(text)
    sys.exit(0)


def print_help_or_version(option: str, usage: str) -> NoReturn:
    """What --version and --help print."""
    if option == "--version":
        import fastsock

        answer(f"fastsock {fastsock.__version__}\n")
    answer(usage)


def refuse(text: str, command: str = "fastsock") -> NoReturn:
    """Exit with 2 and the text, which ends a line, on standard error."""
    sys.stderr.write(f"{command}: {text}")
    sys.exit(MISTAKE)


def parser(command: str, does: str = "", more: str | None = None, usage: str | None = None) -> ArgumentParser:
    """An argparse parser whose mistakes look as those of `run` and `ranks`. usage: the help as a text."""
    from argparse import ArgumentParser

    class Parser(ArgumentParser):
        def error(self, message: str) -> NoReturn:
            refuse(f"{message}\n\n{usage or self.format_help()}", self.prog)

    return Parser(prog=f"fastsock {command}", description=does, epilog=more, allow_abbrev=False)
