"""A port: where a group of ranks waits for another one. Its name says where it listens, and carries a token."""

from __future__ import annotations

import binascii
import contextlib
import os
import select
from collections import deque

from fastsock.system.forkable import new_lock
from fastsock.system.originals import originals
from fastsock.xxdev import hello
from fastsock.xxdev.job import addresses

from .line import ACCEPTS, CONNECTS, ROLE

_TOKEN_BYTES = 16
_WAKE_FLAGS = os.EFD_NONBLOCK | os.EFD_CLOEXEC
_MOST_STRANGERS = 128
_HELLO_SECONDS = 30.0
_CONNECT_SECONDS = 20.0
_PATIENT = 20 * 24 * 3600.0  # about the longest time that a socket can wait
_LOOK_MS = 1000  # how often the patience with strangers is looked at


class PortError(OSError):
    """A port cannot be used: the text says why."""


class Port:
    """Listens from its making to its `close`. Only who knows its name gets in. Raises OSError."""

    def __init__(self, ip: str) -> None:
        self._listener = addresses.listen_tcp(ip)
        self.token = originals.urandom(_TOKEN_BYTES)
        host, number = self._listener.getsockname()[:2]
        host = f"[{host}]" if ":" in host else host
        self.name = f"{host}:{number}:{binascii.hexlify(self.token).decode()}"
        self._wake = originals.eventfd(0, _WAKE_FLAGS)
        self._waking = new_lock()
        self._accepting = new_lock()
        self._strangers: dict[int, _Stranger] = {}
        self._known: deque[addresses.Raw] = deque()  # who proved themselves, and were not accepted yet
        self._closed = False

    def accept(self) -> addresses.Raw:
        """The next connection by somebody who knows the token. Raises PortError once the port is closed."""
        with self._accepting:
            poller = self._poller()
            while not self._known:
                self._hear_all(poller, _LOOK_MS if self._strangers else None)
            return self._known.popleft()

    def accept_at_once(self) -> addresses.Raw | None:
        """The same, but None where nobody has connected, or another thread accepts. Raises PortError."""
        if not self._accepting.acquire(blocking=False):
            return None
        try:
            if not self._known:
                self._hear_all(self._poller(), 0)
            return self._known.popleft() if self._known else None
        finally:
            self._accepting.release()

    def cancel(self) -> None:
        """Lets the thread that waits in accept() go. Nothing happens where the port is closed."""
        with self._waking:
            if self._wake >= 0:
                originals.eventfd_write(self._wake, 1)

    def close(self) -> None:
        """Nobody is accepted any more. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self.cancel()
        with self._accepting:
            self._listener.close()
            for stranger in self._strangers.values():
                stranger.sock.close()
            for sock in self._known:
                sock.close()
            self._strangers.clear()
            self._known.clear()
        with self._waking:  # the number may become another descriptor's
            originals.close(self._wake)
            self._wake = -1

    def _poller(self) -> select.poll:
        if self._closed:
            raise PortError("the port was closed")
        poller = originals.poll()
        for number in (self._wake, self._listener.fileno(), *self._strangers):
            poller.register(number, select.POLLIN)
        return poller

    def _hear_all(self, poller: select.poll, wait_ms: int | None) -> None:
        ready = [number for number, _ in poller.poll(wait_ms)]
        if self._closed:
            raise PortError("the port was closed")
        for number in ready:
            if number == self._wake:
                originals.eventfd_read(self._wake)
                raise PortError("nobody waits at the port any more")
            if number == self._listener.fileno():
                self._greet(poller)
            else:
                self._hear(number, poller)
        self._drop_silent(poller)

    def _greet(self, poller: select.poll) -> None:
        while (sock := addresses.accept(self._listener)) is not None:
            if len(self._strangers) >= _MOST_STRANGERS:
                sock.close()
                continue
            self._strangers[sock.fileno()] = _Stranger(sock, self.token)
            poller.register(sock.fileno(), select.POLLIN)

    def _hear(self, number: int, poller: select.poll) -> None:
        stranger = self._strangers[number]
        if stranger.hear():
            return
        poller.unregister(number)
        del self._strangers[number]
        if stranger.end.done:
            self._known.append(stranger.sock)
        else:
            stranger.sock.close()

    def _drop_silent(self, poller: select.poll) -> None:
        now = originals.monotonic()
        for number, stranger in list(self._strangers.items()):
            if stranger.until < now:
                poller.unregister(number)
                del self._strangers[number]
                stranger.sock.close()


class _Stranger:
    """A connection whose hello is not over."""

    def __init__(self, sock: addresses.Raw, token: bytes) -> None:
        self.sock = sock
        self.end = hello.Acceptor({ROLE: hello.Party(token, ROLE, ACCEPTS, 2)})
        self.until = originals.monotonic() + _HELLO_SECONDS

    def hear(self) -> bool:
        """Whether more is to come."""
        try:
            data = self.sock.recv(self.end.needed)
            if not data:
                return False
            self.sock.sendall(self.end.feed(data))  # short: the kernel takes it at once
        except BlockingIOError:
            return True
        except hello.HelloError as error:
            with contextlib.suppress(OSError):
                self.sock.sendall(error.reply)
            return False
        except OSError:
            return False
        return not self.end.done


def connect(name: str) -> tuple[addresses.Raw, bytes]:
    """A connection to whoever accepts at the port of that name, and its token. Raises PortError."""
    host, token = _parse(name)
    try:
        sock = addresses.connect([f"tcp:{host}"], _CONNECT_SECONDS, retry=False)
    except OSError as error:
        raise PortError(
            f"nothing listens at port {host} ({error}): it was closed, or its program has ended, or its host cannot be "
            "reached from here"
        ) from None
    try:
        # whoever opened the port may accept much later: as long as its kernel holds the connection, it is waited for
        hello.connect(sock, secret=token, job=ROLE, rank=CONNECTS, peer=ACCEPTS, role=ROLE, timeout=_PATIENT)
    except BaseException as error:
        sock.close()
        if isinstance(error, OSError):
            raise PortError(f"port {host} was closed, or is another's by now: {error}") from None
        raise
    return sock, token


def _parse(name: str) -> tuple[str, bytes]:
    host, colon, token = name.rpartition(":")
    try:
        if not colon or len(token) != 2 * _TOKEN_BYTES:
            raise ValueError
        addresses.split_host(host, "a port's name")
        return host, binascii.unhexlify(token)
    except (ValueError, OSError):
        raise PortError(f"{name!r} is no name of a port: Open_port gives one, host:port:token") from None
