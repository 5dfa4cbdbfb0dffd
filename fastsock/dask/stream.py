"""Messages of frames over one socket of fastsock, in an asyncio loop."""

from __future__ import annotations

import asyncio
import selectors
from collections import deque

from ..patching import polling
from ..system.delivering import deliver, deliver_at_exit
from .framing import Assembler, pack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..socket import socket
    from .framing import Frame

_MOST_BUFFERS = 64  # of one send
_MOST_AT_ONCE = 8 << 20  # bytes before the loop's other work has its turn


class FrameStream:
    """Sends and receives lists of frames. One task may read at a time. All calls are made in the loop's thread.

    sock: connected and non-blocking; the stream owns it.  allocate(bytes) -> memory for what is received.

    What waits to be sent is kept here, without a limit: write() never waits, as that of dask's tcp:// comm.
    Large frames are sent from where they lie: they must stay as they are until flush() returns.
    """

    def __init__(self, sock: socket, loop: asyncio.AbstractEventLoop, allocate: Callable[[int], memoryview]) -> None:
        self.sock = sock
        self._loop = loop
        self._descriptor = sock.fileno()
        selector = getattr(loop, "_selector", None)
        if isinstance(selector, selectors.BaseSelector):  # other loops watch the descriptor, which is exact
            polling.patch_one(selector)
        self._assembler = Assembler(allocate)
        self._outgoing: deque[Frame] = deque()
        self._reader: asyncio.Future[list[memoryview]] | None = None
        self._flushed: asyncio.Future[None] | None = None
        self._error: Exception | None = None  # why nothing more can be sent, nor received
        self._ended = False  # the other end sends nothing more
        self._watches = False  # for something to read
        self._waits = False  # for room to send
        self._watch()
        deliver_at_exit(sock)

    def is_over(self) -> bool:
        """Whether either end has closed it, or it was lost."""
        return self._ended or self._error is not None

    # ---- receiving ----

    async def read(self) -> list[memoryview]:
        """The next message. Raises EOFError at the end of the stream, OSError where it was lost or closed here."""
        if self._reader is not None:
            raise RuntimeError("another task reads already")
        message = self._next()
        if message is not None:
            self._watch()  # the end of the stream is to be seen, whether or not somebody reads
            return message
        if self._ended:
            raise self._end_of_stream()
        if self._error is not None:
            raise self._error
        self._reader = self._loop.create_future()
        self._watch()
        try:
            return await self._reader
        finally:
            self._reader = None

    def _next(self) -> list[memoryview] | None:
        if self._error is not None:
            return None
        return self._assembler.take()

    def _end_of_stream(self) -> Exception:
        if self._assembler.is_between_messages():
            return EOFError("the other end closed the connection")
        return ConnectionResetError("the other end closed the connection within a message")

    def _watch(self) -> None:
        if not self._watches and not self.is_over():
            self._watches = True
            self._loop.add_reader(self._descriptor, self._readable)

    def _unwatch(self) -> None:
        if self._watches:
            self._watches = False
            self._loop.remove_reader(self._descriptor)

    def _readable(self) -> None:
        reader = self._reader
        if reader is not None and reader.done():  # its task has not had its turn yet
            reader = None
        total = 0
        try:
            while total < _MOST_AT_ONCE:
                room = self._assembler.room()
                if not room:  # nobody reads
                    self._unwatch()
                    return
                count = self.sock.recv_into(room)
                if count == 0:
                    self._end()
                    return
                self._assembler.received(count)
                total += count
                if reader is not None:
                    message = self._assembler.take()
                    if message is not None:
                        reader.set_result(message)
                        return
                if count < len(room):
                    return
        except (BlockingIOError, InterruptedError):
            return
        except Exception as error:
            self._lose(error)

    def _end(self) -> None:
        self._ended = True
        self._unwatch()
        if self._reader is not None and not self._reader.done():
            self._reader.set_exception(self._end_of_stream())

    # ---- sending ----

    def write(self, frames: Sequence[Frame]) -> int:
        """Begins to send a message; its bytes on the stream. Raises OSError where the stream is over."""
        if self._error is not None:
            raise self._error
        if self._ended:
            raise BrokenPipeError("the other end closed the connection")
        buffers, size = pack(frames)
        waits = bool(self._outgoing)
        self._outgoing.extend(buffers)
        if not waits:
            self._send()
            if self._error is not None:
                raise self._error
        return size

    async def flush(self) -> None:
        """Waits until all is sent. Raises OSError where the stream was lost meanwhile."""
        if self._error is not None:
            raise self._error
        if self._outgoing:
            if self._flushed is None:
                self._flushed = self._loop.create_future()
            await asyncio.shield(self._flushed)
            if self._error is not None:
                raise self._error

    def _send(self) -> None:
        """Sends what the socket takes. Where that is not all, the loop calls it again."""
        outgoing = self._outgoing
        total = 0
        try:
            while outgoing and total < _MOST_AT_ONCE:
                if len(outgoing) == 1:
                    sent = self.sock.send(outgoing[0])
                else:
                    sent = self.sock.sendmsg([outgoing[n] for n in range(min(len(outgoing), _MOST_BUFFERS))])
                total += sent
                while sent:
                    first = outgoing.popleft()
                    if sent < len(first):
                        outgoing.appendleft(memoryview(first)[sent:])
                        break
                    sent -= len(first)
        except (BlockingIOError, InterruptedError):
            pass
        except Exception as error:
            self._lose(error)
            return
        if outgoing and not self._waits:
            self._waits = True
            self._loop.add_writer(self._descriptor, self._send)
        elif not outgoing and self._waits:
            self._waits = False
            self._loop.remove_writer(self._descriptor)
            self._end_flush()

    def _end_flush(self) -> None:
        flushed, self._flushed = self._flushed, None
        if flushed is not None and not flushed.done():
            flushed.set_result(None)

    # ---- the end ----

    async def close(self) -> None:
        """Sends what waits, then closes."""
        try:
            await self.flush()
            if self._error is None:
                deliver(self.sock)
        except OSError:
            pass  # there is nobody to send it to
        finally:
            self.abort()

    def abort(self) -> None:
        """Closes at once. What waits to be sent is dropped."""
        self._lose(ConnectionAbortedError("this end closed the connection"))

    def _lose(self, error: Exception) -> None:
        if self._error is not None:
            return
        self._error = error
        if not self._loop.is_closed():
            self._unwatch()
            self._loop.remove_writer(self._descriptor)
            self._end_flush()
            if self._reader is not None and not self._reader.done():
                self._reader.set_exception(error)
        self._outgoing.clear()
        self.sock.close()
