# cython: language_level=3, boundscheck=False, wraparound=True, freethreading_compatible=True
"""How frames go out: what the packer holds goes from where it lies, with its large parts behind it.

Whoever holds `sending` packs and sends one frame. Where the other end takes nothing, the sender receives meanwhile: two
ends that both send much do not stop each other.
"""
from fastsock.rmi.wire._frames cimport HEADER_BYTES, put_header

from _socket import MSG_DONTWAIT

from fastsock.rmi.errors import LimitExceeded, LostPeer
from fastsock.rmi.interrupts import interrupted
from fastsock.rmi.wire._locks import Lock

ROOM_EVERY = 1 << 18  # bytes that a sender without room receives before it looks for room again
PATIENCE = 0.002  # seconds that a sender waits for room before it looks for something to receive


cdef class Sender(Receiver):
    """The sending half of a connection."""

    def __init__(self, sock, carrier, session, packer, unpacker, peer, limit):
        Receiver.__init__(self, sock, carrier, session, unpacker, peer, limit)
        self.frames_sent = 0
        self.bytes_sent = 0
        self.sending = Lock()
        self.on_blocked = None  # of an event loop, that sends the rest when there is room
        self._packer = packer
        self._unsent = []
        self._send = sock.send
        self._send_gather = sock.sendmsg

    cpdef Py_ssize_t send_plain(
        self, int kind, int flags, unsigned int number, unsigned int object_number, unsigned int method, object values,
    ) except -1:
        """Sends one frame of these values, packed one by one. Returns its bytes, as frame_bytes() of the other end."""
        cdef Packer packer
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

    cpdef Py_ssize_t send_value(self, int kind, unsigned int number, object value) except -1:
        """As send_plain(), of one value."""
        cdef Packer packer
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

    cdef int _abandon(self) except -1:
        """What was packed does not go."""
        self._packer.abandon()
        self.session.references.abandoned()

    cdef Py_ssize_t _send_frame(
        self, int kind, int flags, unsigned int number, unsigned int object_number, unsigned int method,
    ) except -1:
        """Sends what the packer holds, and returns its bytes but those of the header."""
        cdef Py_ssize_t sent
        cdef Packer packer = self._packer
        packer.close()
        cdef Py_ssize_t length = packer.at
        cdef Py_ssize_t count = len(packer.segments)
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
        return length - HEADER_BYTES

    cdef Py_ssize_t _send_scratch(self, Py_ssize_t length) except -1:
        """Sends what finds room of so many bytes."""
        if self._is_native:
            return send_scratch(self._carrier, self._packer, length, self.on_blocked is not None)
        return self._send_parts([self._packer.whole[:length]])

    cdef Py_ssize_t _send_parts(self, list parts) except -1:
        """Sends the first bytes of the parts together: a reader that waits finds no header without what follows it."""
        if self._is_native:
            return send_views(self._carrier, parts, self.on_blocked is not None)
        try:
            if len(parts) == 1:
                return self._send(parts[0], MSG_DONTWAIT)
            return self._send_gather(parts[:MOST_PARTS], (), MSG_DONTWAIT)
        except BlockingIOError:
            return 0

    cdef Py_ssize_t _send_with_segments(self, Py_ssize_t length) except -1:
        cdef Packer packer = self._packer
        views = [memoryview(each).cast("B") for each in packer.segments]
        cdef Py_ssize_t total = length + sum([len(each) for each in views])
        if total > self.limit:
            self._abandon()
            raise LimitExceeded(f"{self.peer}: a message of {total} bytes is beyond the limit of {self.limit}")
        self.frames_sent += 1
        self.bytes_sent += total
        self._push([packer.whole[:length], *views])
        return total - HEADER_BYTES

    cdef object _push(self, object parts):
        """Sends the parts, behind what is unsent. Receives meanwhile where there is no room."""
        cdef Py_ssize_t sent
        cdef list pending = self._unsent
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

    cdef int _take_off(self, Py_ssize_t sent) except -1:
        """The first bytes of what is unsent have gone."""
        cdef list pending = self._unsent
        cdef Py_ssize_t gone = 0
        cdef Py_ssize_t left = sent
        while gone < len(pending) and left >= len(pending[gone]):
            left -= len(pending[gone])
            gone += 1
        del pending[:gone]
        if left:
            pending[0] = pending[0][left:]

    cpdef bint send_unsent(self) except -1:
        """Sends what found no room, as far as there is room now. Whether nothing is left. Raises LostPeer."""
        self.sending.acquire()
        try:
            if self._unsent:
                self._push([])
            return not self._unsent
        finally:
            self.sending.release()

    cdef int _await_room(self) except -1:
        """The other end takes nothing. Perhaps it sends, and waits for this end to receive."""
        cdef unsigned long long received = self.bytes_received
        self.receive_what_came(ROOM_EVERY)  # it may send faster than this end receives
        if self.lost is not None:
            raise self.session.gone(None, True)
        if self.bytes_received == received:
            self.session.await_room(PATIENCE)

    cpdef object cannot_send(self, object error):
        """The other end takes nothing any more. What it sent before it left is received, then the connection ends.

        Another thread that receives comes to that end by itself.
        """
        if isinstance(error, (BrokenPipeError, ConnectionResetError)) and not self.receive_what_came():
            return
        self.fail(error)

    # ---- what the whole connection does ----

    cpdef object receive_what_came(self, unsigned long long most=0):
        """Receives without waiting, and not much more than so many bytes (0: all). False: another thread receives."""
        raise NotImplementedError

    cpdef object wait_on(self, Call call, double deadline):
        """Receives until the call is done. Raises TimeoutError: then the call goes on."""
        raise NotImplementedError

    cpdef object settle(self, Call call, object value, bint failed):
        """The call is done."""
        raise NotImplementedError

    cpdef object fail(self, object error):
        """The connection is of no use any more: all calls on their way end with the error. Idempotent."""
        raise NotImplementedError
