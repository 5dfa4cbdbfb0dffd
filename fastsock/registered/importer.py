"""The receiving side of a process: the importer, to which others pass memory, and what they have lent to this process.

A process has one importer. Its name is a random number, which the other end of a connection reads in the memory that
both ends share (Carrier.show_importer). Nobody waits there: an owner connects and leaves what it passes. That is taken
when the stream says that a buffer comes.
"""

from __future__ import annotations

import _socket
import atexit
import errno
import os
import struct

from .. import core
from ..system.forkable import new_recursive_lock
from ..system.originals import originals
from ..system.owned_descriptor import OwnedDescriptor
from .errors import BufferFormatError, LostBufferError
from .exporter import CONNECTION_BITS, MOST_NUMBERS, NAME, SEQUENCED, peer_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_MOST_WAITING = 128
_SPACE = _socket.CMSG_SPACE(struct.calcsize("i"))


_ImportLink: Any = core.ImportLink if core.available else object


class Owner(_ImportLink):  # type: ignore[misc]
    """A process that passes memory to this one: the other side of a Link (exporter.py)."""

    def __init__(self, sock: Any) -> None:
        super().__init__()
        self._sock = sock
        self._file = OwnedDescriptor(sock.fileno())
        self.process, self.user = peer_of(sock)
        self.number = -1  # until it has said hello
        self._wrong = ""  # what it did that none does
        self._is_closed = False

    def look(self) -> bool:
        """Takes what it has passed since. False: it has gone.

        Raises OSError where memory cannot be taken now: it stays. Raises BufferFormatError for nonsense, each time.
        """
        while not self._is_closed:
            if not self._file.is_ours():
                raise OSError(errno.EBADF, "the program has closed a descriptor of fastsock")
            passed: list[int] = []
            try:
                try:
                    # a look first: what is taken without a free number, or without memory, would be lost
                    data, ancillary, flags, _ = self._sock.recvmsg(
                        core.MEMO_BYTES + 1, _SPACE, _socket.MSG_PEEK | _socket.MSG_CMSG_CLOEXEC
                    )
                except BlockingIOError:
                    return True
                except ConnectionError:
                    return False
                for level, kind, content in ancillary:
                    if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
                        passed.extend(struct.unpack(f"{len(content) // 4}i", content[: len(content) // 4 * 4]))
                if not data:
                    return False
                if flags & _socket.MSG_CTRUNC and not passed:
                    raise OSError(errno.EMFILE, "no descriptor is free for a buffer: raise `ulimit -n`")
                self._note(data, passed)
                self._sock.recv(core.MEMO_BYTES)
            except BufferFormatError as error:
                self._wrong = str(error)
                self.close()
            finally:
                for descriptor in passed:
                    originals.close(descriptor)
        if self._wrong:
            raise BufferFormatError(f"{self._wrong}: close this connection")
        return False

    def _note(self, data: bytes, passed: list[int]) -> None:
        try:
            kind, link, size, number = core.unpack_memo(data)
        except ValueError as error:
            raise BufferFormatError(f"process {self.process} passed nonsense: {error}") from None
        if kind == core.MEMO_FORGET:
            self.memories.pop(number, None)
            return
        if len(passed) != 1:
            raise BufferFormatError(f"process {self.process} passed {len(passed)} descriptors instead of one")
        if (self.number == -1) != (kind == core.MEMO_HELLO) or self.number not in (-1, link):
            raise BufferFormatError(f"process {self.process} passed a memo out of order")
        if kind == core.MEMO_HELLO and size != core.LEDGER_BYTES:
            raise BufferFormatError(f"process {self.process} has another kind of ledger: its version differs")
        if kind == core.MEMO_MEMORY and (number in self.memories or len(self.memories) >= MOST_NUMBERS):
            raise BufferFormatError(f"process {self.process} passed memory {number} twice, or too many")
        try:
            memory = core.Memory.of_peer(passed[0], size)
        except OSError as error:
            if error.errno != errno.EPROTO:
                raise
            raise BufferFormatError(
                f"process {self.process} passed memory that is not sealed, or not of {size} bytes"
            ) from None
        passed.clear()
        if kind == core.MEMO_HELLO:
            self.ledger = core.Ledger(memory)
            self.number = link
        else:
            self.memories[number] = memory

    def close(self) -> None:
        self._is_closed = True
        if self._file.is_ours():
            self._sock.close()
        else:
            self._sock.detach()


class Importer:
    """Where other processes pass memory to this one."""

    def __init__(self) -> None:
        self.number = 0
        self._sock = _socket.socket(_socket.AF_UNIX, SEQUENCED)
        try:
            while True:
                self.number = int.from_bytes(originals.urandom(8), "little") >> CONNECTION_BITS or 1
                try:
                    self._sock.bind(NAME.format(self.number))
                    break
                except OSError as error:
                    if error.errno != errno.EADDRINUSE:
                        raise
            self._sock.listen(_MOST_WAITING)
        except BaseException:
            self._sock.close()
            raise
        self._file = OwnedDescriptor(self._sock.fileno())
        self._connections = 0
        self._open: set[int] = set()  # the words of connections that are
        self._unnamed: list[Owner] = []
        self.owners: dict[int, Owner] = {}

    def show(self, carrier: Any) -> None:
        """The other end of that connection may hand buffers over from now on."""
        if carrier.shown_importer() >> CONNECTION_BITS == self.number:
            return
        self._connections = (self._connections + 1) % (1 << CONNECTION_BITS)
        word = self.number << CONNECTION_BITS | self._connections
        self._open.add(word)
        carrier.show_importer(word, lambda: self._closed(word))

    def _closed(self, word: int) -> None:
        """This process has closed the connection: what came and was not taken goes back."""
        with lock:
            self._open.discard(word)
            try:
                self._look()
            finally:
                for owner in list(self.owners.values()):
                    owner.ledger.decline(word & (1 << CONNECTION_BITS) - 1)

    def _look(self) -> None:
        """Takes what others have passed."""
        while self._file.is_ours():
            try:
                self._unnamed.append(Owner(self._accepted()))
            except BlockingIOError:
                break
        for owner in list(self._unnamed):
            is_there = _settle(owner)
            if owner.number != -1:
                self.owners[owner.number] = owner
            elif not is_there:
                owner.close()
            if owner.number != -1 or not is_there:
                self._unnamed.remove(owner)
        if not self._open:  # of the dead nothing is under way any more
            for number, owner in list(self.owners.items()):
                if not _settle(owner):
                    del self.owners[number]
                    owner.close()

    def _accepted(self) -> Any:
        descriptor, _ = self._sock._accept()  # type: ignore[attr-defined]
        sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, descriptor)
        sock.setblocking(False)
        return sock

    def find(self, word: int, link: int, number: int) -> Owner:
        """Whose memory the stream announced, when it is here. Raises LostBufferError, BufferFormatError, OSError."""
        if word >> CONNECTION_BITS != self.number:
            raise LostBufferError(
                "the buffer was handed to another process of this connection: the one that called recv_buffer() before"
            )
        owner = self.owners.get(link)
        if owner is None:
            self._look()
            owner = self.owners.get(link)
        if owner is None:
            raise BufferFormatError("a buffer of nobody's: no process has passed memory over that link")
        if number not in owner.memories:
            owner.look()
        if number not in owner.memories:
            raise BufferFormatError(f"a buffer without memory: process {owner.process} has passed none of that number")
        return owner

    def close(self) -> None:
        if self._file.is_ours():
            self._sock.close()
        else:
            self._sock.detach()
        for owner in [*self.owners.values(), *self._unnamed]:
            owner.close()


def _settle(owner: Owner) -> bool:
    """owner.look(), for one that nobody waits for."""
    if owner.user != originals.geteuid():
        owner.close()
    try:
        return owner.look()
    except BufferFormatError:
        return False


lock = new_recursive_lock()
_importer: Importer | None = None


def importer() -> Importer:
    """This process's. Raises OSError."""
    global _importer
    if _importer is None:
        _importer = Importer()
    return _importer


def _forget() -> None:
    """At the end; and in a forked child, where the importer is the parent's."""
    global _importer
    if _importer is not None:
        _importer.close()
    _importer = None


os.register_at_fork(after_in_child=_forget)
atexit.register(_forget)
