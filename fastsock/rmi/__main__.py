"""python -m fastsock.rmi list: the daemons of this user on this host, their objects, and who is connected to them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from . import addresses
from .connecting import Options, reach, status_of
from .errors import RmiError


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 1 where a daemon did not answer."""
    parser = argparse.ArgumentParser(prog="python -m fastsock.rmi", description=__doc__)
    parser.add_argument("command", choices=["list"])
    parser.parse_args(arguments)
    places: dict[tuple[str, int], list[str]] = {}
    code = 0
    for name in addresses.names_here():
        try:
            places.setdefault(addresses.resolve(name), []).append(name)
        except RmiError as error:
            print(f"rmi:{name}: {error}")
            code = 1
    if not places and not code:
        print("no daemon of this user has registered an object on this host")
    for (host, port), names in places.items():
        try:
            session = reach(host, port, Options())
            try:
                tell(status_of(session))
            finally:
                session.close()
        except (RmiError, OSError) as error:
            print(f"{host}:{port} ({', '.join(names)}): {error}")
            code = 1
    return code


def tell(status: dict[str, Any]) -> None:
    """Prints what a daemon says of itself."""
    print(f"process {status['process']} at {status['address']}")
    for name, kind in sorted(status["objects"].items()):
        print(f"    rmi:{name}  {kind}")
    for each in status["connections"]:
        print(
            f"    from {each['peer']} by {each['path']}: {each['frames']} messages, {each['bytes_received']} bytes in,"
            f" {each['bytes_sent']} out, {each['seconds']:.0f} s; holds {', '.join(each['objects']) or 'nothing'}"
        )
    for each in status.get("kept", ()):
        print(f"    lost from {each['peer']}: {', '.join(each['objects'])} kept for {each['seconds']:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
