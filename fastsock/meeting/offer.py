"""The connecting end: it offers a name to connect back to, and answers the end that does."""

from __future__ import annotations

import _socket
import contextlib
import errno
import sys
from collections.abc import Callable, Sequence

from .. import chain, core
from ..config import settings
from ..system.genuine import genuine
from ..system.hidden import Hidden
from ..transport import NO_DESCRIPTORS, Channel, Reason, Refused, Reservation, Transport
from . import hello, history, unix_calls
from .joined import Joined, Unusable, is_welcome, peer_process
from .names import WILDCARDS, connection_name, packed, ticket, unique
from .waiting import borrowed, bounded_seconds, comes_first, soon, take_token

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SOURCE_OF_LOOPBACK = "7f000001"
_SIGNED_PATIENCE = 100  # times the bounded time, for a thread that has accepted and waits for an interpreter's lock
_BACKLOG_PATIENCE = 10  # and for one that has not called accept() yet
_WHAT_IT_DID = {
    None: "the server had not connected back {}",
    False: "the server had not called accept() {}",
    True: "the server had accepted it, and not connected back {}",
}


class Offer:
    """A name at which the accepting end may connect back. Made before the SYN is sent, closed after the answer."""

    _is_lost = False  # the other end moved, and this end cannot
    still_connecting = Reason.BACKLOG_FULL  # what it means where a connect is not over after await_tcp()

    def __init__(self, bound: Any, ip: str, port: int, paths: Sequence[Transport], ahead: bool, held: Hidden) -> None:
        """bound: the socket's own address. ip and port: the address that it will connect to.

        ahead: this end goes ahead, and never waits. held: the holder of its port. It is closed if the offer is
        withdrawn. Raises Refused if the name cannot be made.
        """
        self._held: Hidden | None = held
        self._where = (ip, port)
        self._ahead = ahead
        self.paths = paths
        self._reservation: Reservation | None = None
        self._listener = self._doorbell = self._asker = -1
        self._sent_at = self._deadline = 0.0
        target = packed(ip)
        self._source = packed(bound[0])
        if bound[0] in WILDCARDS:  # the kernel will choose this one
            self._source = _SOURCE_OF_LOOPBACK if target.startswith("7f") else target
        self._ends = (self._source, bound[1]), (target, port)
        # Whose user may be anybody's may also say nothing for ever. The hello's token bounds that.
        self._is_stream = not ahead and paths[0].is_stream and settings().peers == "same-user"
        self._is_shut = False
        name = connection_name("custody" if ahead else "stream" if self._is_stream else "offer", *self._ends)
        self._pid = 0 if ahead or self._is_stream else history.who_accepts(self._where)
        if self._pid:
            for path in paths:
                self._reservation = path.reserve(self._pid, ticket(name, bound[1]))
                if self._reservation is not None:
                    self._path = path
                    break
        try:
            self._listener = unix_calls.listen(name)
            self._hidden = Hidden(self._listener)
        except OSError as error:
            self.withdraw()
            raise Refused.by(error) from error

    @classmethod
    def of(
        cls,
        bound: Any,
        where: tuple[str, int],
        paths: Sequence[Transport],
        held: Hidden,
        listener: Hidden,
        reserved: tuple[Reservation | None, Transport | None, int],
        stream: tuple[bool, bool, int],
        times: tuple[float, float],
    ) -> Offer:
        """The offer that native code began (connection/_repeated.pyx), as far as that has come.

        reserved: the reservation, its path, and the process that it is for. stream: as `_is_stream`, `_is_shut`, and
        the number of a stream that was accepted. times: as `_sent_at` and `_deadline`.
        """
        self = cls.__new__(cls)
        self._held, self._where, self._ahead, self.paths = held, where, False, paths
        self._reservation, path, self._pid = reserved
        if path is not None:
            self._path = path
        self._is_stream, self._is_shut, accepted = stream
        self._doorbell, self._asker = (-1, accepted) if self._is_stream else (accepted, -1)
        self._listener, self._hidden = listener.number, listener
        self._sent_at, self._deadline = times
        target = packed(where[0])
        self._source = packed(bound[0]) if bound[0] not in WILDCARDS else _SOURCE_OF_LOOPBACK
        self._ends = (self._source, bound[1]), (target, where[1])
        return self

    @property
    def is_reserved(self) -> bool:
        """Whether the accepting end need not wait for the answer."""
        return self._reservation is not None or self._is_stream

    def await_tcp(self, sock: Any) -> None:
        """On one host even a connect that does not block is over by now, unless a backlog is full."""

    def sent(self) -> None:
        """Begins the bounded time: from now on the accepting end may find the offer."""
        self._sent_at = genuine.monotonic()
        self._deadline = self._sent_at + bounded_seconds()

    @property
    def goes_ahead(self) -> bool:
        """Whether this end need not wait: it can hand over the accepting end's side at any time."""
        return self._ahead

    def listener(self, local: Any) -> int:
        """Gives away the descriptor of the listener at the offer's name. Raises Refused."""
        if packed(local[0]) != self._source:  # the accepting end cannot find the name
            raise Refused(Reason.PEER_NOT_LOCAL, f"connected from {local[0]}")
        listener, self._listener = self._listener, -1
        return listener

    def name_of(self, what: str) -> bytes:
        """A name that nothing else has. It tells both addresses of the connection."""
        return unique(connection_name(what, *self._ends))

    def withdraw(self) -> bool:
        """Ends the offer, unless the accepting end claimed it already. Says whether it ended."""
        if self._is_stream:
            if self._is_lost or not self._shut():
                return False
            self._is_stream = False
        elif self._reservation is not None:
            if not self._reservation.withdraw():
                return False
            self._reservation = None
        self._close()
        self._let_port_go()
        return True

    def abandon(self) -> None:
        """In a forked child: lets the offer go. The parent's meeting goes on without this process."""
        self._reservation, self._is_stream = None, False
        self._close()
        self._let_port_go()

    def held(self) -> Hidden:
        """Gives the holder of the port to the caller. May be called once."""
        held, self._held = self._held, None
        assert held is not None
        return held

    def _let_port_go(self) -> None:
        if self._held is not None:
            self.held().close()

    def _close(self) -> None:
        if self._listener >= 0:
            self._hidden.close()
        if self._doorbell >= 0:
            genuine.close(self._doorbell)
        self._close_asker()
        self._listener = self._doorbell = -1

    def _close_asker(self) -> None:
        if self._asker >= 0:
            genuine.close(self._asker)
        self._asker = -1

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_ending() and not self.withdraw():
            self._close()
            self._let_port_go()

    def answer(self, local: Any, descriptor: int, may_go_ahead: bool = False) -> Joined | None:
        """Waits the bounded time for the accepting end.

        descriptor: the TCP socket's. Returns None, if `may_go_ahead`, where the other end has not accepted the
        connection yet: then this end goes ahead. Raises Refused: then both ends stay on TCP. Raises OSError: then the
        TCP socket is lost. If a signal handler raises, a reserved offer stays as it was, and this may be called again.
        """
        try:
            if packed(local[0]) != self._source:  # the accepting end cannot find the name
                raise Refused(Reason.PEER_NOT_LOCAL, f"connected from {local[0]}")
            meet = self._take_stream if self._is_stream else self._meet
            joined = meet(descriptor, local, may_go_ahead)
            if joined is None:
                return None
        except (OSError, Refused) as error:
            if not self.withdraw() or isinstance(error, Refused):
                raise
            raise Refused.by(error) from error
        self.settled(joined.pid)
        return joined

    def settled(self, pid: int) -> int:
        """The process has joined. Gives away the doorbell's descriptor, and ends everything else but the port."""
        doorbell, self._doorbell = self._doorbell, -1
        self._reservation, self._is_stream = None, False
        self._close()
        history.joined(self._where, pid)
        return doorbell

    def _meet(self, descriptor: int, local: Any, may_go_ahead: bool) -> Joined | None:
        reservation, late, failure = self._reservation, False, 0
        claimed = reservation is not None and reservation.is_claimed()
        if self._doorbell < 0 and not claimed:
            try:
                self._doorbell = soon(self._accept, self._deadline, self._listener, descriptor)
            except TimeoutError:
                late = True
            except EOFError:
                failure = errno.ECONNRESET
            except OSError as error:
                failure = error.errno or errno.EIO
        ahead = -1
        accepted, is_signed = core.accepted(local, self._where) if late and core.available else (None, False)
        if may_go_ahead and (accepted is False or is_signed):
            ahead = self._listen_ahead()
        if reservation is not None:
            # A doorbell without a claim belongs to an accepting end that knows nothing of the reservation.
            if not reservation.withdraw(useless=self._doorbell >= 0):
                if ahead >= 0:
                    genuine.close(ahead)
                return self._as_reserved(reservation, local, descriptor, may_go_ahead)
            self._reservation = None
            if claimed:  # and given up: the other end may still come, as one that knows nothing of the reservation
                return self._meet(descriptor, local, may_go_ahead)
        if ahead >= 0:
            self._turn_ahead(ahead)
            return None
        if late:
            history.lapsed(self._where)
            after = f"after {(genuine.monotonic() - self._sent_at) * 1e3:.0f} ms"
            raise Refused(Reason.LISTENER_DID_NOT_ANSWER, _WHAT_IT_DID[accepted].format(after))
        if failure:
            raise OSError(failure, genuine.strerror(failure))
        try:
            return self._join()
        except TimeoutError:
            # It has fastsock, and its thread is kept from going on.
            if not may_go_ahead:
                raise Refused(Reason.LISTENER_DID_NOT_ANSWER) from None
        self._turn_ahead(self._listen_ahead())
        return None

    def _listen_ahead(self) -> int:
        return unix_calls.listen(connection_name("custody", *self._ends))

    def _turn_ahead(self, listener: int) -> None:
        """An end that connected back to the first name meanwhile is hung up on. It tries the other name."""
        self._hidden.close()
        if self._doorbell >= 0:
            genuine.close(self._doorbell)
            self._doorbell = -1
        self._listener, self._hidden, self._ahead = listener, Hidden(listener), True

    def _accept(self) -> int:
        if not self._hidden.is_ours():
            raise OSError(errno.EBADF, genuine.strerror(errno.EBADF))
        return unix_calls.accept(self._listener)

    # ---- nothing but a stream is needed, and the accepting end brings it ----

    def _shut(self) -> bool:
        """Lets nobody connect to the offer's name any more. Returns whether nobody has."""
        if self._asker < 0 and self._listener >= 0:
            if not self._hidden.is_ours():
                return True
            if not self._is_shut:
                # From here on the kernel refuses. Who came before waits in the queue.
                unix_calls.shut(self._listener)
                self._is_shut = True
            try:
                self._asker = unix_calls.accept(self._listener)
            except OSError as error:
                return error.errno not in NO_DESCRIPTORS
        return self._asker < 0

    def _take_stream(self, descriptor: int, local: Any, may_go_ahead: bool) -> Joined:
        """Meets an accepting end that connects, and passes this end's side of a stream. Or it never does either."""
        reason, detail = Reason.LISTENER_DID_NOT_ANSWER, ""
        while self._asker >= 0 or not self._is_shut:
            if self._asker < 0:
                try:
                    self._asker = soon(self._accept, self._deadline, self._listener, descriptor)
                except TimeoutError:
                    accepted, is_signed = core.accepted(local, self._where) if core.available else (None, False)
                    if accepted is not None and is_signed and self._is_worth_more(accepted):
                        continue
                    after = f"after {(genuine.monotonic() - self._sent_at) * 1e3:.0f} ms"
                    detail = _WHAT_IT_DID[accepted].format(after)
                except EOFError:
                    reason = Reason.SYSTEM_ERROR
                except OSError as error:
                    if error.errno not in NO_DESCRIPTORS:
                        raise
                if self._asker < 0 and self._shut():
                    break
            pid, reason, detail = self._hear(descriptor)
            if reason is Reason.JOINED:
                return Joined(self.paths[0], None, self._doorbell, pid, awaited=False)
            self._close_asker()
            self._shut()  # perhaps another one has come
        if reason is Reason.LISTENER_DID_NOT_ANSWER:
            history.lapsed(self._where)
        raise Refused(reason, detail)

    def _is_worth_more(self, accepted: bool) -> bool:
        """Whether the end that accepts by fastsock has more time. A stream alone cannot go ahead of it."""
        times = _SIGNED_PATIENCE if accepted else _BACKLOG_PATIENCE
        bounded, now = settings().meeting_ms / 1e3, genuine.monotonic()
        limit = self._sent_at + times * bounded
        if now >= limit:
            return False
        if not accepted and history.who_accepts(self._where) == genuine.getpid():  # perhaps this very thread
            return False
        self._deadline = min(limit, now + bounded)  # then it is asked for again: an end that stays on TCP says so
        return True

    def _hear(self, descriptor: int) -> tuple[int, Reason, str]:
        """Waits until the end that connected has passed the stream, or hung up. Returns its process as well."""
        if self._asker < 0:  # somebody may have connected, and no number is left for that: TCP's serves meanwhile
            tcp, inheritable = self._held, genuine.get_inheritable(descriptor)
            assert tcp is not None
            try:
                self._asker = self._accept_without_spare(descriptor)
            except OSError as error:
                return 0, Refused.by(error).reason, ""
            finally:
                genuine.dup2(tcp.number, descriptor, inheritable)
        pid, user = unix_calls.peer(self._asker)
        if not is_welcome(user):
            return pid, Reason.OTHER_USER, f"the other end runs as user {user}"
        try:
            if self._doorbell < 0:
                try:
                    self._doorbell = self._passed(self._asker)
                except OSError as error:
                    if error.errno not in NO_DESCRIPTORS:
                        raise
                    self._take_without_spare(descriptor)
        except OSError as error:
            if error.errno in NO_DESCRIPTORS:
                raise
            return pid, Reason.PEER_DECLINED, "the other end hung up"
        return pid, Reason.JOINED, ""

    def _passed(self, asker: int) -> int:
        """The descriptor that the end which connected passes. It stays in the queue as well. Raises OSError."""
        while True:
            try:
                found: int = soon(lambda: unix_calls.passed(asker), genuine.monotonic() + 1.0, asker)
                return found
            except TimeoutError:  # it is stopped, or this host is overloaded: it may be about to move
                pass

    def _take_without_spare(self, descriptor: int) -> None:
        """Lends TCP's number to the stream over which the other one comes. So that one's number is free for it."""
        tcp, inheritable = self._held, genuine.get_inheritable(descriptor)
        assert tcp is not None
        genuine.dup2(self._asker, descriptor, False)
        self._close_asker()
        give_up_at = genuine.monotonic() + 1.0
        try:
            while self._doorbell < 0:
                try:
                    self._doorbell = self._passed(descriptor)
                except OSError as error:  # another thread was faster
                    self._is_lost = error.errno in NO_DESCRIPTORS and genuine.monotonic() > give_up_at
                    if self._is_lost or error.errno not in NO_DESCRIPTORS:
                        raise
                    genuine.sleep(1e-3)
        finally:
            genuine.dup2(tcp.number, descriptor, inheritable)

    # ---- memory is reserved ----

    def _as_reserved(self, reservation: Reservation, local: Any, descriptor: int, may_go_ahead: bool) -> Joined | None:
        """Meets an accepting end that has claimed the memory. It connects now, or it gives its claim up."""
        while self._doorbell < 0 or not self._is_awaited(self._doorbell):
            if self._doorbell >= 0:
                genuine.close(self._doorbell)
                self._doorbell = -1
            try:
                self._doorbell = self._accept()
            except BlockingIOError:
                if not reservation.is_claimed():
                    break
                if not comes_first(self._listener, descriptor, self._pid):
                    self._reservation = None
                    raise Refused(Reason.PEER_DID_NOT_JOIN, "it ended after its claim") from None
            except OSError as error:
                if error.errno not in NO_DESCRIPTORS:
                    raise
                self._doorbell = self._accept_without_spare(descriptor)
        if not reservation.is_claimed():  # given up meanwhile
            return self._meet(descriptor, local, may_go_ahead)
        return Joined(self._path, self.join_reserved(), self._doorbell, self._pid, awaited=False)

    def join_reserved(self) -> Channel:
        """The channel, once the reservation is claimed and the doorbell has come."""
        assert self._reservation is not None
        return self._reservation.join(self._doorbell, settings(), f"{self._where[0]}:{self._where[1]}")

    def _is_awaited(self, doorbell: int) -> bool:
        """Whether the other end of `doorbell` is the process that claimed, and runs as a user that may meet."""
        pid, user = unix_calls.peer(doorbell)
        return pid == self._pid and is_welcome(user)

    def _accept_without_spare(self, descriptor: int) -> int:
        """Reuses the TCP socket's number for the listener, and the listener's number for the doorbell."""
        genuine.dup2(self._listener, descriptor, False)
        self._hidden.close()
        self._listener = -1
        give_up_at = genuine.monotonic() + 1.0
        while True:
            try:
                return unix_calls.accept(descriptor)
            except OSError as error:  # another thread was faster
                if error.errno not in NO_DESCRIPTORS or genuine.monotonic() > give_up_at:
                    raise
                genuine.sleep(1e-3)

    def _join(self) -> Joined:
        pid = peer_process(self._doorbell)
        refused: Refused | None = None
        while True:
            try:
                return self._try_join(pid, refused)
            except Unusable as error:
                refused = Refused(error.reason, error.detail)
                with contextlib.suppress(OSError):  # the other end is gone already: the next hello does not come
                    borrowed(self._doorbell, lambda stream: stream.send(hello.AGAIN, _socket.MSG_NOSIGNAL))

    def _try_join(self, pid: int, refused: Refused | None) -> Joined:
        """refused: the reason why the offer before could not serve, or None."""
        doorbell = self._doorbell
        passed: list[int] = []

        def receive() -> bytes:
            return borrowed(doorbell, lambda stream: hello.receive(stream, passed))  # type: ignore[no-any-return]

        try:
            data = soon(receive, self._deadline, doorbell)
            return self._heed(data, passed, pid, refused)
        except TimeoutError:
            if refused is None:
                raise
            raise refused from None
        finally:
            for descriptor in passed:
                genuine.close(descriptor)

    def _heed(self, data: bytes, passed: list[int], pid: int, refused: Refused | None) -> Joined:
        if not hello.is_whole(data) or not passed:
            raise refused or Refused(Reason.PEER_DECLINED, "the other end hung up")
        path_number, number = hello.unpack(data)
        path = chain.by_number(path_number)
        allowed, reason = chain.candidates("connect", *self._where)
        if path is None or path not in allowed:
            raise Refused(Reason.PEER_DECLINED if allowed else reason, f"path number {path_number} is not allowed here")
        token, memory_descriptors = passed[0], passed[1:]
        where = f"{self._where[0]}:{self._where[1]}"
        try:
            channel = borrowed(
                self._doorbell, lambda stream: path.join(stream, memory_descriptors, number, settings(), where, pid)
            )
        except Refused as error:
            raise Unusable(error.reason, error.detail) from error
        if not take_token(token):
            raise Refused(Reason.PEER_DID_NOT_JOIN, "the other end stopped waiting first")
        return Joined(path, channel, self._doorbell, pid, awaited=True)
