"""How two ranks come to one connection: a listener, connections on first use, a hello, and one answer to a tie.

Both ends of a pair may need the other for the first time at the same moment, and connect. The thesis's iodev keeps one
connection for each direction; here one serves both, as a shared-memory path has a direction each way in it and one
doorbell: the lower rank's attempt stands. An end that accepts answers, after the hello, with one verdict: welcome; or
give way, since this rank has a connection or a standing attempt of its own. So an attempt that has begun ends in
exactly one connection, whoever began, and no rank needs to wait for others at the start.

No thread here waits for more than one peer: a slow one, or a stranger who says nothing, delays nobody else. Where the
process can start no more threads, as at its end, two threads are there already. One connects and one welcomes, one peer
after the other. The one that welcomes never waits for the one that connects. So ranks in this state do not wait for
each other in a circle.
"""

from __future__ import annotations

import abc
import contextlib
import errno
import os
import select
import struct
import threading
import weakref
from _queue import SimpleQueue
from collections import OrderedDict

from ..system.forkable import new_lock
from ..system.originals import originals
from ..system.starting import start_thread, start_without_signals
from . import hello
from .errors import XxdevError
from .job.base import print_line
from .settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_WAKE_FLAGS = os.EFD_NONBLOCK | os.EFD_CLOEXEC
_POLLIN = select.POLLIN
_ROLE = "message"
_VERDICT = struct.Struct("!cB")
_WELCOME, _GIVE_WAY, _FAILED, _LEAVING = b"W", b"G", b"F", b"L"
_LONGEST_REASON = 255
# A rank that computes without a pause answers late; one that died answers nothing, and its connection ends at once.
_PATIENT = 24 * 3600.0
_STRANGER_SECONDS = 30.0
_MOST_STRANGERS = 128  # beside the ranks of the job, which may all come at once
_TRIES = 3

_CONNECTING, _STANDING, _LOST = "connecting", "standing", "lost"


class _Refused(Exception):
    """The other end belongs to the job, but does not connect: why."""


class _Left(Exception):
    """The other end has finished, or is about to: it has nothing to say any more, and looks at nothing."""


class Connections(abc.ABC):
    """The connections of one rank to the others. `want(peer)` is the engine's `on_missing`.

    A device derives from it what differs: where a rank listens, how it is reached, and what a connection becomes.
    """

    def __init__(self, job: Any, engine: Any, settings: Settings) -> None:
        self.job = job
        self.engine = engine
        self.settings = settings
        self._lock = new_lock()
        self._states: dict[int, str] = {}
        self._strangers: OrderedDict[int, Any] = OrderedDict()  # connections whose hello is not over
        self._outgoing: set[Any] = set()
        self._waiting: dict[int, list[Any]] = {}  # connections of those who gave way to an attempt of this rank
        self._wanted: SimpleQueue[int | None] = SimpleQueue()  # peers; None: no more
        self._closing = False
        self._wake = originals.eventfd(0, _WAKE_FLAGS)
        self._end_of_wake = weakref.finalize(self, originals.close, self._wake)  # close() still has the number
        self._end_of_wake.atexit = False
        self._listener: Any = None
        self._acceptor: threading.Thread | None = None
        _alive.add(self)

    # ---- what a device has of its own ----

    @abc.abstractmethod
    def listen(self) -> Any:
        """A listening socket. Raises OSError."""

    @abc.abstractmethod
    def publish(self, listener: Any) -> None:
        """Tells the job where this rank listens."""

    @abc.abstractmethod
    def reach(self, peer: int) -> Any:
        """A socket connected to where that rank listens. Raises OSError."""

    def take(self, listener: Any) -> tuple[Any, Any]:
        """Accepts: a socket and its address. Waits for nobody."""
        return listener.accept()  # type: ignore[no-any-return]

    def meet(self, sock: Any, listener: Any, address: Any) -> None:  # noqa: B027
        """What else an accepted socket needs, before anything is read; may wait for the other end."""

    def offer(self, peer: int) -> tuple[bytes, Any]:
        """The accepting end, once it knows who connected: bytes for the other end, and what `settle` needs itself."""
        return b"", None

    def agree(self, peer: int, sock: Any, offered: Any, sent: bytes) -> None:  # noqa: B027
        """What both ends still tell each other before settle(), whose arguments these are; may wait for the other end.

        Raises OSError and HelloError.
        """

    @abc.abstractmethod
    def settle(self, peer: int, sock: Any, offered: Any, sent: bytes) -> None:
        """The connection stands: gives it to the engine. `offered` is this end's offer, or None: then `sent` is what
        the other one sent. Raises OSError."""

    @abc.abstractmethod
    def where(self, peer: int) -> str:
        """Path and address of that rank, for messages."""

    # ---- who is who: ranks of one job, unless a device says otherwise ----

    def parties(self) -> Mapping[str, hello.Party]:
        """What this rank is to those that connect, by their roles."""
        job = self.job
        return {_ROLE: hello.Party(job.secret, job.name, job.rank, job.size)}

    def peer_of(self, caller: hello.Caller) -> int:
        """The rank that has proved who it is. Raises HelloError where it is not to be one."""
        return caller.rank

    def prove(self, peer: int, sock: Any, timeout: float) -> None:
        """Says hello to that rank. Raises HelloError, TimeoutError."""
        job = self.job
        hello.connect(
            sock, secret=job.secret, job=job.name, rank=job.rank, peer=peer, role=_ROLE, timeout=timeout
        )  # fmt: skip

    def goes_first(self, peer: int) -> bool:
        """Whether that rank's attempt stands where both connect."""
        return peer < int(self.job.rank)

    def has_finished(self, peer: int) -> bool:
        """Whether that rank, which cannot be reached, has finished. Else it died."""
        return bool(self.job.has_finished(peer))

    def name(self, peer: int) -> str:
        """A rank and its host, for messages."""
        try:
            return f"rank {peer} on {self.job.hostnames[peer]}"
        except Exception:  # not everybody has joined yet: whatever goes wrong here must not hide what is told
            return f"rank {peer}"

    # ---- starting and ending ----

    def start(self) -> None:
        """Listens and tells so. Raises OSError."""
        self._listener = self.listen()
        self._listener.setblocking(False)
        acceptor = threading.Thread(target=self._accept, name="fastsock-accept", daemon=True)
        start_without_signals(acceptor)
        self._acceptor = acceptor
        start_without_signals(threading.Thread(target=self._connect_wanted, name="fastsock-connect", daemon=True))
        self.publish(self._listener)

    def close(self) -> None:
        """No further connection is made or accepted; those that stand are the engine's."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
            half_made = [
                *self._strangers.values(),
                *self._outgoing,
                *(sock for all_ in self._waiting.values() for sock in all_),
            ]
        originals.eventfd_write(self._wake, 1)
        self._wanted.put(None)
        for sock in half_made:
            _hang_up(sock)
        if self._acceptor is not None:
            self._acceptor.join()
        self._release()

    def _release(self) -> None:
        if self._listener is not None:
            self._listener.close()

    def after_fork(self) -> None:
        """In a forked child: the parent's listener must not stay open by it."""
        if not self._closing:
            self._closing = True
            self._release()
            self._end_of_wake()

    # ---- connecting ----

    def want(self, peer: int) -> None:
        """Begins a connection to that rank, unless there is one."""
        # A signal's handler may raise in here. So this only asks, and where it is asked twice nothing is done twice.
        self._wanted.put(peer)

    def _connect_wanted(self) -> None:
        while (peer := self._wanted.get()) is not None:
            with self._lock:
                if self._closing or peer in self._states:
                    continue
                self._states[peer] = _CONNECTING
            if not start_thread(self._connect, peer, name=f"fastsock-connect-{peer}"):
                self._connect(peer)

    def _connect(self, peer: int) -> None:
        for attempt in range(1, _TRIES + 1):
            try:
                self._connect_once(peer)
            except hello.HelloError as error:
                # hung up in the middle: it may have had too many strangers, or too few descriptors
                if attempt < _TRIES and "refused" not in str(error) and not self._closing:
                    continue
                self._lose_unless_finished(
                    peer,
                    f"the hello of {self.name(peer)} at {self.where(peer)} failed: {error}: "
                    "see that all ranks belong to one job, and that nothing else answers there",
                )
            except _Left:
                self._lose(peer, None)
            except _Refused as error:
                self._lose(peer, f"{self.name(peer)} takes no connection any more: {error}")
            except ConnectionRefusedError:
                where = f"nothing listens for {self.name(peer)} at {self.where(peer)}"
                self._lose_unless_finished(peer, f"{where}: it has died, or does not use its device any more")
            except XxdevError as error:
                self._lose(peer, str(error))
            except Exception as error:  # whatever it is, who waits for the peer must hear of it
                where = f"{self.name(peer)} cannot be reached at {self.where(peer)}"
                self._lose(peer, f"{where}: {_why(error)}: {_advice(error)}")
            return

    def _connect_once(self, peer: int) -> None:
        sock = self.reach(peer)
        kept = False
        with self._lock:
            self._outgoing.add(sock)
        try:
            self.prove(peer, sock, _PATIENT)
            sock.settimeout(None)
            kind, length = _VERDICT.unpack(_exactly(sock, _VERDICT.size))
            sent = _exactly(sock, length)
            if kind == _GIVE_WAY:
                self._await_other(peer, sock)
            elif kind == _WELCOME:
                self.agree(peer, sock, None, sent)
                kept = self._stand(peer, sock, sent)
            elif kind == _FAILED:
                raise _Refused(sent.decode("utf-8", "replace"))
            elif kind == _LEAVING:
                raise _Left
            else:
                raise hello.HelloError(f"its verdict is {kind!r}: there is no such verdict")
        finally:
            with self._lock:
                self._outgoing.discard(sock)
            if not kept:
                sock.close()

    def _stand(self, peer: int, sock: Any, sent: bytes) -> bool:
        with self._lock:
            if self._closing:
                return False
            self.settle(peer, sock, None, sent)
            self._decided(peer, _STANDING)
            return True

    def _await_other(self, peer: int, sock: Any) -> None:
        """The other end's attempt stands. It keeps this connection open for as long as its own is not decided."""
        with contextlib.suppress(OSError):
            sock.recv(1)
        with self._lock:
            if self._states.get(peer) == _CONNECTING and not self._closing:
                raise hello.HelloError("its own attempt to connect failed")

    def _lose_unless_finished(self, peer: int, reason: str) -> None:
        self._lose(peer, None if self.has_finished(peer) else reason)

    def _lose(self, peer: int, reason: str | None) -> None:
        """`reason`: why it failed; None: it has finished."""
        with self._lock:
            if self._closing or self._states.get(peer) == _STANDING:
                return
            self._decided(peer, _LOST)
        if reason is None:
            self.engine.left(peer)
        else:
            self.engine.fail(peer, reason)

    def _decided(self, peer: int, state: str) -> None:
        """With the lock. A thread that gave way to an attempt of this end need not wait any more."""
        self._states[peer] = state
        for sock in self._waiting.pop(peer, ()):
            sock.close()

    # ---- accepting ----

    def _accept(self) -> None:
        poller = originals.poll()
        poller.register(self._listener, _POLLIN)
        poller.register(self._wake, _POLLIN)
        while not self._closing:
            poller.poll()
            if self._closing:
                return
            try:
                sock, address = self.take(self._listener)
            except (BlockingIOError, ConnectionError):
                continue
            except (OSError, MemoryError) as error:
                if not self._make_room(error):
                    poller.unregister(self._listener)  # until close()
                continue
            self._begin_hello(sock, address)

    def _make_room(self, error: OSError | MemoryError) -> bool:
        """Out of descriptors or memory: a stranger goes, or some time; False where the listener itself is broken."""
        number = error.errno if isinstance(error, OSError) else errno.ENOMEM
        if number not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
            return False
        if not self._drop_oldest():
            poller = originals.poll()
            poller.register(self._wake, _POLLIN)
            poller.poll(100)
        return True

    def _drop_oldest(self) -> bool:
        with self._lock:
            oldest = next(iter(self._strangers.values()), None)
        if oldest is None:
            return False
        _hang_up(oldest)
        return True

    def _begin_hello(self, sock: Any, address: Any) -> None:
        with self._lock:
            if self._closing:  # close() would not know of it
                sock.close()
                return
            self._strangers[id(sock)] = sock
            crowded = len(self._strangers) > _MOST_STRANGERS + self.job.size
        if crowded:
            self._drop_oldest()
        if not start_thread(self._welcome, sock, address, name="fastsock-hello"):
            self._welcome(sock, address)

    def _welcome(self, sock: Any, address: Any) -> None:
        kept = False
        try:
            sock.setblocking(True)
            self.meet(sock, self._listener, address)
            caller = hello.accept(sock, self.parties(), timeout=_STRANGER_SECONDS)
            kept = self._judge(self.peer_of(caller), sock)
        except (OSError, hello.HelloError, MemoryError):
            pass  # a stranger, or a rank that will notice by itself: its connection ends
        except Exception as error:  # a defect of ours; this may be the thread that welcomes all others, so it goes on
            print_line(f"rank {self.job.rank} ended a connection as it began: {type(error).__name__}: {error}")
        finally:
            with self._lock:
                self._strangers.pop(id(sock), None)
            if not kept:
                sock.close()

    def _judge(self, peer: int, sock: Any) -> bool:
        """The other end is rank `peer`: the verdict on its connection; whether it stands."""
        with self._lock:
            state = self._states.get(peer)
            free = state is None or (state == _CONNECTING and self.goes_first(peer))
            if self._closing or state == _LOST or peer == self.job.rank:
                refusal = _verdict(_FAILED, f"it has given up on rank {peer}".encode())
                sock.sendall(_verdict(_LEAVING) if self._closing else refusal)
                return False
            if not free:
                sock.sendall(_verdict(_GIVE_WAY))
                if state == _CONNECTING:
                    self._waiting.setdefault(peer, []).append(sock)
                return state == _CONNECTING
            try:
                sent, offered = self.offer(peer)
            except Exception as error:
                sock.sendall(_verdict(_FAILED, _why(error).encode()))
                return False
            self._decided(peer, _STANDING)
        try:
            sock.settimeout(None)
            sock.sendall(_verdict(_WELCOME, sent))
            self.agree(peer, sock, offered, b"")
            with self._lock:
                if self._closing:
                    return False
                self.settle(peer, sock, offered, b"")
                return True
        except Exception as error:  # whatever it is, who waits for the peer must hear of it
            with self._lock:
                self._states[peer] = _LOST
            reason = f"{self.name(peer)} was lost over {self.where(peer)} as it connected: {_why(error)}"
        self.engine.fail(peer, reason)
        return False


def listening(sock: Any, address: Any, ranks: int) -> Any:
    """The socket, which listens at the address, or is closed. Raises OSError."""
    try:
        sock.bind(address)
        sock.listen(max(128, ranks))
    except BaseException:
        sock.close()
        raise
    return sock


def _verdict(kind: bytes, sent: bytes = b"") -> bytes:
    return _VERDICT.pack(kind, min(len(sent), _LONGEST_REASON)) + sent[:_LONGEST_REASON]


def _exactly(sock: Any, count: int) -> bytes:
    data = b""
    while len(data) < count:
        block = sock.recv(count - len(data))
        if not block:
            raise hello.HelloError("it closed the connection after the hello")
        data += block
    return data


def _hang_up(sock: Any) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(2)


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _advice(error: Exception) -> str:
    if isinstance(error, TimeoutError) or getattr(error, "errno", 0) in (
        errno.ETIMEDOUT,
        errno.EHOSTUNREACH,
        errno.ENETUNREACH,
    ):
        return "see that its host is up, and that no firewall stops connections between the ranks' hosts"
    return "see that its host is up and the rank still runs"


_alive: weakref.WeakSet[Connections] = weakref.WeakSet()


def _forked() -> None:
    for connections in list(_alive):
        connections.after_fork()


os.register_at_fork(after_in_child=_forked)
