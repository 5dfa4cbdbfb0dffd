"""The command line of the doctor."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, NoReturn

from .examine import examine
from .report import colours_for, lines

if TYPE_CHECKING:
    from collections.abc import Sequence


INTERRUPTED = 130  # as a shell tells of a program that Ctrl-C has ended


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line ``arguments`` (default: ``sys.argv[1:]``), print, and exit."""
    parser = argparse.ArgumentParser(
        prog="python -m fastsock.doctor",
        description="Tells which paths work here and how fast they are, and what to do about those that do not.",
    )
    run(arguments, parser)


def run(arguments: Sequence[str] | None, parser: argparse.ArgumentParser) -> NoReturn:
    """The same with a parser that has no options yet."""
    parser.add_argument("host", nargs="?", metavar="HOST", help="connect there and say which path that takes")
    parser.add_argument("port", nargs="?", metavar="PORT", type=_port)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--no-measure", dest="measure", action="store_false", help="do not measure the paths")
    options = parser.parse_args(arguments)
    if (options.host is None) != (options.port is None):
        parser.error("give both HOST and PORT, or neither")
    try:
        findings = examine(options.host, options.port, measuring=options.measure)
        if options.json:
            print(json.dumps(findings, indent=2))
        else:
            print("\n".join(lines(findings, colours_for(sys.stdout))))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    sys.exit(0 if findings["healthy"] else 1)


def _port(text: str) -> int:
    port = int(text) if text.isascii() and text.isdigit() else 0
    if not 0 < port < 65536:
        raise argparse.ArgumentTypeError(f"{text} is no port; write a number from 1 to 65535")
    return port


if __name__ == "__main__":
    main()
