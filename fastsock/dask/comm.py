"""A connection as dask sees it: messages are Python objects. Each error is a CommClosedError that names both ends."""

from __future__ import annotations

import asyncio
import logging
import weakref

import dask
from distributed.comm.core import Comm, CommClosedError
from distributed.comm.tcp import set_tcp_timeout
from distributed.comm.utils import from_frames, to_frames
from distributed.protocol.utils import host_array
from distributed.utils import ensure_memoryview

from .small import is_small
from .stream import FrameStream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..socket import socket

logger = logging.getLogger(__name__)


class FastComm(Comm):
    """A comm over one socket of fastsock. Made in the event loop that will use it.

    sock: connected and non-blocking; the comm owns it. The addresses have their scheme.
    """

    max_shard_size: int = dask.utils.parse_bytes(dask.config.get("distributed.comm.shard"))

    def __init__(self, sock: socket, local_addr: str, peer_addr: str, deserialize: bool = True) -> None:
        super().__init__(deserialize=deserialize)
        self._local_addr = local_addr
        self._peer_addr = peer_addr
        self._closed = False
        loop = asyncio.get_running_loop()
        self.stream = FrameStream(sock, loop, host_array)
        set_tcp_timeout(self)  # dask's setting, for the path between hosts
        self._finalizer = weakref.finalize(self, _close_dangling, self.stream, loop, repr(self))
        self._finalizer.atexit = False

    @property
    def local_address(self) -> str:
        return self._local_addr

    @property
    def peer_address(self) -> str:
        return self._peer_addr

    @property
    def socket(self) -> socket:
        """Its socket, for set_tcp_timeout() and those who ask for its path."""
        return self.stream.sock

    def closed(self) -> bool:
        return self._closed or self.stream.is_over()

    async def read(self, deserializers: Any = None) -> Any:
        """The next message. Raises CommClosedError."""
        if self._closed:
            raise self._error("this end closed the connection")
        try:
            frames = await self.stream.read()
        except (OSError, EOFError) as error:
            self.abort()
            raise self._error(error) from error
        except BaseException:  # cancelled, for example: where the next message begins is not known any more
            self.abort()
            raise
        try:
            return await from_frames(
                frames, deserialize=self.deserialize, deserializers=deserializers, allow_offload=self.allow_offload
            )
        except EOFError as error:
            self.abort()
            raise self._error(f"a message could not be read: {error!r}") from error

    async def write(self, msg: Any, serializers: Any = None, on_error: str = "message") -> int:
        """Begins to send a message; its bytes. Raises CommClosedError."""
        if self._closed:
            raise self._error("this end closed the connection")
        frames = await to_frames(
            msg,
            allow_offload=self.allow_offload and not is_small(msg),
            serializers=serializers,
            on_error=on_error,
            context={"sender": self.local_info, "recipient": self.remote_info, **self.handshake_options},
            frame_split_size=self.max_shard_size,
        )
        try:
            return self.stream.write(
                [frame if isinstance(frame, (bytes, bytearray)) else ensure_memoryview(frame) for frame in frames]
            )
        except OSError as error:
            self.abort()
            raise self._error(error) from error
        except BaseException:  # what has been sent is not known
            self.abort()
            raise

    def _error(self, error: object) -> CommClosedError:
        text = f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else error
        return CommClosedError(f"in {self!r} on path {self.socket.transport}: {text}")

    async def close(self) -> None:
        """Sends what waits to be sent, then closes."""
        if not self._closed:
            self._closed = True
            self._finalizer.detach()
            await self.stream.close()

    def abort(self) -> None:
        """Closes at once."""
        self._closed = True
        self._finalizer.detach()
        self.stream.abort()


def _close_dangling(stream: FrameStream, loop: asyncio.AbstractEventLoop, text: str) -> None:
    """A comm that nobody closed is gone. The collector runs in any thread."""
    if not stream.is_over():
        logger.warning("Closing dangling comm %s", text)
    if loop.is_running() and asyncio._get_running_loop() is not loop:
        try:
            loop.call_soon_threadsafe(stream.abort)
            return
        except RuntimeError:  # it was closed meanwhile
            pass
    stream.abort()
