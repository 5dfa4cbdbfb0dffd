"""A row for each connection of each process that has fastsock, and what it moved since the last look."""

from __future__ import annotations

import dataclasses
import os
import time

from ..connection import carriers
from ..transport import Reason
from . import kernel, processes, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_ROLES = ("unknown", "connect", "accept")
_OWNED, _OFFERED, _ATTACHED = 3, 4, 5
_SILENT = "it is young, a setting or a rule keeps it on TCP, or its process shows nothing"


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
    key: tuple[int, ...] = ()

    def values(self) -> dict[str, Any]:
        """For JSON."""
        values = dataclasses.asdict(self)
        del values["key"]
        return values


_Life = tuple[int, int, int]  # number of the process, when it began, where its stack begins
_REST = 10
_RATES = ("bytes_out", "bytes_in", "messages_out", "messages_in", "waits", "wakes")


class Watcher:
    """Looks again and again. What it knows of a process it asks once."""

    def __init__(self) -> None:
        self._known: dict[_Life, processes.Process] = {}
        self._others: dict[_Life, int] = {}  # without fastsock, and in how many looks they are not asked again
        self._last: dict[tuple[int, ...], Row] = {}
        self._looked = 0.0
        self.processes: list[processes.Process] = []
        self.missed = 0  # connections that found no place to be shown

    def look(self) -> list[Row]:
        """The connections now."""
        now = time.monotonic()
        pages = {page.pid: page for page in shown.pages()}
        self._look_at_processes(pages)
        self.missed = sum(page.missed for page in pages.values())
        tcp = kernel.connections()
        rows = [row for process in self.processes for row in _rows(process, pages.get(process.pid), tcp)]
        for row in rows:
            before = self._last.get(row.key)
            if before is not None:
                _rate(row, before, max(now - self._looked, 1e-3))
        self._last = {row.key: row for row in rows}
        self._looked = now
        return rows

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
        self.processes = sorted(known.values(), key=lambda each: each.pid)


def _rate(row: Row, before: Row, seconds: float) -> None:
    for name in _RATES:
        now, then = getattr(row, name), getattr(before, name)
        if now is not None and then is not None:
            setattr(row, f"{name}_rate", max(now - then, 0) / seconds)


def _rows(process: processes.Process, page: shown.Page | None, tcp: dict[int, kernel.Seen]) -> Iterator[Row]:
    told = {} if page is None else {each.descriptor: each for each in page.connections}
    for descriptor, file in processes.sockets(process.pid):
        seen = tcp.get(file)
        if seen is not None:
            yield _row(process, descriptor, file, seen, told.get(descriptor))


def _row(process: processes.Process, descriptor: int, file: int, seen: kernel.Seen, told: shown.Shown | None) -> Row:
    local, peer = seen.addresses()
    row = Row(
        process.pid, process.command, descriptor, "unknown", "tcp", str(Reason.NOT_YET), _SILENT, local, peer, None,
        seen.sent, seen.received, rank=process.rank, key=(process.pid, process.started, descriptor, file),
    )  # fmt: skip
    if told is not None:
        # the end that offered is told by its bytes that the other one has joined
        gained = told.state in (_OWNED, _ATTACHED) or (told.state == _OFFERED and told.bytes_out + told.bytes_in > 0)
        row.role = _ROLES[told.role]
        row.carrier = "shm" if gained else "tcp"
        row.reason, row.detail = map(str, (Reason.JOINED, "") if gained else carriers.why(told.why))
        row.peer_pid = told.peer or None
        row.bytes_out = max(seen.sent - told.tokens_out, 0) + told.bytes_out
        row.bytes_in = max(seen.received - told.tokens_in, 0) + told.bytes_in
        if gained:
            row.messages_out, row.messages_in = told.calls_out, told.calls_in
            row.waits, row.wakes = told.waits, told.wakes
    return row
