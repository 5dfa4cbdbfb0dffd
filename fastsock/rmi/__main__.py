"""python -m fastsock.rmi list: the daemons of this user on this host, their objects, and who is connected to them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .client import listing


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 1 where a daemon did not answer."""
    parser = argparse.ArgumentParser(prog="python -m fastsock.rmi", description=__doc__)
    parser.add_argument("command", choices=["list"])
    parser.parse_args(arguments)
    daemons, problems = listing.daemons()
    if not daemons and not problems:
        print("no daemon of this user has registered an object on this host")
    for status in daemons:
        print("\n".join(listing.lines(status)))
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
