"""Connections as those of multiprocessing.connection, over sockets of fastsock: for managers.py.

A message is a header of 12 bytes (bytes of the pickle, number of buffers), the length of each buffer (8 bytes each),
the pickle, the buffers. The buffers are the memory of large arrays (pickle protocol 5): they go from where they lie,
and are received into fresh memory once.
"""

from __future__ import annotations

import _socket
import copyreg
import errno
import io
import os
import pickle
import select
import struct
import weakref
from collections import ChainMap
from multiprocessing import connection, reduction, util
from typing import Any

from .. import socket as fast

HEADER = struct.Struct("<QI")
LENGTH = struct.Struct("<Q")
BUFFER = 4096  # bytes from which on a buffer goes beside its pickle
KEPT = 1 << 16  # bytes of memory that are kept for the next message
BACKLOG = 128
MOST_BUFFERS = 1 << 20
_ROOM = bytes(HEADER.size)
_plain: Any = connection
_forking: Any = reduction.ForkingPickler
_copyreg: Any = copyreg
_reducers: Any = ChainMap(_forking._extra_reducers, _copyreg.dispatch_table)  # of what both know at any time


class _Pickler(pickle.Pickler):
    """As that of multiprocessing, which makes this table again for each message."""

    dispatch_table = _reducers


class Connection:
    """Whole messages over a socket: what managers use of multiprocessing's Connection. For one thread at a time."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self._memory = bytearray(KEPT)
        self._view = memoryview(self._memory)
        self._start = self._end = 0
        weakref.finalize(self, sock.close).atexit = False  # a thread that ends leaves its connection
        self.closed = False
        self.busy = False  # an exchange is under way: a finalizer of this thread must not begin another one


    def fileno(self) -> int:
        """The socket's descriptor."""
        return int(self._sock.fileno())

    def close(self) -> None:
        """Closes the socket. Idempotent."""
        self.closed = True
        self._sock.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def poll(self, timeout: float | None = 0.0) -> bool:
        """Whether something can be received, after `timeout` seconds at most."""
        if self._end > self._start:
            return True
        poller = select.poll()
        poller.register(self._sock.fileno(), select.POLLIN)
        return bool(poller.poll(None if timeout is None else timeout * 1000))

    def exchange(self, request: Any) -> Any:
        """Sends a message and receives one. What is raised between the two closes the connection: the answer that comes
        later would be taken for that of the next request."""
        self.busy = True
        try:
            message = self.pickled(request)
            try:
                self.send_pickled(*message)
                answer = self.receive()
            except BaseException:
                self.close()
                raise
            return loaded(*answer)
        finally:
            self.busy = False

    def send(self, value: Any) -> None:
        """Sends a value as a pickle. Raises what pickling raises, before a byte is sent."""
        self.send_pickled(*self.pickled(value))

    @staticmethod
    def pickled(value: Any) -> tuple[memoryview, list[memoryview]]:
        """What send_pickled() sends: the pickle behind room for the header, and its buffers."""
        buffers: list[memoryview] = []

        def beside(buffer: pickle.PickleBuffer) -> bool:
            raw = buffer.raw()
            if raw.nbytes < BUFFER:
                return True
            buffers.append(raw)
            return False

        file = io.BytesIO()
        file.write(_ROOM)
        _Pickler(file, 5, buffer_callback=beside).dump(value)
        return file.getbuffer(), buffers

    def send_pickled(self, whole: memoryview, buffers: list[memoryview]) -> None:
        """Sends what pickled() made."""
        HEADER.pack_into(whole, 0, len(whole) - HEADER.size, len(buffers))
        if not buffers:
            self._sock.sendall(whole)
            return
        self._sock.sendall(whole[: HEADER.size].tobytes() + b"".join(LENGTH.pack(each.nbytes) for each in buffers))
        self._sock.sendall(whole[HEADER.size :])
        for each in buffers:
            self._sock.sendall(each)

    def send_bytes(self, data: bytes) -> None:
        """Sends bytes as they are."""
        self._sock.sendall(HEADER.pack(len(data), 0) + data)

    def recv(self) -> Any:
        """Receives a value. Raises EOFError at the end, OSError where there is no memory for it, and what unpickling
        raises when the message was received whole."""
        return loaded(*self.receive())

    def receive(self) -> tuple[Any, list[bytearray]]:
        """What loaded() takes: a pickle, valid until the next call, and its buffers. Raises as recv()."""
        length, count = HEADER.unpack(self._read(HEADER.size))
        if not count:
            return self._read(length), []
        if count > MOST_BUFFERS:
            raise OSError(f"a message names {count} buffers")
        sizes = [LENGTH.unpack(self._read(LENGTH.size))[0] for _ in range(count)]
        body = bytes(self._read(length))
        return body, [self._fresh(size) for size in sizes]

    def recv_bytes(self, maxlength: int | None = None) -> bytes:
        """Receives bytes. Raises OSError where more come than `maxlength`, before they are read."""
        length, count = HEADER.unpack(self._read(HEADER.size))
        if count or (maxlength is not None and length > maxlength):
            self.close()
            raise OSError(f"a message of {length} bytes is longer than {maxlength}")
        return bytes(self._read(length))

    def _read(self, size: int) -> Any:
        """So many bytes: valid until the next call."""
        if size > KEPT:
            return self._fresh(size)
        if self._start + size > KEPT:
            rest = self._end - self._start
            self._memory[:rest] = self._memory[self._start : self._end]
            self._start, self._end = 0, rest
        while self._end - self._start < size:
            got = self._sock.recv_into(self._view[self._end :])
            if not got:
                raise EOFError
            self._end += got
        found = self._view[self._start : self._start + size]
        self._start += size
        if self._start == self._end:
            self._start = self._end = 0
        return found

    def _fresh(self, size: int) -> bytearray:
        """So many bytes, in memory of their own."""
        try:
            memory = bytearray(size)
        except (MemoryError, OverflowError) as error:  # the rest of the message would be taken for the next one
            self.close()
            raise OSError(errno.ENOMEM, f"no memory for {size} bytes of a message: the connection ends") from error
        view = memoryview(memory)
        have = min(self._end - self._start, size)
        view[:have] = self._view[self._start : self._start + have]
        self._start += have
        while have < size:
            got = self._sock.recv_into(view[have:])
            if not got:
                raise EOFError
            have += got
        return memory


def loaded(body: Any, buffers: list[bytearray]) -> Any:
    """The value of a message. Raises what unpickling raises."""
    return pickle.loads(body, buffers=buffers)


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
    except BaseException:
        made.close()
        raise
    return made
