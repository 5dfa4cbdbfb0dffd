# cython: language_level=3, annotation_typing=False, boundscheck=False, wraparound=True, freethreading_compatible=True
"""How frames go out: what the packer holds goes from where it lies, with its large parts behind it.

Whoever holds `sending` packs and sends one frame. Where the other end takes nothing, the sender receives meanwhile: two
ends that both send much do not stop each other.
"""

from __future__ import annotations

from _socket import MSG_DONTWAIT
from typing import Any

try:
    import cython
except ModuleNotFoundError:
    from fastsock.rmi import _interpreted as cython

from fastsock.rmi._locks import Lock
from fastsock.rmi.errors import LimitExceeded, LostPeer
from fastsock.rmi.interrupts import interrupted

if not cython.compiled:
    from fastsock.rmi._receiving import Receiver
    from fastsock.rmi.frames import HEADER_BYTES, put_header

    MOST_PARTS = 64  # of one send
    send_scratch: Any = None  # of native carriers, which only compiled code calls past Python
    send_views: Any = None

ROOM_EVERY = 1 << 18  # bytes that a sender without room receives before it looks for room again
PATIENCE = 0.002  # seconds that a sender waits for room before it looks for something to receive


class Sender(Receiver):
    """The sending half of a connection."""

    def __init__(
        self, sock: Any, carrier: Any, session: Any, packer: Any, unpacker: Any, peer: str, limit: int
    ) -> None:
        Receiver.__init__(self, sock, carrier, session, unpacker, peer, limit)
        self.frames_sent = 0
        self.bytes_sent = 0
        self.sending = Lock()
        self.on_blocked: Any = None  # of an event loop, that sends the rest when there is room
        self._packer = packer
        self._unsent: list[Any] = []
        self._send = sock.send
        self._send_gather = sock.sendmsg

    def send_plain(self, kind: int, flags: int, number: int, object_number: int, method: int, values: Any) -> int:
        """Sends one frame of these values, packed one by one. Returns its bytes, as frame_bytes() of the other end."""
        self.sending.acquire()
        try:
            if self.lost is not None:
                raise self.session.gone(None, False)
            packer = self._packer
            packer.start(HEADER_BYTES)
            try:
                for value in values:
                    packer.pack(value)
            except BaseException:
                self._abandon()
                raise
            return self._send_frame(kind, flags, number, object_number, method)
        finally:
            self.sending.release()

    def send_value(self, kind: int, number: int, value: Any) -> int:
        """As send_plain(), of one value."""
        self.sending.acquire()
        try:
            if self.lost is not None:
                raise self.session.gone(None, False)
            packer = self._packer
            packer.start(HEADER_BYTES)
            try:
                packer.pack(value)
            except BaseException:
                self._abandon()
                raise
            return self._send_frame(kind, 0, number, 0, 0)
        finally:
            self.sending.release()

    def _abandon(self) -> None:
        """What was packed does not go."""
        self._packer.abandon()
        self.session.references.abandoned()

    def _send_frame(self, kind: int, flags: int, number: int, object_number: int, method: int) -> int:
        """Sends what the packer holds, and returns its bytes but those of the header."""
        packer = self._packer
        packer.close()
        length = packer.at
        count = len(packer.segments)
        if length - HEADER_BYTES > self.limit or count > 0xFFFF:
            self._abandon()
            raise LimitExceeded(
                f"{self.peer}: a message of {length - HEADER_BYTES} bytes beside {count} large parts is beyond"
                f" the limit of {self.limit} bytes"
            )
        put_header(packer, length - HEADER_BYTES, kind, flags, count, number, object_number, method)
        if count:
            return self._send_with_segments(length)
        self.frames_sent += 1
        self.bytes_sent += length
        sent = 0
        if not self._unsent:
            try:
                sent = self._send_scratch(length)
            except OSError as error:
                if interrupted(error):
                    self.fail(error)
                    raise
                self.cannot_send(error)
                raise self.session.gone(None, True) from error
        if sent < length:
            self._push([packer.whole[sent:length]])
        return length - HEADER_BYTES  # type: ignore[no-any-return]

    def _send_scratch(self, length: int) -> int:
        """Sends what finds room of so many bytes."""
        if self._is_native:
            return send_scratch(self._carrier, self._packer, length, self.on_blocked is not None)  # type: ignore[no-any-return]
        return self._send_parts([self._packer.whole[:length]])

    def _send_parts(self, parts: Any) -> int:
        """Sends the first bytes of the parts together: a reader that waits finds no header without what follows it."""
        if self._is_native:
            return send_views(self._carrier, parts, self.on_blocked is not None)  # type: ignore[no-any-return]
        try:
            if len(parts) == 1:
                return self._send(parts[0], MSG_DONTWAIT)  # type: ignore[no-any-return]
            return self._send_gather(parts[:MOST_PARTS], (), MSG_DONTWAIT)  # type: ignore[no-any-return]
        except BlockingIOError:
            return 0

    def _send_with_segments(self, length: int) -> int:
        packer = self._packer
        views = [memoryview(each).cast("B") for each in packer.segments]
        total = length + sum([len(each) for each in views])
        if total > self.limit:
            self._abandon()
            raise LimitExceeded(f"{self.peer}: a message of {total} bytes is beyond the limit of {self.limit}")
        self.frames_sent += 1
        self.bytes_sent += total
        self._push([packer.whole[:length], *views])
        return total - HEADER_BYTES

    def _push(self, parts: Any) -> None:
        """Sends the parts, behind what is unsent. Receives meanwhile where there is no room."""
        pending = self._unsent
        parts = [part for part in parts if len(part)]
        pending.extend(parts)
        try:
            while pending:
                sent = self._send_parts(pending)
                if sent:
                    self._take_off(sent)
                elif self.on_blocked is None:
                    self._await_room()
                else:
                    at = len(pending) - len(parts)
                    if 0 <= at < len(pending):
                        pending[at] = memoryview(bytes(pending[at]))  # of the scratch, which is used again
                    self.on_blocked()
                    return
        except BaseException as error:
            if isinstance(error, OSError) and not interrupted(error):
                self.cannot_send(error)
                raise self.session.gone(None, True) from error
            # a signal handler's: the rest must go all the same, and the program may change its memory
            try:
                pending[:] = [memoryview(bytes(part)) for part in pending]
            except MemoryError:
                del pending[:]
                self.fail(LostPeer(f"{self.peer}: a message was sent in part, and there is no memory for the rest"))
            raise

    def _take_off(self, sent: int) -> None:
        """The first bytes of what is unsent have gone."""
        pending = self._unsent
        gone = 0
        left = sent
        while gone < len(pending) and left >= len(pending[gone]):
            left -= len(pending[gone])
            gone += 1
        del pending[:gone]
        if left:
            pending[0] = pending[0][left:]

    def send_unsent(self) -> bool:
        """Sends what found no room, as far as there is room now. Whether nothing is left. Raises LostPeer."""
        self.sending.acquire()
        try:
            if self._unsent:
                self._push([])
            return not self._unsent
        finally:
            self.sending.release()

    def _await_room(self) -> None:
        """The other end takes nothing. Perhaps it sends, and waits for this end to receive."""
        received = self.bytes_received
        self.receive_what_came(ROOM_EVERY)  # it may send faster than this end receives
        if self.lost is not None:
            raise self.session.gone(None, True)
        if self.bytes_received == received:
            self.session.await_room(PATIENCE)

    def cannot_send(self, error: Any) -> None:
        """The other end takes nothing any more. What it sent before it left is received, then the connection ends.

        Another thread that receives comes to that end by itself.
        """
        if isinstance(error, (BrokenPipeError, ConnectionResetError)) and not self.receive_what_came():
            return
        self.fail(error)

    # ---- what the whole connection does ----

    def receive_what_came(self, most: int = 0) -> bool:
        """Receives without waiting, and not much more than so many bytes (0: all). False: another thread receives."""
        raise NotImplementedError

    def wait_on(self, call: Any, deadline: float) -> None:
        """Receives until the call is done. Raises TimeoutError: then the call goes on."""
        raise NotImplementedError

    def settle(self, call: Any, value: Any, failed: bool) -> None:
        """The call is done."""
        raise NotImplementedError

    def fail(self, error: Any) -> None:
        """The connection is of no use any more: all calls on their way end with the error. Idempotent."""
        raise NotImplementedError
