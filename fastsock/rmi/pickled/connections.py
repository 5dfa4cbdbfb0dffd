"""Listener and Client as those of multiprocessing.connection, over sockets of fastsock: for managers.py."""

from __future__ import annotations

import _socket
import os
from multiprocessing import connection, util
from typing import Any

from ... import socket as fast
from ._messages import Connection

BACKLOG = 128
_plain: Any = connection


class Listener:
    """As multiprocessing.connection.Listener. Without an address it listens on the loopback network."""

    def __init__(self, address: Any = None, family: str | None = None, backlog: int = 1, authkey: bytes | None = None):
        self._authkey = authkey
        self._unlink: Any = None
        address = ("127.0.0.1", 0) if address is None else address
        if isinstance(address, (str, bytes)):
            self._sock = fast.socket(_socket.AF_UNIX)
            self._sock.bind(address)
            if address and address[:1] not in ("\0", b"\0"):
                self._unlink = util.Finalize(self, os.unlink, args=(address,), exitpriority=0)
        else:
            self._sock = fast.socket(_socket.AF_INET6 if ":" in address[0] else _socket.AF_INET)
            self._sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
            self._sock.bind(address)
        self._sock.listen(max(backlog, BACKLOG))
        self.address = self._sock.getsockname()
        self.last_accepted: Any = None

    def accept(self) -> Connection:
        """The next connection. Raises AuthenticationError where the key is wrong."""
        sock, self.last_accepted = self._sock.accept()
        return _made(sock, self._authkey, False)

    def close(self) -> None:
        """Idempotent."""
        self._sock.close()
        unlink, self._unlink = self._unlink, None
        if unlink is not None:
            unlink()


def Client(address: Any, family: str | None = None, authkey: bytes | None = None) -> Connection:
    """As multiprocessing.connection.Client."""
    if isinstance(address, (str, bytes)):
        sock = fast.socket(_socket.AF_UNIX)
        try:
            sock.connect(address)
        except BaseException:
            sock.close()
            raise
    else:
        sock = fast.create_connection(address[:2])
    return _made(sock, authkey, True)


def _made(sock: Any, authkey: bytes | None, connecting: bool) -> Connection:
    made = Connection(sock)
    try:
        if sock.family != _socket.AF_UNIX:
            sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        if authkey is not None:
            if not isinstance(authkey, bytes):
                raise TypeError("authkey should be a byte string")
            steps = [_plain.answer_challenge, _plain.deliver_challenge]
            for step in steps if connecting else reversed(steps):
                step(made, authkey)
            made.settled()
    except BaseException:
        made.close()
        raise
    return made
