"""The daemon's part in names that other hosts find: it tells a name server what it has, and again after a loss.

The server (names.py) keeps a name as long as the connection that brought it, so no name outlives its daemon.
"""

from __future__ import annotations

from _thread import allocate_lock
from typing import Any

from ...system.originals import originals
from ...system.starting import start_thread
from ..client import connecting
from ..errors import RmiError
from ..objects.session import log

AGAIN_AFTER = 2.0  # seconds between two tries to reach a server that is gone
_WILDCARDS = ("0.0.0.0", "::")


class Announcer:
    """What one daemon tells one name server.

    server: host:port. address: (host, port) where the daemon listens. secured: whether with TLS.
    """

    def __init__(
        self, server: str, address: tuple[str, int], options: connecting.Options, secured: bool = False
    ) -> None:
        self._server = server
        self._scheme = "rmis" if secured else "rmi"
        self._address = address
        self._options = options
        self._lock = allocate_lock()
        self._registered: dict[str, dict[str, Any]] = {}
        self._session: Any = None
        self._names: Any = None
        self._closed = False
        self._registers_again = False  # a thread is about to

    def add(self, name: str, metadata: dict[str, Any]) -> None:
        """Tells the server of an object. Raises what a call raises, ValueError where another daemon has the name."""
        with self._lock:
            self._connect()
            self._register(name, metadata)
            self._registered[name] = metadata

    def remove(self, name: str) -> None:
        """The object is there no more."""
        with self._lock:
            self._registered.pop(name, None)
            if self._session is not None and self._session.connection.lost is None:
                self._names.unregister(name)

    def close(self) -> None:
        """The server forgets all names of this daemon. Idempotent."""
        self._closed = True
        session = self._session
        if session is not None:
            session.close()

    def _connect(self) -> None:
        if self._session is not None and self._session.connection.lost is None:
            return
        self._names, self._session = connecting.names_at(self._server, self._options)
        self._session.on_end.append(self._lost)
        self._session.serve()  # nobody waits on this connection: a thread sees its end

    def _register(self, name: str, metadata: dict[str, Any]) -> None:
        host, port = self._address
        if host in _WILDCARDS:
            host = self._session.sock.getsockname()[0]  # the address by which the server's network is reached
        host = f"[{host}]" if ":" in host else host
        self._names.register(name, f"{self._scheme}://{host}:{port}/{name}", metadata)

    def _lost(self, _: Any) -> None:
        if self._closed or self._registers_again:
            return
        self._registers_again = True
        if not start_thread(self._register_all, name="fastsock.rmi.naming"):
            self._registers_again = False
            log.warning("the name server %s will not be told again: no more threads", self._server)

    def _register_all(self) -> None:
        originals.sleep(AGAIN_AFTER)
        self._registers_again = False
        try:
            with self._lock:
                if self._closed:
                    return
                self._connect()
                for name, metadata in self._registered.items():
                    self._register(name, metadata)
        except (RmiError, OSError, ValueError) as error:
            log.warning("the name server %s could not be told again: %s", self._server, error)
            self._lost(None)
