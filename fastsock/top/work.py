"""A row for each rank and each daemon of remote objects, and what it did since the last look."""

from __future__ import annotations

import dataclasses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, ClassVar

    from .processes import Process
    from .shown import Page, ShownDaemon, ShownRank


@dataclasses.dataclass
class RankRow:
    """One rank. Messages are those of its engine: also those of which collectives are made. A collective in memory that
    the ranks share needs none. A `*_rate` is a second's, since the last look; None in the first one."""

    pid: int
    command: str
    job: str
    rank: int
    size: int
    bytes_out: int = 0
    bytes_in: int = 0
    messages_out: int = 0
    messages_in: int = 0
    collectives: int = 0
    bytes_out_rate: float | None = None
    bytes_in_rate: float | None = None
    messages_out_rate: float | None = None
    messages_in_rate: float | None = None
    collectives_rate: float | None = None

    COUNTS: ClassVar[tuple[str, ...]] = ("bytes_out", "bytes_in", "messages_out", "messages_in", "collectives")


@dataclasses.dataclass
class DaemonRow:
    """One daemon. calls: that have come, each of a batch among them. errors: calls that ended with one. connections:
    those that are open."""

    pid: int
    command: str
    address: tuple[str, int]
    connections: int = 0
    calls: int = 0
    errors: int = 0
    calls_rate: float | None = None
    errors_rate: float | None = None

    COUNTS: ClassVar[tuple[str, ...]] = ("calls", "errors")


_Key = tuple[int, int, int]  # process, when it began, number of the place


class Work:
    """Looks again and again."""

    def __init__(self) -> None:
        self.ranks: list[RankRow] = []
        self.daemons: list[DaemonRow] = []
        self._known: dict[_Key, RankRow | DaemonRow] = {}

    def look(self, processes: Iterable[Process], pages: Mapping[int, Page], seconds: float) -> None:
        """seconds: since the last look."""
        before, self._known = self._known, {}
        self.ranks, self.daemons = [], []
        for process in processes:
            page = pages.get(process.pid)
            for told in page.ranks if page else ():
                key = process.pid, process.started, told.serial
                rank = before.get(key)
                if not isinstance(rank, RankRow):
                    rank = RankRow(process.pid, process.command, _job(process), told.rank, told.size)
                _count(rank, told, seconds if key in before else None)
                self._known[key] = rank
                self.ranks.append(rank)
            for shown in page.daemons if page else ():
                key = process.pid, process.started, shown.serial
                daemon = before.get(key)
                if not isinstance(daemon, DaemonRow):
                    daemon = DaemonRow(process.pid, process.command, shown.address)
                daemon.connections = shown.connections
                _count(daemon, shown, seconds if key in before else None)
                self._known[key] = daemon
                self.daemons.append(daemon)


def _job(process: Process) -> str:
    """Ranks that are threads have no environment that names it."""
    return f"threads of {process.pid}" if process.rank is None else process.job


def _count(row: RankRow | DaemonRow, told: ShownRank | ShownDaemon, seconds: float | None) -> None:
    """seconds: since the last look; None of a new row."""
    for name in row.COUNTS:
        now: int = getattr(told, name)
        if seconds is not None:
            setattr(row, f"{name}_rate", max(now - getattr(row, name), 0) / max(seconds, 1e-3))
        setattr(row, name, now)


def values(row: Any) -> dict[str, Any]:
    """For JSON."""
    return dataclasses.asdict(row)
