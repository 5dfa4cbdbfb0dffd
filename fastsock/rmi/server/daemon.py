"""The accepting end: a daemon listens, proves the key with whoever connects, and runs what is called."""

from __future__ import annotations

import _socket
import asyncio
import errno
import threading
import weakref
from _thread import allocate_lock
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ... import socket as fast
from ...config import in_force
from ...connection import carriers
from ...core.binding._shown import ShownDaemon
from ...system.originals import originals
from ...system.patience import wait_for
from ...system.proof import HelloError
from ...system.starting import start_thread
from ..api.introspection import described
from ..client import addresses
from ..client.connecting import SERVICES, Options, check_context, named, names_setting, trusts_pickle
from ..client.reaching import place
from ..errors import ListenError, UnknownObject
from ..interrupts import Presses, either
from ..objects.exported import Exported, exported, source_of
from ..objects.session import Limits, Session, log
from ..threads.loops import call_in
from ..threads.workers import MOST_THREADS, Pool
from ..wire import hello
from ..wire._records import current
from ..wire.keys import key_of
from .leases import Leases
from .naming import Announcer

if TYPE_CHECKING:
    from collections.abc import Callable
    from ssl import SSLContext

HELLO_WITHIN = 10.0  # seconds
_IPV4_IN_IPV6 = bytes(10) + b"\xff\xff"
MOST_NAMED = 5  # calls that are named
MOST_STRANGERS = 256  # connections that have not proved the key yet


class Registered:
    """An object by its name."""

    __slots__ = ("exported", "instance", "interface", "listener", "made_by")

    def __init__(self, known: Exported | None, made_by: Any, interface: type | None, instance: str) -> None:
        self.exported = known
        self.made_by = made_by
        self.interface = interface
        self.instance = instance
        self.listener = -1


class Daemon:
    """Objects that other processes may call.

        with rmi.Daemon() as daemon:
            daemon.register(Store(), "store")
            daemon.serve()

    address: (host, port) to listen at: the loopback network and a free port unless given. key: in the place of the
    user's key file. threads: how many methods may run at once. tracebacks: whether callers are
    told where a method raised. trust="pickle": see `connect`. ssl: a context with a certificate; all connections then
    use TLS. lease: seconds that objects which went by reference outlive a lost connection, for its client to come back.
    names: host:port of the name server that is told what is registered, FASTSOCK_RMI_NAMES unless
    given; "" is none. Raises ListenError where it cannot listen at the address, Refused where there is no key.
    """

    def __init__(
        self,
        address: tuple[str, int] = ("127.0.0.1", 0),
        *,
        key: str | bytes | None = None,
        threads: int = MOST_THREADS,
        limits: Limits | None = None,
        tracebacks: bool = True,
        trust: str | None = None,
        ssl: SSLContext | None = None,
        lease: float = 0.0,
        names: str | None = None,
    ) -> None:
        check_context(ssl)
        if not isinstance(threads, int) or threads < 1:
            raise ValueError(f"threads is {threads!r}: give a number from 1 up")
        if not isinstance(lease, (int, float)) or not lease >= 0:
            raise ValueError(f"lease is {lease!r}: give seconds, or 0 for none")
        self._ssl = ssl
        self._leases = Leases(lease)
        self._key = key_of(key)
        self._limits = limits or Limits()
        self._tracebacks = tracebacks
        self._trust_pickle = trusts_pickle(trust)
        self._lock = allocate_lock()
        self._objects: dict[str, Registered] = {}
        self._sessions: set[Session] = set()
        self._left: weakref.WeakSet[Session] = weakref.WeakSet()  # those that ended: a call holds its own
        self._strangers: dict[Any, float] = {}
        self._closed = False
        self._started = False
        self._done = threading.Event()
        self._pool = Pool("fastsock.rmi.daemon", threads)
        self._services = Exported(_Services(self), SERVICES, "daemon")
        self._listener = _listen(address)
        self._listener.setblocking(False)
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        self._shown = _shown_at(*self.address)
        server = names_setting() if names is None else names
        self._announcer = Announcer(server, self.address, Options(key), ssl is not None) if server else None

    def __repr__(self) -> str:
        return f"<daemon at {self.address[0]}:{self.address[1]}: {', '.join(sorted(self._objects)) or 'no objects'}>"

    # ---- objects ----

    def register(
        self, target: Any, name: str, *, interface: type | None = None, instance: str = "single",
        metadata: dict[str, Any] | None = None, local: bool = True,
    ) -> str:  # fmt: skip
        """Registers an object, a class or a function by a name. Returns its address on this host.

        interface: a Protocol that lists what may be called. instance, of a class: "single" makes one now, "session" one
        for each connection, "call" one for each call. metadata: for the name server. local: False where it is to be
        found by host and port alone, so that several daemons of this user may have the name.

        Raises Refused where another process has the name, ValueError where this daemon has it, or another one at the
        name server, TypeError where nothing is exposed.
        """
        addresses.check_name(name)
        if metadata is not None and not isinstance(metadata, dict):
            raise TypeError(f"metadata is {metadata!r}: give a dict, or None")
        if isinstance(target, type) and instance == "session":
            entry = Registered(None, target, interface, instance)
            exported(target, name, interface, "call")  # whether it exposes something
        else:
            entry = Registered(exported(target, name, interface, instance), target, interface, instance)
        with self._lock:
            if self._closed:
                raise RuntimeError("the daemon is closed")
            if name in self._objects:
                raise ValueError(f"{name!r} is registered already: unregister it first")
            if local:
                entry.listener = addresses.listen(name)
            self._objects[name] = entry
            if self._started and local:
                self._announce(entry)
        if self._announcer is not None:
            try:
                self._announcer.add(name, metadata or {})
            except BaseException:
                self._take_back(name)
                raise
        return f"rmi:{name}"

    def unregister(self, name: str) -> None:
        """Takes an object back. Who has a proxy of it keeps that until its connection ends. Raises UnknownObject."""
        self._take_back(name)
        if self._announcer is not None:
            self._announcer.remove(name)

    def _take_back(self, name: str) -> None:
        with self._lock:
            entry = self._objects.pop(name, None)
        if entry is None:
            raise UnknownObject(f"{name!r} is not registered here")
        self._withdraw(entry)

    def _announce(self, entry: Registered) -> None:
        self._pool.watch(entry.listener, self._asked, entry)

    def _asked(self, entry: Registered) -> None:
        host, port = self.address
        with self._lock:  # else it could be closed meanwhile, and its number another socket's
            if entry.listener >= 0 and not self._closed:
                addresses.answer(entry.listener, _LOOPBACK.get(host, host), port)
                self._announce(entry)

    def _withdraw(self, entry: Registered) -> None:
        with self._lock:
            descriptor, entry.listener = entry.listener, -1
        if descriptor >= 0:
            self._pool.unwatch(descriptor)
            originals.close(descriptor)

    def lookup(self, name: str, *resumed: Any) -> tuple[Any, ...]:
        """What a connection calls first: the number of an object for that connection, and its interface.

        resumed: the token of a lease and what is held by it. Then a token and what is there again may follow.
        """
        entry = self._objects.get(name)
        if entry is None:
            raise UnknownObject(f"{name!r} is not registered at {self.address[0]}:{self.address[1]}")
        session: Session = current.get().connection.session
        known = entry.exported
        if known is None:
            known = exported(entry.made_by, name, entry.interface)
        lease = self._leases.begin(session, *resumed) if len(resumed) == 2 else None
        return session.references.enter(known), known.interface.described(), *(lease or ())

    def describe(self, name: str) -> tuple[Any, ...]:
        """The documentation and the signatures of an object, for a client that gave no interface."""
        entry = self._objects.get(name)
        if entry is None:
            raise UnknownObject(f"{name!r} is not registered at {self.address[0]}:{self.address[1]}")
        source, table = source_of(entry.made_by, entry.interface)
        return described(source, (each.name for each in table.entries))

    # ---- serving ----

    def start(self) -> Daemon:
        """Serves in threads, and returns. Idempotent."""
        with self._lock:
            if self._closed:
                raise RuntimeError("the daemon is closed")
            if self._started:
                return self
            self._started = True
            self._pool.watch(self._listener.fileno(), self._accept, None)
            for entry in self._objects.values():
                if entry.listener >= 0:
                    self._announce(entry)
        return self

    def serve(self) -> None:
        """Serves until close() is called elsewhere, Ctrl-C is pressed, or a signal handler raises something else.

        Ctrl-C closes the daemon, and serve() returns. It says which calls are waited for. The second Ctrl-C waits for
        none.
        """
        try:
            self.start()
            wait_for(self._done.wait)
        except KeyboardInterrupt:
            with suppress(KeyboardInterrupt):
                self._close(self._log_waiting)
            self._done.set()

    async def run(self) -> None:
        """As serve(), in an event loop: async methods run in this loop.

        A program that has a handler of its own for Ctrl-C is left to it.
        """
        loop = asyncio.get_running_loop()
        self._pool.use_loop(loop)
        self.start()
        try:
            with Presses(loop) as presses:
                if await either(loop.run_in_executor(None, self._done.wait), presses.next()):
                    return
                closed: asyncio.Future[None] = loop.create_future()
                if start_thread(self._close_for, loop, closed, name="fastsock.rmi.closing", for_program=True):
                    await either(closed, presses.next())
                else:
                    self._close(self._log_waiting)
        finally:
            self._done.set()

    def _close_for(self, loop: asyncio.AbstractEventLoop, closed: asyncio.Future[None]) -> None:
        self._close(self._log_waiting)
        call_in(loop, _settle, closed)

    def _log_waiting(self, seconds: float) -> None:
        """What is waited for after Ctrl-C."""
        calls = [each for session in list(self._left) for each in session.under_way()]
        more = f" and {len(calls) - MOST_NAMED} more" if len(calls) > MOST_NAMED else ""
        count = "1 call" if len(calls) == 1 else f"{len(calls)} calls"
        text = f"{count}: {', '.join(calls[:MOST_NAMED])}{more}" if calls else "streams"
        log.warning("waiting for %s, %.0f s at most; Ctrl-C again ends at once", text, seconds)

    def __enter__(self) -> Daemon:
        return self

    def __exit__(self, kind: type[BaseException] | None = None, *_: object) -> None:
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self._close(self._log_waiting)
        else:
            self.close()

    def close(self) -> None:
        """Ends all connections behind what was sent, and the threads. Idempotent."""
        self._close(lambda _: None)

    def _close(self, waits: Callable[[float], object]) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            objects, sessions = list(self._objects.values()), list(self._sessions)
            strangers = list(self._strangers)
        if self._shown is not None:
            self._shown.close()
        if self._announcer is not None:
            self._announcer.close()
        self._pool.unwatch(self._listener.fileno())
        self._leases.close()
        for entry in objects:
            self._withdraw(entry)
        self._listener.close()  # behind the names: who finds one finds a listener
        for stranger in strangers:
            stranger.leave()
        for session in sessions:
            session.close()
        self._pool.close(waits)
        self._done.set()

    def _accept(self, _: None) -> None:
        try:
            while True:
                sock, address = self._listener.accept()
                self._meet(sock, address)
        except BlockingIOError:
            pass
        except OSError as error:
            if not self._closed:
                log.warning("the daemon could not accept a connection: %s", error)
        with self._lock:
            if not self._closed:
                self._pool.watch(self._listener.fileno(), self._accept, None)

    def _meet(self, sock: Any, address: Any) -> None:
        now = originals.monotonic()
        for stranger, until in list(self._strangers.items()):
            if until < now:
                stranger.leave()
        if len(self._strangers) >= MOST_STRANGERS:
            sock.close()
            log.warning("refused a connection from %s: %d others have not proved the key yet", address, MOST_STRANGERS)
            return
        stranger = Stranger(self, sock, f"{address[0]}:{address[1]}")
        self._strangers[stranger] = now + HELLO_WITHIN
        stranger.go_on()

    def welcome(self, stranger: Stranger, other: hello.Other) -> None:
        """The key was proved: from now on frames are read."""
        sock = stranger.sock
        sock.setblocking(True)
        if other.takes_memory:
            carriers.attach_agreed(stranger.beneath)
        session = Session(
            sock,
            self._pool,
            stranger.peer,
            self._limits,
            named=named,
            version=other.version,
            accepted=True,
            trust_pickle=self._trust_pickle and other.trusts_pickle,
            tracebacks=self._tracebacks,
        )
        session.connection.exports[0] = self._services
        session.connection.shown = self._shown
        session.on_end.append(self._ended)
        with self._lock:
            if self._closed:
                sock.close()
                return
            self._sessions.add(session)
        self._show_connections()
        session.serve()

    def _ended(self, session: Session) -> None:
        self._left.add(session)
        self._sessions.discard(session)
        self._show_connections()

    def _show_connections(self) -> None:
        if self._shown is not None:
            self._shown.connected(len(self._sessions))


def _shown_at(host: str, port: int) -> ShownDaemon | None:
    """What `fastsock top` sees of a daemon there."""
    if not in_force.settings().shown:
        return None
    if ":" in host:
        packed = _socket.inet_pton(_socket.AF_INET6, host.partition("%")[0])
    else:
        packed = _IPV4_IN_IPV6 + _socket.inet_pton(_socket.AF_INET, host)
    return ShownDaemon(packed, port)


def _listen(address: tuple[str, int]) -> Any:
    """A listener at (host, port). Raises ListenError, TypeError."""
    host, port = address[:2] if isinstance(address, tuple) and len(address) >= 2 else (None, None)
    if not (isinstance(host, str) and isinstance(port, int)):
        raise TypeError(f"address is {address!r}: give (host, port), as ('0.0.0.0', 5000)")
    if not 0 <= port <= 0xFFFF:
        raise ListenError(f"the daemon cannot listen at {place(host, port)}: a port is a number up to 65535")
    family = _socket.AF_INET6 if ":" in host else _socket.AF_INET
    try:
        return fast.create_server(address, family=family, backlog=512)
    except (OSError, UnicodeError) as error:
        number = getattr(error, "errno", None)
        if number is not None and number < 0:  # of getaddrinfo
            why = f"the host {host!r} is unknown: give one of this host's addresses, or 0.0.0.0 for all"
        elif number == errno.EADDRINUSE:
            why = "another program listens there: give another port, or 0 for any that is free"
        elif number == errno.EADDRNOTAVAIL:
            why = f"{host} is no address of this host: give one of its own, or 0.0.0.0 for all"
        else:
            why = str(getattr(error, "strerror", None) or error)
        refused = ListenError(f"the daemon cannot listen at {place(host, port)}: {why}")
        refused.errno = number
        raise refused from error


def _settle(closed: asyncio.Future[None]) -> None:
    if not closed.done():
        closed.set_result(None)


class Stranger:
    """A connection during its hello. Only what the hello asks for is read."""

    def __init__(self, daemon: Daemon, sock: Any, peer: str) -> None:
        self.beneath = sock  # of TLS, where that is
        if daemon._ssl is not None:
            from ..wire.secured import SecuredSocket  # OpenSSL, where it is wanted

            sock = SecuredSocket(sock, daemon._ssl)
        self.sock = sock
        self.peer = peer
        self._daemon = daemon
        self._end = hello.Acceptor(daemon._key, daemon._trust_pickle, carriers.takes_memory(self.beneath))
        sock.setblocking(False)
        sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        self._waits = carriers.carrier_of(self.beneath)
        self._descriptor = carriers.own_number(self.beneath)

    def go_on(self, _: None = None) -> None:
        """Reads what is there."""
        end, sock = self._end, self.sock
        try:
            while not end.done:
                data = sock.recv(end.needed)
                if not data:
                    raise HelloError("it closed the connection during the hello")
                try:
                    answer = end.feed(data)
                except HelloError as error:
                    if error.reply:
                        sock.send(error.reply)
                    raise
                if answer and sock.send(answer) != len(answer):
                    raise HelloError("it takes no answer")
        except BlockingIOError:
            if self._waits is not None and self._waits.settle():  # it came meanwhile
                self._daemon._pool.submit(self.go_on)
            else:
                self._daemon._pool.watch(self._descriptor, self.go_on, None, lambda: self in self._daemon._strangers)
            return
        except OSError as error:
            log.warning("refused a connection from %s: %s", self.peer, error)
            self.leave()
            return
        if self._daemon._strangers.pop(self, None) is not None:
            self._daemon._pool.unwatch(self._descriptor)
            assert end.other is not None
            self._daemon.welcome(self, end.other)

    def leave(self) -> None:
        """Closes the connection. Of several threads one does it."""
        if self._daemon._strangers.pop(self, None) is not None:
            self._daemon._pool.unwatch(self._descriptor)
            self.sock.close()


class _Services:
    """What a connection may call of the daemon itself."""

    def __init__(self, daemon: Daemon) -> None:
        self.lookup = daemon.lookup
        self.describe = daemon.describe
        self._daemon = daemon

    def status(self) -> dict[str, Any]:
        """What `python -m fastsock.rmi list` shows."""
        daemon = self._daemon
        return {
            "process": originals.getpid(),
            "address": f"{daemon.address[0]}:{daemon.address[1]}",
            "objects": {
                name: (entry.made_by if isinstance(entry.made_by, type) else type(entry.made_by)).__qualname__
                for name, entry in list(daemon._objects.items())
            },
            "connections": [session.as_values() for session in list(daemon._sessions)],
            "kept": daemon._leases.as_values(),
        }


_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}
