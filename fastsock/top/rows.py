"""A row for each connection of each process that has fastsock, and what it moved since the last look."""

from __future__ import annotations

import dataclasses
import os
import time

from ..connection import carriers
from ..transport import Reason
from . import kernel, processes, shown
from .work import Work

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_ROLES = ("unknown", "connect", "accept")
_SILENT = "it is young, a setting or a rule keeps it on TCP, or its process shows nothing"
_UNTOLD = ("unknown", "tcp", str(Reason.NOT_YET), _SILENT)  # role, carrier, reason, detail
_OWNED, _OFFERED, _ATTACHED = 3, 4, 5


@dataclasses.dataclass
class Row:
    """One connection of one process.

    carrier: "shm" or "tcp"; reason and detail say why. bytes_*: payload, by both carriers. messages_*: calls that moved
    bytes by memory; None on TCP, where nobody counts them. waits: how often a receiver slept; wakes: how often this end
    woke the other one. A `*_rate` is a second's, since the last look; None in the first one.
    """

    pid: int
    command: str
    descriptor: int
    role: str
    carrier: str
    reason: str
    detail: str
    local: tuple[str, int] | None
    peer: tuple[str, int] | None
    peer_pid: int | None
    bytes_out: int
    bytes_in: int
    messages_out: int | None = None
    messages_in: int | None = None
    waits: int | None = None
    wakes: int | None = None
    rank: int | None = None
    bytes_out_rate: float | None = None
    bytes_in_rate: float | None = None
    messages_out_rate: float | None = None
    messages_in_rate: float | None = None
    waits_rate: float | None = None
    wakes_rate: float | None = None
    entry: shown.Shown | None = None  # what its process said of it last
    by_tcp: tuple[int, int] = (0, 0)  # and the kernel
    is_moving: bool = True  # a rate of it may be above 0, or is not known yet

    def counts(self) -> tuple[int | None, ...]:
        """What has a rate."""
        return self.bytes_out, self.bytes_in, self.messages_out, self.messages_in, self.waits, self.wakes

    def values(self) -> dict[str, Any]:
        """For JSON."""
        return {each.name: getattr(self, each.name) for each in dataclasses.fields(self)[: -len(_NOT_SHOWN)]}


_Life = tuple[int, int, int]  # number of the process, when it began, where its stack begins
_Key = tuple[int, int, int, int]  # process, when it began, number of the descriptor, number of the file
_REST = 10
_NOT_SHOWN = ("entry", "by_tcp", "is_moving")
_RATES = ("bytes_out", "bytes_in", "messages_out", "messages_in", "waits", "wakes")


class Watcher:
    """Looks again and again. What it knows of a process it asks once."""

    def __init__(self) -> None:
        self._known: dict[_Life, processes.Process] = {}
        self._others: dict[_Life, int] = {}  # without fastsock, and in how many looks they are not asked again
        self._last: dict[_Key, Row] = {}
        self._shown: shown.Known = {}
        self._files: dict[processes.Process, dict[int, tuple[int, int]]] = {}  # serial, file; by descriptor
        self._looked = 0.0
        self.processes: list[processes.Process] = []
        self.missed = 0  # connections that found no place to be shown
        self.work = Work()  # of ranks and daemons, as in the last look

    def look(self) -> list[Row]:
        """The connections now. One that was there in the last look is the same row, brought up to date."""
        now = time.monotonic()
        pages = {page.pid: page for page in shown.pages(self._shown)}
        self._look_at_processes(pages)
        self.missed = sum(page.missed for page in pages.values())
        self.work.look(self.processes, pages, now - self._looked)
        tcp = kernel.connections()
        before, self._last = self._last, {}
        for process in self.processes:
            page = pages.get(process.pid)
            entry = {} if page is None else {each.descriptor: each for each in page.connections}
            for descriptor, file in self._sockets(process, entry, tcp):
                key = process.pid, process.started, descriptor, file
                row = before.get(key) or _new(process, descriptor, tcp[file])
                _update(row, tcp[file], entry.get(descriptor), now - self._looked if key in before else None)
                self._last[key] = row
        self._looked = now
        return list(self._last.values())

    def _sockets(
        self, process: processes.Process, entry: dict[int, shown.Shown], tcp: dict[int, kernel.Seen]
    ) -> Iterator[tuple[int, int]]:
        """Numbers of the process that are connections, and of their files. To ask for a file takes longest of all."""
        before = self._files.pop(process, {})
        files = self._files[process] = {}
        for descriptor in processes.descriptors(process.pid):
            shown_now = entry.get(descriptor)
            serial, known = before.get(descriptor, (0, 0))
            if shown_now is not None and shown_now.serial == serial and known in tcp:
                file: int | None = known
            else:
                file = processes.file_of(process.pid, descriptor)
            if file is not None and file in tcp:
                files[descriptor] = shown_now.serial if shown_now else 0, file
                yield descriptor, file

    def _look_at_processes(self, pages: dict[int, shown.Page]) -> None:
        known: dict[_Life, processes.Process] = {}
        others: dict[_Life, int] = {}
        for pid in processes.numbers():
            life = processes.life_of(pid)
            if life is None or pid == os.getpid():
                continue
            key = (pid, *life)
            rest = self._others.get(key, 0)
            if key in self._known:
                known[key] = self._known[key]
            elif pid in pages or (rest == 0 and processes.has_fastsock(pid)):
                known[key] = processes.Process(pid, life[0])
            else:  # it may load fastsock yet; to look takes long
                others[key] = rest - 1 if rest else _REST
        self._known, self._others = known, others
        self._files = {each: files for each, files in self._files.items() if each in known.values()}
        self.processes = sorted(known.values(), key=lambda each: each.pid)


def _new(process: processes.Process, descriptor: int, seen: kernel.Seen) -> Row:
    local, peer = seen.addresses()
    return Row(process.pid, process.command, descriptor, *_UNTOLD, local, peer, None, 0, 0, rank=process.rank)


def _rate(row: Row, before: tuple[int | None, ...], seconds: float) -> None:
    row.is_moving = False
    for name, now, then in zip(_RATES, row.counts(), before, strict=True):
        rate = None if now is None or then is None else max(now - then, 0) / max(seconds, 1e-3)
        setattr(row, f"{name}_rate", rate)
        row.is_moving = row.is_moving or bool(rate)


def _update(row: Row, seen: kernel.Seen, entry: shown.Shown | None, seconds: float | None) -> None:
    """seconds: since the last look; None of a new row."""
    counts = row.counts()
    if seconds is None or row.entry is not entry or row.by_tcp != (seen.sent, seen.received):
        _count(row, seen, entry)
    elif not row.is_moving:  # as most are, in most looks
        return
    if seconds is not None:
        _rate(row, counts, seconds)


def _count(row: Row, seen: kernel.Seen, entry: shown.Shown | None) -> None:
    row.entry, row.by_tcp = entry, (seen.sent, seen.received)
    row.messages_out = row.messages_in = row.waits = row.wakes = None
    if entry is None:
        row.role, row.carrier, row.reason, row.detail, row.peer_pid = *_UNTOLD, None
        row.bytes_out, row.bytes_in = row.by_tcp
        return
    # the end that offered is told by its bytes that the other one has joined
    gained = entry.state in (_OWNED, _ATTACHED) or (entry.state == _OFFERED and entry.bytes_out + entry.bytes_in > 0)
    row.role = _ROLES[entry.role]
    row.carrier = "shm" if gained else "tcp"
    row.reason, row.detail = map(str, (Reason.JOINED, "") if gained else carriers.why(entry.why))
    row.peer_pid = entry.peer or None
    row.bytes_out = max(seen.sent - entry.tokens_out, 0) + entry.bytes_out
    row.bytes_in = max(seen.received - entry.tokens_in, 0) + entry.bytes_in
    if gained:
        row.messages_out, row.messages_in = entry.calls_out, entry.calls_in
        row.waits, row.wakes = entry.waits, entry.wakes
