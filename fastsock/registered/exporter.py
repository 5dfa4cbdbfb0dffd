"""The owning side: what this process has lent to others, and the links over which their memory goes there.

A link joins this process to the importer of another one (importer.py): a UNIX stream of messages, over which each
descriptor goes once, and a ledger in shared memory with a word for each loan. Nothing comes back over the stream. Its
end, and the process's, say that the other side is gone.
"""

from __future__ import annotations

import _socket
import atexit
import errno
import os
import struct
import weakref

from .. import core
from ..system.forkable import new_recursive_lock
from ..system.originals import originals
from ..system.owned_descriptor import OwnedDescriptor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


NAME = "\0fastsock-buffers-{:09x}"
CONNECTION_BITS: int = core.IMPORTER_CONNECTION_BITS if core.available else 0
MOST_NUMBERS = 4096  # memories that one process passes to another
SEQUENCED = _socket.SOCK_SEQPACKET | _socket.SOCK_NONBLOCK | _socket.SOCK_CLOEXEC
_CREDENTIALS = struct.Struct("iII")
_BUSY = (errno.EAGAIN, errno.ETOOMANYREFS, errno.ENOBUFS)


def peer_of(sock: Any) -> tuple[int, int]:
    """Process and user at the other end of a UNIX socket, as the kernel tells them."""
    data = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, _ = _CREDENTIALS.unpack(data)
    return process, user


_ExportLink: Any = core.ExportLink if core.available else object


class Link(_ExportLink):  # type: ignore[misc]
    """This process's way to the importer of another one."""

    def __init__(self, importer: int) -> None:
        memory = core.Memory.make(core.LEDGER_BYTES)
        sock = _socket.socket(_socket.AF_UNIX, SEQUENCED)
        try:
            sock.connect(NAME.format(importer))
            self.process, user = peer_of(sock)
            if user != originals.geteuid():
                raise PermissionError(errno.EPERM, "the importer is another user's")
            self._process_file = OwnedDescriptor(originals.pidfd_open(self.process)) if self.process else None
        except BaseException:
            sock.close()
            raise
        super().__init__(memory, int.from_bytes(originals.urandom(8), "little"))
        self._sock = sock
        self._file = OwnedDescriptor(sock.fileno())
        self._next_number = 0
        self._is_dead = False
        self._pass(core.pack_memo(core.MEMO_HELLO, self.number, core.LEDGER_BYTES), memory)

    def _pass(self, memo: bytes, memory: Any = None) -> None:
        """Raises OSError, EAGAIN where the other process has not looked for long."""
        if not self._file.is_ours():
            raise OSError(errno.EBADF, "the program has closed a descriptor of fastsock")
        rights = [] if memory is None else [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("i", memory.fileno()))]
        self._sock.sendmsg([memo], rights, _socket.MSG_NOSIGNAL)

    def is_dead(self) -> bool:
        """Whether that process has ended, or does not take buffers any more."""
        if not self._is_dead:
            poll = originals.poll()
            if self._file.is_ours():
                poll.register(self._file.number, 0)
            if self._process_file is not None and self._process_file.is_ours():
                poll.register(self._process_file.number, 1)
            self._is_dead = bool(poll.poll(0))
        return self._is_dead

    def prepare(self, memory: Any) -> bool:
        """Whether the memory can be lent: it has a number there. False: the other process must look first."""
        try:
            self._sweep()
            self._send_forgotten()
            self._pass_memory(memory)
        except OSError as error:
            if error.errno in _BUSY or self.is_dead():
                return False
            raise
        return True

    def _pass_memory(self, memory: Any) -> None:
        key = id(memory)
        if key in self.numbers:
            return
        if len(self.numbers) >= MOST_NUMBERS:
            raise OSError(errno.ENOBUFS, "too many buffers for one process")
        number = self._next_number
        self._pass(core.pack_memo(core.MEMO_MEMORY, self.number, memory.nbytes, number), memory)
        self._next_number += 1
        numbers, forgotten = self.numbers, self.forgotten

        def gone(reference: Any) -> None:
            del numbers[key]
            forgotten.append(number)

        numbers[key] = number, weakref.ref(memory, gone)

    def _send_forgotten(self) -> None:
        while self.forgotten:
            self._pass(core.pack_memo(core.MEMO_FORGET, self.number, 0, self.forgotten[0]))
            self.forgotten.popleft()

    def abandon(self, loan: Any) -> None:
        """Nobody will settle the loan."""
        self.abandoned.append(loan)

    def _sweep(self) -> None:
        """Settles the abandoned loans that are over."""
        for _ in range(len(self.abandoned)):
            loan = self.abandoned.popleft()
            if loan.look() == core.LOAN_AWAY:
                self.abandoned.append(loan)
            else:
                self.free(loan)

    def close(self) -> None:
        self._is_dead = True
        if self._file.is_ours():
            self._sock.close()
        else:
            self._sock.detach()
        if self._process_file is not None:
            self._process_file.close()


lock = new_recursive_lock()
_links: dict[int, Link] = {}


def link_to(importer: int) -> Link | None:
    """The link to the process whose importer's word that is; None where it cannot be had, so buffers are copied."""
    link = _links.get(importer >> CONNECTION_BITS)
    if link is not None:
        return link
    with lock:
        return _links.get(importer >> CONNECTION_BITS) or _new_link(importer >> CONNECTION_BITS)


def _new_link(identity: int) -> Link | None:
    for known in [known for known, each in _links.items() if each.is_dead()]:
        _links.pop(known).close()
    try:
        link = Link(identity)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            raise
        return None  # nobody is there, or another user, or its queue is full
    _links[identity] = link
    return link


def _forget() -> None:
    """At the end; and in a forked child, where the links are the parent's."""
    for link in _links.values():
        link.close()
    _links.clear()


os.register_at_fork(after_in_child=_forget)
atexit.register(_forget)
