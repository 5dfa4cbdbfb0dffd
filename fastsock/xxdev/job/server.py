"""The wire-up server: where the ranks of one job leave what the others need, and hear which of them has died.

It runs in the runner, or, under somebody else's launcher, in a thread of rank 0. Each rank has one control connection
to it, authenticated by hello.py; a connection that ends before its rank has said goodbye is a death.
"""

from __future__ import annotations

import _socket
import select

from .. import hello
from . import addresses, frames
from .loop import READ, WRITE, Loop, Timer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

ROLE = "control"
_HELLO_SECONDS = 20.0
_STRANGERS = 4096  # connections whose hello is not finished
_PIECE = 1 << 16
_MOST_DROPPED = 1 << 20  # bytes of who is refused and does not stop

# in a frame of a rank
_STRINGS = {
    frames.JOIN: 3,
    frames.PUT: 2,
    frames.GET: 1,
    frames.ABORT: 2,
    frames.CRASH: 1,
    frames.BROADCAST: 1,
    frames.ASK: 1,
}


class Server:
    """Serves from a Loop. A runner that knows more about the ranks than their connections may replace the callbacks.

    on_join(rank), on_finish(rank), on_lost(rank): its connection ended without goodbye (default: it has failed),
    on_crash(rank, reason): it tells that an error ends it, on_abort(rank, status, reason).
    """

    def __init__(self, loop: Loop, *, size: int, job: str, secret: bytes, keep_going: bool = False) -> None:
        """`keep_going`: the ranks go on without those that fail, also without some that never join."""
        self.size, self.job, self.secret = size, job, secret
        self.keep_going = keep_going
        self.addresses: list[str] = []
        self.described: dict[int, tuple[bytes, bytes, bytes]] = {}  # per rank: identity of its host, host name, pid
        self.finished: set[int] = set()
        self.failed: dict[int, str] = {}
        self.on_join: Callable[[int], None] = _nothing
        self.on_finish: Callable[[int], None] = _nothing
        self.on_lost: Callable[[int], None] = self._lost
        self.on_crash: Callable[[int, str], None] = self.fail
        self.on_abort: Callable[[int, int, str], None] = _nothing
        self.loop = loop
        self._listeners: list[addresses.Raw] = []
        self._strangers: set[_Connection] = set()
        self._ranks: dict[int, _Connection] = {}
        self._values: dict[bytes, bytes] = {}
        self._waiting: dict[bytes, set[_Connection]] = {}
        self._asking: dict[int, set[_Connection]] = {}  # whether that rank has finished
        self._fences: dict[int, int] = {}  # per rank, how many it has reached
        self._passed = 0
        self._told = False  # the table
        self._outward = b""

    def listen(self, listener: addresses.Raw, address: str) -> None:
        """Take connections from a listener that the ranks know by this address."""
        self._listeners.append(listener)
        self.addresses.append(address)
        self.loop.watch(listener.fileno(), lambda _: self._accept(listener))

    def fail(self, rank: int, reason: str) -> None:
        """Rank `rank` is dead: tell all others. Idempotent: the first reason counts."""
        if rank in self.failed:
            return
        self.failed[rank] = reason
        self._send_all(frames.pack(frames.FAILED, b"%d" % rank, reason.encode()))
        connection = self._ranks.pop(rank, None)
        if connection is not None:
            connection.close()
        self._pass_fence()
        if self.keep_going:
            self._send_table()

    def abort(self, rank: int, status: int, reason: str) -> None:
        """Tell all ranks that the job ends now."""
        self._send_all(frames.pack(frames.ABORTED, b"%d" % rank, b"%d" % status, reason.encode()))

    def name_of(self, rank: int) -> str:
        """As a message names a rank: its number, host and process, as far as they are known."""
        if rank not in self.described:
            return f"rank {rank}"
        _, host, process = self.described[rank]
        return f"rank {rank} (host {frames.text(host)}, pid {frames.text(process)})"

    def joined(self, rank: int) -> bool:
        """Whether the rank has a control connection now."""
        return rank in self._ranks

    def close(self) -> None:
        """Ends every connection."""
        for listener in self._listeners:
            self.loop.forget(listener.fileno())
            listener.close()
        for connection in (*self._strangers, *self._ranks.values()):
            connection.close()
        self._listeners.clear()
        self._strangers.clear()
        self._ranks.clear()

    def abandon(self) -> None:
        """In a forked child: the parent serves on, so only the child's descriptors are closed."""
        for listener in self._listeners:
            listener.close()
        for connection in (*self._strangers, *self._ranks.values()):
            connection.abandon()

    def _accept(self, listener: addresses.Raw) -> None:
        while (accepted := addresses.accept(listener)) is not None:
            if len(self._strangers) >= _STRANGERS:
                accepted.close()
            else:
                self._strangers.add(_Connection(self, accepted))

    # ---- what connections report ----

    def welcome(self, connection: _Connection, rank: int) -> str:
        """A stranger has proved to be that rank. Gives a reason to refuse it, or nothing."""
        if rank in self._ranks or rank in self.finished:
            return f"rank {rank} of this job has joined already"
        if rank in self.failed:
            return f"rank {rank} of this job has been given up: {self.failed[rank]}"
        self._strangers.discard(connection)
        self._ranks[rank] = connection
        self._outward = self._outward or connection.local_ip()
        if self.keep_going:
            connection.send(frames.pack(frames.KEEP_GOING))
        for each, reason in self.failed.items():
            connection.send(frames.pack(frames.FAILED, b"%d" % each, reason.encode()))
        return ""

    def ended(self, connection: _Connection, reason: str) -> None:
        """The connection is over: the other end closed it, or sent nonsense."""
        connection.close()
        self._strangers.discard(connection)
        for waiting in (*self._waiting.values(), *self._asking.values()):
            waiting.discard(connection)
        rank = connection.rank
        if rank is None or self._ranks.get(rank) is not connection:
            return
        del self._ranks[rank]
        if rank in self.finished:
            return
        if reason:
            self.fail(rank, f"{self.name_of(rank)} was given up: {reason}")
        else:
            self.on_lost(rank)

    def received(self, connection: _Connection, rank: int, kind: int, strings: list[bytes]) -> None:
        """A frame of a rank. Raises FrameError."""
        count = _STRINGS.get(kind, 0)
        if len(strings) != count:
            raise frames.FrameError(f"frame {kind} with {len(strings)} strings")
        if kind == frames.JOIN:
            self._join(rank, (strings[0], strings[1], strings[2]))
        elif kind == frames.PUT:
            self._put(strings[0], strings[1])
        elif kind == frames.GET:
            self._get(connection, strings[0])
        elif kind == frames.ASK:
            self._ask(connection, frames.number(strings[0]))
        elif kind == frames.FENCE:
            self._fences[rank] = self._fences.get(rank, 0) + 1
            self._pass_fence()
        elif kind == frames.FINISH:
            self.finished.add(rank)
            connection.send(frames.pack(frames.FINISHED))
            for asking in self._asking.pop(rank, ()):
                asking.send(frames.pack(frames.LEFT, b"%d" % rank))
            self._pass_fence()
            self.on_finish(rank)
        elif kind == frames.ABORT:
            status, reason = frames.number(strings[0]), frames.text(strings[1])
            self.abort(rank, status, reason)
            self.on_abort(rank, status, reason)
        elif kind == frames.CRASH:
            self.on_crash(rank, f"{self.name_of(rank)} {frames.text(strings[0])}")
        elif kind == frames.BROADCAST:  # one order for all, and all of them or none: whoever asks may die now
            self._send_all(frames.pack(frames.BROADCAST, strings[0]))
        else:
            raise frames.FrameError(f"a frame of the unknown kind {kind}")

    # ---- what ranks ask for ----

    def _join(self, rank: int, described: tuple[bytes, bytes, bytes]) -> None:
        self.described[rank] = described
        self.on_join(rank)
        self._send_table()

    def _send_table(self) -> None:
        """Once nobody is waited for any more. Those that never come are on a host of their own."""
        absent = self.failed if self.keep_going else {}
        ranks = range(self.size)
        if self._told or any(rank not in self.described and rank not in absent for rank in ranks):
            return
        self._told = True
        each = [part for rank in ranks for part in self.described.get(rank, (b"rank %d" % rank, b"?", b"0"))]
        self._send_all(frames.pack(frames.TABLE, self._outward, *each))

    def _put(self, key: bytes, value: bytes) -> None:
        self._values[key] = value
        for connection in self._waiting.pop(key, ()):
            connection.send(frames.pack(frames.VALUE, key, value))

    def _get(self, connection: _Connection, key: bytes) -> None:
        value = self._values.get(key)
        if value is None:
            self._waiting.setdefault(key, set()).add(connection)
        else:
            connection.send(frames.pack(frames.VALUE, key, value))

    def _ask(self, connection: _Connection, rank: int) -> None:
        if rank in self.finished:
            connection.send(frames.pack(frames.LEFT, b"%d" % rank))
        elif 0 <= rank < self.size:
            self._asking.setdefault(rank, set()).add(connection)

    def _pass_fence(self) -> None:
        absent = self.finished | self.failed.keys()
        expected = [rank for rank in range(self.size) if rank not in absent]
        while expected and all(self._fences.get(rank, 0) > self._passed for rank in expected):
            self._passed += 1
            self._send_all(frames.pack(frames.FENCED))

    def _send_all(self, frame: bytes) -> None:
        for rank in sorted(self._ranks, reverse=True):  # rank 0 last: it may end with its process, which this may be
            self._ranks[rank].send(frame)

    def _lost(self, rank: int) -> None:
        self.fail(rank, f"{self.name_of(rank)} ended, or lost its connection, without finishing")


def _nothing(*_: object) -> None:
    pass


class _Connection:
    """One connection, of a stranger until its hello is finished. Nothing here waits."""

    def __init__(self, server: Server, sock: addresses.Raw) -> None:
        self._server, self._sock = server, sock
        self._hello = hello.Acceptor({ROLE: hello.Party(server.secret, server.job, hello.SERVER, server.size)})
        self._reader = frames.Reader()
        self._output = bytearray()
        self._open = True
        self._refused = False
        self._dropped = 0  # bytes that came since
        self.rank: int | None = None
        self._patience: Timer = server.loop.after(_HELLO_SECONDS, lambda: server.ended(self, ""))
        server.loop.watch(sock.fileno(), self._ready)

    def local_ip(self) -> bytes:
        """The IP by which the rank reached this host; nothing where that was a UNIX name."""
        name = self._sock.getsockname()
        return name[0].encode() if isinstance(name, tuple) else b""

    def send(self, data: bytes) -> None:
        """Send at once as much as the kernel takes, and the rest later."""
        if not self._open:
            return
        idle = not self._output
        self._output += data
        if idle:
            self._flush()

    def close(self) -> None:
        """Unsent data are lost, but for those that the kernel takes at once. Idempotent."""
        if self._open:
            self._open = False
            self._patience.cancel()
            self._server.loop.forget(self._sock.fileno())
            self._sock.close()

    def abandon(self) -> None:
        """In a forked child."""
        self._open = False
        self._sock.close()

    def _flush(self) -> None:
        try:
            sent = self._sock.send(self._output)
            del self._output[:sent]
        except BlockingIOError:
            pass
        except OSError:  # its end is read in a moment
            self._output.clear()
        self._server.loop.watch(self._sock.fileno(), self._ready, READ | WRITE if self._output else READ)

    def _ready(self, events: int) -> None:
        if events & select.EPOLLOUT and self._output:
            self._flush()
        if events & ~select.EPOLLOUT:
            self._read()

    def _read(self) -> None:
        try:
            data = self._sock.recv(_PIECE if self._refused else self._hello.needed or _PIECE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._server.ended(self, "")
            return
        if self._refused:
            self._dropped += len(data)
            if self._dropped > _MOST_DROPPED:
                self._server.ended(self, "")
            return
        try:
            if not self._hello.done:
                self._greet(data)
                return
            assert self.rank is not None
            for kind, strings in self._reader.feed(data):
                if self._open:
                    self._server.received(self, self.rank, kind, strings)
        except frames.FrameError as error:
            self._server.ended(self, f"it sent {error}")

    def _greet(self, data: bytes) -> None:
        try:
            self.send(self._hello.feed(data))
        except hello.HelloError as error:
            self._refuse(error.reply)
            return
        if self._hello.done:
            assert self._hello.caller is not None
            self.rank = self._hello.caller.rank
            refused = self._server.welcome(self, self.rank)
            if refused:
                self._refuse(frames.pack(frames.ABORTED, b"-1", b"1", refused.encode()))
            else:
                self._patience.cancel()

    def _refuse(self, reply: bytes) -> None:
        """The stranger hears why, and closes. What it sends until then is dropped: unread it would cost the reply."""
        self._refused = True
        try:
            self._sock.send(reply)
            self._sock.shutdown(_socket.SHUT_WR)
        except OSError:  # it has gone
            self._server.ended(self, "")
