"""One end of the connection of a schedule, in a process or a thread of its own: it does what it is told."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import mmap
import os
import pickle
import select
import socket
import struct
import threading
import time
import warnings
from typing import Any

from fastsock.testing.patterns import Pattern

from ..helpers.certificates import client_context, server_context
from .calls import (
    ALL,
    CLOSES,
    IN,
    OUT,
    PATIENCE,
    PROBES,
    RECEIVES,
    SENDS,
    TLS_RECEIVES,
    TLS_SENDS,
    Stuck,
    outcome,
    persist,
    poll,
    rewrap,
    said,
)

PATTERNS = Pattern(1), Pattern(2)  # what the first end sends, what the second end sends
STREAM_BLOCK = 1 << 16
PROGRESS = struct.Struct("q")
SETTLING, ASKS_SLOWLY = 3.0, 0.001  # seconds


class End:
    """A socket and what has been done to it. Methods are commands; each gives its outcome as text."""

    def __init__(self, number: int, progress: mmap.mmap) -> None:
        self.number = number
        self.progress = progress  # what was handed over, read by others when this process is dead
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.sock: Any = None
        self.encrypted = False
        self.watcher: Any = None
        self.edge = False

    def address(self) -> Any:
        return self.listener.getsockname()

    def path(self) -> str:
        return str(getattr(self.sock, "transport", "plain"))

    # Beginning

    def connect(self, address: Any) -> str:
        self.sock = socket.create_connection(address)
        return self._begun("connected")

    def connect_early(self, address: Any, count: int) -> str:
        """Without blocking, and some bytes before anybody accepts."""
        sock = socket.socket()
        sock.setblocking(False)
        sock.connect_ex(address)
        poll(sock, OUT, PATIENCE)
        if error := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(error, "not connected")
        self.sock = sock
        told = self._begun("connected")
        if count:
            told = self.send("send", "send", "poll", count, 0)
        sock.setblocking(True)
        return told

    def accept(self) -> str:
        self.sock, _ = self.listener.accept()
        return self._begun("accepted")

    def _begun(self, told: str) -> str:
        PROGRESS.pack_into(self.progress, PROGRESS.size * self.number, 0)
        # Without it TCP keeps a small segment back until the one before is acknowledged.
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return told

    # Moving bytes

    def send(self, way: str, tls_way: str, wait: str, count: int, at: int) -> str:
        ways = TLS_SENDS[tls_way] if self.encrypted else SENDS[way]
        sent = 0
        try:
            while sent < count:
                data = memoryview(PATTERNS[self.number].at(at + sent, min(count - sent, 1 << 20)))
                taken = persist(self.sock, wait, OUT, lambda data=data: ways(self.sock, data))
                if not taken:
                    raise Stuck("took nothing")
                sent += taken
                PROGRESS.pack_into(self.progress, PROGRESS.size * self.number, at + sent)
        except (OSError, Stuck) as error:
            return f"sent {sent} of {count}, {self._said(error)}"
        return f"sent {sent}"

    def receive(self, way: str, tls_way: str, wait: str, count: int, chunk: int, at: int) -> str:
        """Exactly so many bytes, in calls for a chunk each."""
        ways = TLS_RECEIVES[tls_way] if self.encrypted else RECEIVES[way]
        got = 0
        try:
            while got < count:
                size = min(chunk, count - got)
                data = persist(self.sock, wait, IN, lambda size=size: ways(self.sock, size))
                if not data:
                    return f"received {got} of {count}, end"
                PATTERNS[1 - self.number].verify(at + got, data)
                got += len(data)
        except (OSError, Stuck) as error:
            return f"received {got} of {count}, {self._said(error)}"
        return f"received {got}"

    def ping(self, count: int, begins: bool) -> str:
        """So many single bytes each way, by turns."""
        for at in range(count):
            if begins or at:
                self.sock.sendall(PATTERNS[self.number].at(at - (not begins), 1))
            PATTERNS[1 - self.number].verify(at, self.sock.recv(1))
        if not begins:
            self.sock.sendall(PATTERNS[self.number].at(count - 1, 1))
        PROGRESS.pack_into(self.progress, PROGRESS.size * self.number, count)
        return f"{count} each way"

    def receive_to_end(self, wait: str, at: int) -> str:
        got = 0
        try:
            while data := persist(self.sock, wait, IN, lambda: self.sock.recv(1 << 20)):
                PATTERNS[1 - self.number].verify(at + got, data)
                got += len(data)
        except (OSError, Stuck) as error:
            return f"received {got}, {self._said(error)}"
        return f"received {got}, end"

    def exchange(self, sending: Any, receiving: Any) -> str:
        """Both at the same time, in two threads."""
        told: list[str] = []
        thread = threading.Thread(target=lambda: told.append(self.send(*sending)))
        thread.start()
        received = self.receive(*receiving)
        thread.join()
        return f"{told[0]}, {received}"

    def fill(self, at: int) -> tuple[int, str]:
        """Send until it is refused; the count, and what is said."""
        timeout, sent, size = self.sock.gettimeout(), 0, 1 << 16
        self.sock.settimeout(0)
        try:
            while True:
                try:
                    sent += self.sock.send(PATTERNS[self.number].at(at + sent, size))
                except BlockingIOError as error:
                    if size == 1:
                        return sent, said(error)
                    size //= 2
        finally:
            self.sock.settimeout(timeout)

    # Looking

    def probe(self, what: str, expected: str | None) -> str:
        """The outcome of one call, which may be on its way for a moment where other threads carry the bytes."""
        return self._until(lambda: outcome(PROBES[what], self.sock), expected)

    def watch(self, edge: bool) -> str:
        self.unwatch()
        self.watcher, self.edge = select.epoll(), edge
        self.watcher.register(self.sock.fileno(), ALL | (select.EPOLLET if edge else 0))
        return "watched"

    def unwatch(self) -> str:
        if self.watcher is not None:
            self.watcher.close()
            self.watcher = None
        return "not watched"

    def seen(self, expected: str | None) -> str:
        """What the watcher tells. An edge-triggered one may say more often that it can be written."""
        total = 0

        def look() -> str:
            nonlocal total
            for _, mask in self.watcher.poll(0):
                total = total | mask if self.edge else mask
            if self.edge and expected is not None:
                wanted = int(expected, 16)
                if total & wanted == wanted and not (total & ~wanted) & ~(IN | OUT):
                    return expected
            return hex(total)

        return self._until(look, expected)

    def _until(self, look: Any, expected: str | None) -> str:
        found = look()
        if expected is not None and found != expected:
            limit = time.monotonic() + SETTLING
            while found != expected and time.monotonic() < limit:
                select.select([], [], [], ASKS_SLOWLY)
                found = look()
        return str(found)

    # Changing

    def timeout(self, value: Any) -> str:
        self.sock.settimeout(value)
        return "set"

    def rewrap(self, way: str) -> str:
        self.unwatch()
        self.sock = rewrap(self.sock, way)
        return "handed on"

    def shutdown(self, how: int) -> str:
        return outcome(self.sock.shutdown, how)

    def wrap(self, server: bool) -> str:
        self.unwatch()
        timeout = self.sock.gettimeout()
        self.sock.settimeout(30)
        context = server_context() if server else client_context()
        self.sock = context.wrap_socket(self.sock, server_side=server, server_hostname=None if server else "localhost")
        self.sock.settimeout(timeout)
        self.encrypted = True
        return str(self.sock.version())

    def unwrap(self) -> str:
        timeout = self.sock.gettimeout()
        self.sock.settimeout(30)
        # another object: what was TLS once refuses dup(), sendmsg() and asyncio for ever
        self.sock = socket.socket(fileno=self.sock.unwrap().detach())
        self.sock.settimeout(timeout)
        self.encrypted = False
        return "plain"

    def streams(self, count: int, at: int, wanted: int, wanted_at: int, eof: bool, looping: bool) -> str:
        """The rest of the conversation: by asyncio's streams, or by blocking calls; the socket is closed."""
        self.unwatch()
        own = PATTERNS[self.number].at(at, count)
        if looping:
            self.sock.setblocking(False)
            sock, self.sock = self.sock, None
            data = asyncio.run(asyncio.wait_for(self._streams(sock, own, wanted, eof), PATIENCE))
        else:
            self.sock.settimeout(PATIENCE)
            data = self._by_blocking_calls(own, wanted, eof)
        PATTERNS[1 - self.number].verify(wanted_at, data)
        return f"{len(data)} by streams"

    @staticmethod
    async def _streams(sock: Any, own: bytes, wanted: int, eof: bool) -> bytes:
        reader, writer = await asyncio.open_connection(sock=sock)
        writer.write(own)
        await writer.drain()
        data = await reader.readexactly(wanted)
        if eof:
            writer.write_eof()
            data += await reader.read()
        writer.close()
        await writer.wait_closed()
        return data

    def _by_blocking_calls(self, own: bytes, wanted: int, eof: bool) -> bytes:
        with self.sock as sock:
            sock.sendall(own)
            data = b""
            while len(data) < wanted and (block := sock.recv(wanted - len(data))):
                data += block
            if eof:
                sock.shutdown(socket.SHUT_WR)
                while block := sock.recv(STREAM_BLOCK):
                    data += block
        self.sock = None
        return data

    # Ending

    def close(self, way: str) -> str:
        self.unwatch()
        sock, self.sock = self.sock, None
        if way == "dropped":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)
                del sock
                gc.collect()
        else:
            CLOSES["close" if self.encrypted and way == "by number" else way](sock)
        return "closed"

    def over(self) -> str:
        """The schedule is over, whatever became of it."""
        self.unwatch()
        if self.sock is not None:
            with contextlib.suppress(OSError):
                self.sock.close()
        self.sock, self.encrypted = None, False
        return "over"

    def collect(self) -> int:
        gc.collect()
        return os.getpid()

    def abandon(self) -> None:
        """The socket belongs to another process now."""
        self.unwatch()
        self.sock.close()
        self.sock = None

    @staticmethod
    def _said(error: Exception) -> str:
        return f"STUCK {error}" if isinstance(error, Stuck) else said(error)


def serve(number: int, commands: Any, answers: Any, progress: mmap.mmap) -> None:
    """Do commands until there are none; "fork" makes a child that goes on, and this process waits for its end."""
    end = End(number, progress)
    _serve(end, commands, answers, child=False)


def _serve(end: End, commands: Any, answers: Any, child: bool) -> None:
    while True:
        try:
            command = commands.recv_bytes()
        except EOFError:
            return
        name, arguments = pickle.loads(command)
        if name == "fork":
            pid = os.fork()
            if not pid:
                answers.send_bytes(pickle.dumps((True, "forked")))
                _serve(end, commands, answers, child=True)
                os._exit(0)
            end.abandon()
            os.waitpid(pid, 0)
            answers.send_bytes(pickle.dumps((True, end.over())))
            continue
        try:
            answer = True, getattr(end, name)(*arguments)
        except (OSError, ValueError, EOFError, asyncio.TimeoutError) as error:
            answer = True, f"raised {said(error) if isinstance(error, OSError) else repr(error)}"
        except BaseException:
            import traceback

            answer = False, traceback.format_exc()
        if child and name == "over":
            return
        answers.send_bytes(pickle.dumps(answer))
