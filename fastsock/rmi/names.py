"""A name server: daemons of other hosts tell it what they have, and clients ask it where an object is.

python -m fastsock.rmi.names --listen 0.0.0.0:6226

It is a plain daemon with one object. FASTSOCK_RMI_NAMES=host:6226 at both ends makes daemons tell it their names, and
`connect("rmi:name")` ask it for those that are not on this host. All need the same key.
"""

from __future__ import annotations

import argparse
import sys
from _thread import allocate_lock
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from .api.interfaces import expose
from .client import addresses
from .client.connecting import NAMES
from .errors import RmiError, UnknownObject
from .server.daemon import Daemon
from .wire._records import current

PORT = 6226  # IANA has assigned it to nobody


@expose
class Names:
    """Names, their addresses and their metadata. A name is kept as long as the connection that registered it."""

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._entries: dict[str, tuple[str, dict[str, Any], Any]] = {}

    def register(self, name: str, address: str, metadata: dict[str, Any] | None = None) -> None:
        """Enters a name. Raises ValueError for what is no name or address, and where another connection has it."""
        addresses.check_name(name)
        if not addresses.parse(address).host:
            raise ValueError(f"{address!r} names no host: write rmi://host:port/name")
        session = current.get().connection.session
        with self._lock:
            known = self._entries.get(name)
            if known is not None and known[2] is not session:
                raise ValueError(f"{name!r} is registered already, at {known[0]}")
            self._entries[name] = address, dict(metadata or {}), session
            if self._forget not in session.on_end:
                session.on_end.append(self._forget)

    def unregister(self, name: str) -> None:
        """Takes a name back. Raises UnknownObject where this connection has not registered it."""
        session = current.get().connection.session
        with self._lock:
            known = self._entries.get(name)
            if known is None or known[2] is not session:
                raise UnknownObject(f"{name!r} was not registered by this connection")
            del self._entries[name]

    def look_up(self, name: str) -> str:
        """The address of a name. Raises UnknownObject."""
        known = self._entries.get(name)
        if known is None:
            raise UnknownObject(f"no daemon has told this name server of {name!r}")
        return known[0]

    def entries(
        self, prefix: str = "", metadata: dict[str, Any] | None = None
    ) -> dict[str, tuple[str, dict[str, Any]]]:
        """Names that begin with `prefix` and have all this metadata: the address and the metadata of each."""
        wanted = (metadata or {}).items()
        with self._lock:
            return {
                name: (address, known)
                for name, (address, known, _) in sorted(self._entries.items())
                if name.startswith(prefix) and all(known.get(key) == value for key, value in wanted)
            }

    def _forget(self, session: Any) -> None:
        with self._lock:
            for name in [name for name, entry in self._entries.items() if entry[2] is session]:
                del self._entries[name]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Where to listen."""
    usual = f"127.0.0.1:{PORT}"
    parser.add_argument("--listen", metavar="ADDRESS", default=usual, help=f"host:port ({usual})")


def serve(listen: str, program: str) -> int:
    """Serves until it is interrupted. Returns the exit status: 2, with a line on standard error, where it cannot."""
    try:
        daemon = Daemon(addresses.host_and_port(listen), names="")
    except (RmiError, ValueError) as error:
        print(f"{program}: --listen {listen}: {error}", file=sys.stderr)
        return 2
    with suppress(KeyboardInterrupt), daemon:
        daemon.register(Names(), NAMES, local=False)
        print(f"name server at {daemon.address[0]}:{daemon.address[1]}", flush=True)
        daemon.serve()
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line, as serve()."""
    parser = argparse.ArgumentParser(prog="python -m fastsock.rmi.names", description=__doc__)
    add_options(parser)
    return serve(parser.parse_args(arguments).listen, parser.prog)


if __name__ == "__main__":
    sys.exit(main())
