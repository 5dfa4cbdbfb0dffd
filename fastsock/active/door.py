"""Where other processes find this one's endpoints: one listener, and one thread that accepts, for all of a process.

On one host a name is asked of whoever has it (meeting/user_names.py), which tells the listener's address. From another
host the address is given, and the name travels in the hello. The connections go through `fastsock.socket`, so two
processes of one host share memory.
"""

from __future__ import annotations

import _socket
import os
import select
import threading
from _thread import allocate_lock
from typing import Any, Protocol

from .. import socket as fast
from ..connection import carriers
from ..meeting import user_names
from ..system import proof
from ..system.originals import originals
from ..system.starting import start_thread
from ..system.user_key import key_of
from .errors import Refused
from .hello import Acceptor, Connector, Terms, Wanted

SERVICE = "active/1"
HELLO_WITHIN = 10.0  # seconds
MOST_HELLOS = 16  # connections that have not proved the key yet; more wait in the listener's queue


class Mapped(Protocol):
    """An endpoint, as its door sees it."""

    def terms(self, wanted: Wanted) -> Terms:
        """What is granted. Raises HelloError where it refuses."""

    def accepted(self, sock: Any, peer: str, most_there: int) -> None:
        """Somebody mapped it."""


class Door:
    """The listener of a process, and the names of its endpoints.

    address: host and port to listen at; port 0 is any. key: in the place of the user's key file. A door begins to
    listen with the first name.
    """

    def __init__(self, address: tuple[str, int] = ("127.0.0.1", 0), key: str | bytes | None = None) -> None:
        self._wanted = address
        self._given_key = key
        self._names: dict[str, tuple[Mapped, int]] = {}  # by name: whose, and its abstract listener
        self._lock = allocate_lock()
        self._hellos = threading.BoundedSemaphore(MOST_HELLOS)
        self._leaving: list[tuple[int, threading.Event]] = []  # the thread closes them: it may be polling them
        self._listener: Any = None
        self._bell = -1
        self._closed = False

    @property
    def key(self) -> bytes:
        """The key that both ends prove."""
        return key_of(self._given_key)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port at which it listens. Raises OSError."""
        with self._lock:
            self._open()
        host, port = self._listener.getsockname()[:2]
        return host, port

    def register(self, name: str, endpoint: Mapped) -> None:
        """Others can map the endpoint by this name from now on. Raises Refused where another process has the name."""
        user_names.check(name)
        _ = self.key  # refused here rather than with the first who connects
        with self._lock:
            if name in self._names:
                raise Refused(f"this process has an endpoint of the name {name!r} already")
            self._open()
            try:
                listener = user_names.listen(SERVICE, name)
            except OSError as error:
                raise Refused(f"the name {name!r} cannot be registered: another process has it, or {error}") from error
            self._names[name] = endpoint, listener
        self._ring()

    def unregister(self, name: str) -> None:
        """Nobody can map it by this name any more. Connections that exist stay."""
        with self._lock:
            found = self._names.pop(name, None)
            if found is None:
                return
            gone = threading.Event()
            self._leaving.append((found[1], gone))
        self._ring()
        gone.wait()

    def close(self) -> None:
        """Ends all names, the listener and the thread."""
        with self._lock:
            if self._closed or self._listener is None:
                self._closed = True
                return
            self._closed = True
            names = list(self._names)
        for name in names:
            self.unregister(name)
        self._ring()

    # ---- the thread ----

    def _open(self) -> None:
        if self._closed:
            raise Refused("this door is closed")
        if self._listener is None:
            host = self._wanted[0]
            family = _socket.AF_INET6 if ":" in host else _socket.AF_INET
            self._listener = fast.create_server(self._wanted, family=family, backlog=128)
            self._bell = originals.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            if not start_thread(self._serve, name="fastsock.active"):
                self._stop_listening()
                raise Refused("nobody can find endpoints here: this process can start no more threads")

    def _stop_listening(self) -> None:
        self._listener.close()
        self._listener = None
        originals.close(self._bell)
        self._bell = -1

    def _ring(self) -> None:
        with self._lock:
            if self._bell >= 0:
                originals.eventfd_write(self._bell, 1)

    def _serve(self) -> None:
        host, port = self._listener.getsockname()[:2]
        answer = f"{_REACHED_AT.get(host, host)} {port}"
        while True:
            poller = originals.poll()
            with self._lock:
                for listener, gone in self._leaving:
                    originals.close(listener)
                    gone.set()
                self._leaving.clear()
                if self._closed and not self._names:
                    self._listener.close()
                    originals.close(self._bell)
                    self._bell = -1
                    return
                names = [listener for _, listener in self._names.values()]
                for number in (self._bell, self._listener.fileno(), *names):
                    poller.register(number, select.POLLIN)
            ready = {number for number, _ in poller.poll()}
            if self._bell in ready:
                originals.read(self._bell, 8)
                continue  # the names may be others now
            with self._lock:
                for _, listener in self._names.values():
                    if listener in ready:
                        user_names.answer(listener, answer)
            if self._listener.fileno() in ready:
                self._accept()

    def _accept(self) -> None:
        self._hellos.acquire()
        try:
            sock, where = self._listener.accept()
        except OSError:  # it has left
            self._hellos.release()
            return
        if not start_thread(self._meet, sock, where, name="fastsock.active hello"):
            self._meet(sock, where)  # the others wait, but not for long

    def _meet(self, sock: Any, where: Any) -> None:
        admitted: list[Mapped] = []  # whoever is admitted stays, also when the name goes before this thread goes on

        def admit(wanted: Wanted) -> Terms:
            found = self._names.get(wanted.name)
            if found is None:
                raise proof.HelloError(f"no endpoint has the name {wanted.name!r}")
            admitted.append(found[0])
            return found[0].terms(wanted)

        try:
            end = Acceptor(self.key, admit, carriers.takes_memory(sock))
            proof.drive(sock, end, b"", HELLO_WITHIN)
            sock.settimeout(None)
            if end.agreed:
                carriers.attach_agreed(sock)
            assert end.wanted is not None
            admitted[0].accepted(sock, f"{where[0]}:{where[1]}", end.wanted.most_bulk)
        except Exception:  # a stranger, or no memory: only that connection ends
            sock.close()
        finally:
            self._hellos.release()


_REACHED_AT = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # from this host


def find(name: str, within: float = user_names.ANSWERS_WITHIN) -> tuple[str, int]:
    """Where the process listens that has the name on this host. Raises Refused, TimeoutError."""
    try:
        answer = user_names.ask(SERVICE, name, within)
    except user_names.Silent as error:
        raise TimeoutError(f"cannot map {name!r}: {error}") from error
    except (user_names.Unknown, user_names.NotOwn) as error:
        raise Refused(f"cannot map {name!r}: {error}") from error
    host, _, port = answer.rpartition(" ")
    return host, int(port)


def connect(address: tuple[str, int], wanted: Wanted, key: bytes, until: float) -> tuple[Any, Terms]:
    """A connection to the endpoint, made until a time, after both ends proved the key. Raises Refused, OSError."""
    what = f"{wanted.name!r} at {address[0]}:{address[1]}"
    try:
        sock: Any = fast.create_connection(address, timeout=_left(until))
    except OSError as error:
        why = _why(error, "its host does not answer")
        raise _described(error, f"cannot map {what}: no connection (tcp): {why}") from error
    try:
        sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        end = Connector(key, wanted, carriers.takes_memory(sock))
        try:
            proof.drive(sock, end, end.start(), _left(until))
        except proof.HelloError as error:
            raise Refused(f"{what}: {error}") from error
        except OSError as error:
            why = _why(error, "it took the connection and did not answer the hello: it is stopped, or no endpoint's")
            raise _described(error, f"cannot map {what} ({sock.transport}): {why}") from error
        sock.settimeout(None)
        if end.agreed:
            carriers.attach_agreed(sock)
    except BaseException:
        sock.close()
        raise
    assert end.terms is not None
    return sock, end.terms


def _left(until: float) -> float:
    return max(until - originals.monotonic(), 0.001)


def _why(error: OSError, late: str) -> str:
    return late if isinstance(error, TimeoutError) else error.strerror or str(error)


def _described(error: OSError, text: str) -> OSError:
    """An error of the same class, which says what was tried."""
    described = type(error)(text)
    described.errno = error.errno
    return described


_own: Door | None = None
_own_lock = allocate_lock()


def own() -> Door:
    """The door that endpoints share unless their bundle has another. It listens on the loopback."""
    global _own
    with _own_lock:
        if _own is None:
            _own = Door()
        return _own


def _forked() -> None:
    global _own
    _own = None  # its thread is not here
    _own_lock._at_fork_reinit()  # type: ignore[attr-defined]


os.register_at_fork(after_in_child=_forked)
