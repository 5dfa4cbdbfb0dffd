"""Reads what processes show of themselves. core/shown.h has the form. Each word is another process's."""

from __future__ import annotations

import _socket
import os
import stat
import struct

from . import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = "/dev/shm/fastsock-{}"
_MAGIC = 0x314E574F48535346
_HEAD = struct.Struct("=QIIiIQQII")  # magic, bytes of each, most, process, namespace, started, stack, made, missed
_OUT = struct.Struct("=IiIIIIQQQQ")  # serial, descriptor, role, why, state, peer, bytes, calls, wakes, tokens
_IN = struct.Struct("=QQQQ")  # bytes, calls, waits, tokens
_IN_AT = 128
_OF_ANY = struct.Struct("=I4xI")  # serial, role
_RANK_ROLE, _DAEMON_ROLE = 3, 4
_RANK = struct.Struct("=IiIII4xQQQ80xQQ")  # serial, process, role, rank, size; out: bytes, messages, collectives; in
_DAEMON = struct.Struct("=IiIII4xQQ88x16s")  # serial, process, role, port, connections, calls, errors; host
_EACH = 256
_MOST = (1 << 18) // _EACH - 1
_LARGEST = 1 << 62  # of a count
_IPV4_IN_IPV6 = bytes(10) + b"\xff\xff"


class Shown:
    """One connection of a process. Of `*_out` and `*_in`: by memory. tokens_*: TCP's bytes that are no payload."""

    def __init__(self, pid: int, first: tuple[int, ...], second: tuple[int, ...]) -> None:
        self.pid = pid
        self.serial, self.descriptor, self.role, self.why, self.state, self.peer = first[:6]
        self.bytes_out, self.calls_out, self.wakes, self.tokens_out = first[6:]
        self.bytes_in, self.calls_in, self.waits, self.tokens_in = second

    @property
    def is_sane(self) -> bool:
        counts = (self.bytes_out, self.calls_out, self.wakes, self.bytes_in, self.calls_in, self.waits)
        small = self.role <= 2 and self.why < 64 and self.state <= 5 and 0 <= self.descriptor < 1 << 21
        return small and self.peer < 1 << 31 and max(counts) < _LARGEST


class ShownRank:
    """A rank, and what went through its engine since it began. process: whose it is."""

    def __init__(self, memory: bytes) -> None:
        self.serial, self.process, _, self.rank, self.size, *counts = _RANK.unpack_from(memory)
        self.bytes_out, self.messages_out, self.collectives, self.bytes_in, self.messages_in = counts

    @property
    def is_sane(self) -> bool:
        counts = (self.bytes_out, self.messages_out, self.collectives, self.bytes_in, self.messages_in)
        return bool(self.rank < self.size < 1 << 31 and max(counts) < _LARGEST)


class ShownDaemon:
    """A daemon of remote objects. process: whose it is."""

    def __init__(self, memory: bytes) -> None:
        unpacked = _DAEMON.unpack_from(memory)
        self.serial, self.process, _, self.port, self.connections, self.calls, self.errors, self._host = unpacked

    @property
    def is_sane(self) -> bool:
        small = 0 < self.port <= 0xFFFF and self.connections < 1 << 31
        return bool(small and max(self.calls, self.errors) < _LARGEST)

    @property
    def address(self) -> tuple[str, int]:
        if self._host.startswith(_IPV4_IN_IPV6):
            return _socket.inet_ntop(_socket.AF_INET, self._host[len(_IPV4_IN_IPV6) :]), self.port
        return _socket.inet_ntop(_socket.AF_INET6, self._host), self.port


Place = Shown | ShownRank | ShownDaemon


class Page:
    """What one process shows. missed: what found no place."""

    def __init__(self, pid: int, started: int, missed: int, places: list[Place]) -> None:
        self.pid = pid
        self.started = started
        self.missed = missed
        self.connections = [each for each in places if isinstance(each, Shown)]
        # a forked child has its parent's
        self.ranks = [each for each in places if isinstance(each, ShownRank) and each.process == pid]
        self.daemons = [each for each in places if isinstance(each, ShownDaemon) and each.process == pid]


Known = dict[tuple[int, bytes], Place]


def pages(known: Known | None = None) -> Iterator[Page]:
    """Of the processes of this user that live. The files of dead ones are removed.

    known: what was found before, by its bytes. What has not changed is the same object again.
    """
    known = {} if known is None else known
    before = known.copy()
    known.clear()
    folder = FOLDER.format(os.geteuid())
    if not _is_own(folder):
        return
    for name in os.listdir(folder):
        pid, _, namespace = name.partition("-")
        if pid.isascii() and pid.isdigit() and namespace == str(_own_namespace()):
            page = _read(os.path.join(folder, name), int(pid), before, known)
            if page is not None:
                yield page


def _is_own(folder: str) -> bool:
    """Another user may have made it before."""
    try:
        seen = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.geteuid() and not seen.st_mode & 0o77


def _own_namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino & 0xFFFFFFFF


def _read(path: str, pid: int, before: Known, known: Known) -> Page | None:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:  # it has just ended
        return None
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return None
        head = os.pread(file, _HEAD.size, 0)
        if len(head) < _HEAD.size:
            return None
        magic, each, most, process, _, started, stack, made, missed = _HEAD.unpack(head)
        if (magic, each, process) != (_MAGIC, _EACH, pid) or made > min(most, _MOST):
            return None
        if not processes.is_same(pid, started, stack):
            _remove(path, file)
            return None
        memory = os.pread(file, made * _EACH, _EACH)
        return Page(pid, started, missed, list(_places(pid, memory, before, known)))
    finally:
        os.close(file)


def _places(pid: int, memory: bytes, before: Known, known: Known) -> Iterator[Place]:
    for at in range(0, len(memory) - _EACH + 1, _EACH):
        key = pid, memory[at : at + _EACH]
        shown = before.get(key) or _made(*key)
        if shown is not None:
            known[key] = shown
            yield shown


def _made(pid: int, memory: bytes) -> Place | None:
    serial, role = _OF_ANY.unpack_from(memory)
    if serial == 0:
        return None
    shown: Place
    if role == _RANK_ROLE:
        shown = ShownRank(memory)
    elif role == _DAEMON_ROLE:
        shown = ShownDaemon(memory)
    else:
        shown = Shown(pid, _OUT.unpack_from(memory), _IN.unpack_from(memory, _IN_AT))
    return shown if shown.is_sane else None


def _remove(path: str, file: int) -> None:
    """Unless the name is another file's by now: that of a process with the same number."""
    try:
        if os.stat(path).st_ino == os.fstat(file).st_ino:
            os.unlink(path)
    except OSError:
        return
