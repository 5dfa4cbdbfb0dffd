"""numpy arrays: fastsock's typed framing, pickles over TCP, multiprocessing.connection over TCP."""

from __future__ import annotations

import pickle
import struct
import time
from multiprocessing import connection
from typing import Any

from ..process import Unusable
from .peer import Peer, warm_up
from .stream_sockets import TcpPeer

LENGTH = struct.Struct("!Q")


class Arrays:
    """Ping-pong and stream of float64 arrays; a peer adds ``_put`` and ``_get``. Sizes are bytes of payload."""

    def _put(self, array: Any) -> None:
        raise NotImplementedError

    def _get(self) -> Any:
        raise NotImplementedError

    def ping(self, size: int, count: int) -> float:
        array = self._prepare(size)
        self._there_and_back(array, warm_up(size, count))
        start = time.perf_counter()
        self._there_and_back(array, count)
        return time.perf_counter() - start

    def pong(self, size: int, count: int) -> None:
        array = self._prepare(size)
        for _ in range(warm_up(size, count) + count):
            self._get()
            self._put(array)

    def send(self, size: int, count: int) -> float:
        array = self._prepare(size)
        self._one_way(array, warm_up(size, count))
        start = time.perf_counter()
        self._one_way(array, count)
        return time.perf_counter() - start

    def receive(self, size: int, count: int) -> None:
        array = self._prepare(size)
        for messages in (warm_up(size, count), count):
            for _ in range(messages):
                self._get()
            self._put(array)

    def _prepare(self, size: int) -> Any:
        try:
            import numpy
        except ImportError as error:
            raise Unusable(f"needs numpy: {error}") from error
        array = numpy.arange(size // 8, dtype=numpy.float64)
        self.into = numpy.zeros_like(array)
        return array

    def _there_and_back(self, array: Any, count: int) -> None:
        for _ in range(count):
            self._put(array)
            self._get()

    def _one_way(self, array: Any, count: int) -> None:
        for _ in range(count):
            self._put(array)
        self._get()


class PickleTcp(Arrays, TcpPeer):
    """What programs do today: the pickle's length, the pickle, on a plain TCP socket."""

    def __init__(self) -> None:
        super().__init__("pickle over tcp")

    def _put(self, array: Any) -> None:
        data = pickle.dumps(array, pickle.HIGHEST_PROTOCOL)
        self.socket.sendall(LENGTH.pack(len(data)))
        self.socket.sendall(data)

    def _get(self) -> Any:
        head = bytearray(LENGTH.size)
        self._rest(memoryview(head), 0)
        data = bytearray(LENGTH.unpack(head)[0])
        self._rest(memoryview(data), 0)
        return pickle.loads(data)


class FastArrays(Arrays, TcpPeer):
    """send_array, received into a new array or, with ``into``, into one that is there.

    ``direct_from``: bytes from which an array may be read out of the sender instead; 0 for never.
    ``read``: the receiver looks at each element once.
    """

    def __init__(self, name: str, path: str, into: bool, direct_from: int | None = None, read: bool = False) -> None:
        super().__init__(name, client="fast", server="fast", path=path)
        self.reuse, self.read = into, read
        if direct_from is not None:
            self.environment = {**self.environment, "FASTSOCK_DIRECT_MIN": str(direct_from)}

    def _put(self, array: Any) -> None:
        self.socket.send_array(array)

    def _get(self) -> Any:
        array = self.socket.recv_array_into(self.into) if self.reuse else self.socket.recv_array()
        if self.read:
            array.sum()
        return array


class HandedBuffers(Arrays, TcpPeer):
    """Registered buffers, handed over. ``nbytes``: their size, where it is not that of the message."""

    def __init__(self, name: str, path: str = "shm", nbytes: int | None = None, read: bool = False) -> None:
        super().__init__(name, client="fast", server="fast", path=path)
        self.nbytes, self.read = nbytes, read

    def accept(self) -> None:
        super().accept()
        self._expect()

    def connect(self, address: Any) -> None:
        super().connect(address)
        self._expect()

    def _expect(self) -> None:
        try:
            from fastsock import buffers

            buffers.expect(self.socket)
        except (ImportError, NotImplementedError) as error:
            raise Unusable(f"no registered buffers here: {error}") from error
        self.library = buffers

    def _prepare(self, size: int) -> Any:
        nbytes = self.nbytes or size
        if getattr(self, "buffer", None) is None or self.buffer.nbytes != nbytes:
            self.buffer = self.library.RegisteredBuffer(nbytes)
            self.buffer.view("f8")[:] = 1.0
        return self.buffer

    def _put(self, array: Any) -> None:
        self.library.send_buffer(self.socket, array)

    def _get(self) -> Any:
        received = self.library.recv_buffer(self.socket)
        if self.read:
            received.view("f8").sum()
        received.release()


class ConnectionTcp(Arrays, Peer):
    """multiprocessing.connection.Client and Listener on 127.0.0.1."""

    name = "mp.connection over tcp"

    def listen(self) -> Any:
        self.listener = connection.Listener(("127.0.0.1", 0))
        return self.listener.address

    def accept(self) -> None:
        self.connection = self.listener.accept()

    def connect(self, address: Any) -> None:
        self.connection = connection.Client(tuple(address))

    def _put(self, array: Any) -> None:
        self.connection.send(array)

    def _get(self) -> Any:
        return self.connection.recv()
