"""TLS over a socket of fastsock, without giving up its path: records pass through memory.

Reading and writing may happen in two threads at once, as a connection does it. OpenSSL's object is used by one thread
at a time, and never while its bytes wait for the other end.
"""

from __future__ import annotations

import ssl
from _socket import MSG_DONTWAIT
from _thread import allocate_lock
from collections.abc import Callable
from typing import Any

RECORD = 1 << 14  # bytes that are encrypted at once
READ = 1 << 16


class SecuredSocket:
    """What a connection uses of a socket, with TLS between.

    server_name: whom the certificate must name, at the connecting end. Errors are those of the socket, and ssl.SSLError
    (an OSError) where the other end's certificate or records are refused.
    """

    def __init__(self, sock: Any, context: ssl.SSLContext, server_name: str | None = None) -> None:
        self.beneath = sock  # whose path the records take
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_name is None, server_hostname=server_name
        )
        self._lock = allocate_lock()
        self._sending = allocate_lock()
        self._unsent = bytearray()  # records that found no room
        self._owed = 0  # bytes of the caller's that these records hold
        self.fileno = sock.fileno
        self.setsockopt = sock.setsockopt
        self.setblocking = sock.setblocking
        self.settimeout = sock.settimeout
        self.gettimeout = sock.gettimeout
        self.getsockname = sock.getsockname

    @property
    def transport(self) -> str:
        """What carries the records."""
        return f"{self.beneath.transport} with TLS"

    def shake_hands(self, left: Callable[[], float]) -> None:
        """The connecting end's first step. left: gives the seconds that it may still take, or raises TimeoutError."""
        while True:
            self.settimeout(left())
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._flush()
                self._receive_more(0)
        self._flush()

    def buffered(self) -> bool:
        """Whether bytes can be read that the kernel does not know of."""
        return self._tls.pending() > 0 or self._incoming.pending > 0

    def recv(self, count: int, flags: int = 0) -> bytes:
        """As that of a socket."""
        memory = bytearray(count)
        return bytes(memory[: self.recv_into(memory, 0, flags)])

    def recv_into(self, buffer: Any, count: int = 0, flags: int = 0) -> int:
        """As that of a socket. At the accepting end the handshake happens here."""
        while True:
            try:
                with self._lock:
                    return self._tls.read(count or len(buffer), buffer)  # type: ignore[return-value]
            except ssl.SSLWantReadError:
                pass
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return 0
            except ssl.SSLError:
                self._flush_if_possible()  # the alert tells the other end why
                raise
            self._flush_if_possible()
            self._receive_more(flags)

    def _receive_more(self, flags: int) -> None:
        data = self.beneath.recv(READ, flags)
        with self._lock:
            if data:
                self._incoming.write(data)
            else:
                self._incoming.write_eof()

    def send(self, data: Any, flags: int = 0) -> int:
        """As that of a socket. After BlockingIOError the same bytes must be given again."""
        if not self._owed:
            with self._lock:
                self._owed = self._tls.write(data[:RECORD])
        self._flush(flags)
        sent, self._owed = self._owed, 0
        return sent

    def sendmsg(self, parts: Any, ancillary: Any = (), flags: int = 0) -> int:
        """As that of a socket: what fits one record goes together. The rule of send() holds."""
        first = parts[0]
        if self._owed or len(first) >= RECORD or len(parts) == 1:
            return self.send(first, flags)
        together = bytearray()
        for part in parts:
            together += part[: RECORD - len(together)]
            if len(together) == RECORD:
                break
        return self.send(together, flags)

    def sendall(self, data: Any) -> None:
        """As that of a socket."""
        view = memoryview(data)
        while view:
            view = view[self.send(view) :]

    def _flush(self, flags: int = 0) -> None:
        """Sends the records that are ready, in order. Raises BlockingIOError where there is no room: the rest stays."""
        with self._sending:
            while True:
                with self._lock:
                    self._unsent += self._outgoing.read()
                if not self._unsent:
                    return
                sent = self.beneath.send(self._unsent, flags)
                del self._unsent[:sent]

    def _flush_if_possible(self) -> None:
        if self._outgoing.pending and not self._sending.locked():  # else who sends takes them along
            try:
                self._flush(MSG_DONTWAIT)
            except BlockingIOError:  # a later send takes them along
                return

    def close(self) -> None:
        """Closes the socket."""
        self.beneath.close()
