"""The owning side: what this process has lent to others, and the links over which their memory goes there.

A link joins this process to the desk of another one (desk.py): a UNIX stream of messages, over which each descriptor
goes once, and a ledger in shared memory with a word for each loan. Nothing comes back over the stream. Its end, and the
process's, say that the other side is gone.
"""

from __future__ import annotations

import _socket
import atexit
import errno
import os
import struct
import weakref
from collections import deque

from .. import core
from ..system.forkable import new_recursive_lock
from ..system.genuine import genuine
from ..system.hidden import Hidden

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAME = "\0fastsock-buffers-{:09x}"
CONNECTION_BITS = 28  # of a desk's word: the low bits tell its connections apart
MOST_NUMBERS = 4096  # memories that one process passes to another
SEQUENCED = _socket.SOCK_SEQPACKET | _socket.SOCK_NONBLOCK | _socket.SOCK_CLOEXEC
_CREDENTIALS = struct.Struct("iII")
_BUSY = (errno.EAGAIN, errno.ETOOMANYREFS, errno.ENOBUFS)

HOME, AWAY, LOST = 0, 1, 2


def peer_of(sock: Any) -> tuple[int, int]:
    """Process and user at the other end of a UNIX socket, as the kernel tells them."""
    data = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, _ = _CREDENTIALS.unpack(data)
    return process, user


class Loan:
    """A buffer that another process has, or will have. memory: stays until the loan is settled."""

    __slots__ = ("link", "memory", "only_read", "serial", "slot")

    def __init__(self, link: Link, memory: Any, slot: int, serial: int, only_read: bool) -> None:
        self.link = link
        self.memory = memory
        self.slot = slot
        self.serial = serial
        self.only_read = only_read

    def look(self) -> int:
        """HOME, AWAY or LOST. LOST: that process has ended, and somebody may have the memory for ever."""
        state = self.link.ledger.state(self.slot, self.serial)
        if state == core.LOAN_RETURNED or state == core.LOAN_FREE:
            return HOME
        if state == core.LOAN_SPENT:
            return LOST
        if self.link.is_dead():
            # what it did last counts: it may have returned the buffer and died then
            state = self.link.ledger.state(self.slot, self.serial)
            return HOME if state == core.LOAN_RETURNED else LOST
        return AWAY

    def cancel(self) -> bool:
        """Takes it back; whether nobody had taken it."""
        return self.link.ledger.cancel(self.slot, self.serial)  # type: ignore[no-any-return]

    def settled(self) -> None:
        """It is over: its slot is free for another one."""
        self.link.free(self)


class Link:
    """This process's way to the desk of another one."""

    def __init__(self, desk: int) -> None:
        memory = core.Memory.make(core.LEDGER_BYTES)
        sock = _socket.socket(_socket.AF_UNIX, SEQUENCED)
        try:
            sock.connect(NAME.format(desk))
            self.process, user = peer_of(sock)
            if user != genuine.geteuid():
                raise PermissionError(errno.EPERM, "the desk is another user's")
            self._process_file = Hidden(genuine.pidfd_open(self.process)) if self.process else None
        except BaseException:
            sock.close()
            raise
        self.number = int.from_bytes(genuine.urandom(8), "little")
        self.ledger = core.Ledger(memory)
        self._sock = sock
        self._file = Hidden(sock.fileno())
        self._free = deque(range(core.LEDGER_SLOTS))
        self._serial = 0
        self._numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._next_number = 0
        self._forgotten: deque[int] = deque()
        self._abandoned: deque[Loan] = deque()
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
            poll = genuine.poll()
            if self._file.is_ours():
                poll.register(self._file.number, 0)
            if self._process_file is not None and self._process_file.is_ours():
                poll.register(self._process_file.number, 1)
            self._is_dead = bool(poll.poll(0))
        return self._is_dead

    def _number_of(self, memory: Any) -> int:
        number = self._numbers.get(memory)
        if number is None:
            if len(self._numbers) >= MOST_NUMBERS:
                raise OSError(errno.ENOBUFS, "too many buffers for one process")
            number = self._next_number
            self._pass(core.pack_memo(core.MEMO_MEMORY, self.number, memory.nbytes, number), memory)
            self._next_number += 1
            self._numbers[memory] = number
            weakref.finalize(memory, self._forgotten.append, number).atexit = False
        return number

    def _tell_forgotten(self) -> None:
        while self._forgotten:
            self._pass(core.pack_memo(core.MEMO_FORGET, self.number, 0, self._forgotten[0]))
            self._forgotten.popleft()

    def lend(self, memory: Any, only_read: bool, desk: int) -> tuple[Loan, int] | None:
        """A loan, and the memory's number there. None: the other process must look first, so it is to be copied."""
        try:
            if self._abandoned:
                self._sweep()
            if self._forgotten:
                self._tell_forgotten()
            number = self._number_of(memory)
        except OSError as error:
            if error.errno in _BUSY or self.is_dead():
                return None
            raise
        if not self._free:
            return None
        self._serial += 1
        loan = Loan(self, memory, self._free.popleft(), self._serial, only_read)
        self.ledger.send(loan.slot, loan.serial, desk & (1 << CONNECTION_BITS) - 1)
        return loan, number

    def free(self, loan: Loan) -> None:
        """The loan is settled."""
        self._free.append(loan.slot)

    def abandon(self, loan: Loan) -> None:
        """Nobody will settle the loan."""
        self._abandoned.append(loan)

    def _sweep(self) -> None:
        """Settles the abandoned loans that are over."""
        for _ in range(len(self._abandoned)):
            loan = self._abandoned.popleft()
            if loan.look() == AWAY:
                self._abandoned.append(loan)
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


def link_to(desk: int) -> Link | None:
    """The link to the process whose desk's word that is; None where it cannot be had, so buffers are copied."""
    identity = desk >> CONNECTION_BITS
    link = _links.get(identity)
    if link is not None:
        return link
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
