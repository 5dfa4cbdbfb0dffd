"""Which rows are shown, and in which order."""

from __future__ import annotations

import dataclasses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from .rows import Row, Watcher
    from .work import DaemonRow, RankRow


def _moved(row: Row | RankRow) -> float:
    return (row.bytes_out_rate or 0) + (row.bytes_in_rate or 0)


def _total(row: Row | RankRow) -> float:
    return row.bytes_out + row.bytes_in


def _messages(row: Row | RankRow) -> float:
    return (row.messages_out_rate or 0) + (row.messages_in_rate or 0)


ORDERS: dict[str, Callable[[Row], tuple[float, ...]]] = {
    "rate": lambda row: (-_moved(row), -_total(row), row.pid, row.descriptor),
    "bytes": lambda row: (-_total(row), row.pid, row.descriptor),
    "messages": lambda row: (-_messages(row), -_total(row), row.pid, row.descriptor),
    "waits": lambda row: (-(row.waits_rate or 0), row.pid, row.descriptor),
    "pid": lambda row: (row.pid, row.descriptor),
}
# a rank that only does collectives in memory moves no bytes
_RANK_ORDERS: dict[str, Callable[[RankRow], tuple[Any, ...]]] = {
    "rate": lambda row: (-_moved(row), -(row.collectives_rate or 0), row.job, row.rank),
    "bytes": lambda row: (-_total(row), row.job, row.rank),
    "messages": lambda row: (-_messages(row) - (row.collectives_rate or 0), row.job, row.rank),
    "waits": lambda row: (row.job, row.rank),
    "pid": lambda row: (row.pid, row.rank),
}
_DAEMON_ORDERS: dict[str, Callable[[DaemonRow], tuple[Any, ...]]] = {
    "rate": lambda row: (-(row.calls_rate or 0), -row.calls, row.pid, row.address),
    "pid": lambda row: (row.pid, row.address),
}


@dataclasses.dataclass
class View:
    """What is shown: chosen and sorted. processes, missed: as the watcher has them."""

    connections: Sequence[Row]
    ranks: Sequence[RankRow] = ()
    daemons: Sequence[DaemonRow] = ()
    processes: int = 0
    missed: int = 0


@dataclasses.dataclass
class Choice:
    """Those of that process and carrier, and with that text in the command, an address, the job or the reason.

    Ranks and daemons have no carrier: who chooses one sees none of them.
    """

    order: str = "rate"
    pid: int | None = None
    carrier: str | None = None
    text: str = ""

    def of(self, watcher: Watcher) -> View:
        """A new look."""
        rows = watcher.look()
        ranks, daemons = ([], []) if self.carrier else (watcher.work.ranks, watcher.work.daemons)
        return View(
            sorted(self._found(rows, _text_of_connection), key=ORDERS[self.order]),
            sorted(self._found(ranks, _text_of_rank), key=_RANK_ORDERS[self.order]),
            sorted(
                self._found(daemons, _text_of_daemon),
                key=_DAEMON_ORDERS["pid" if self.order == "pid" else "rate"],
            ),
            len(watcher.processes),
            watcher.missed,
        )

    def _found(self, rows: Iterable[Any], text_of: Callable[[Any], str]) -> Iterator[Any]:
        wanted = self.text.lower()
        for row in rows:
            is_asked = self.carrier in (None, getattr(row, "carrier", None)) and self.pid in (None, row.pid)
            if is_asked and (not wanted or wanted in text_of(row).lower()):
                yield row


def _text_of_connection(row: Row) -> str:
    return f"{row.command} {address_text(row.peer)} {address_text(row.local)} {why(row)}"


def _text_of_rank(row: RankRow) -> str:
    return f"{row.command} {row.job}"


def _text_of_daemon(row: DaemonRow) -> str:
    return f"{row.command} {address_text(row.address)}"


def why(row: Row) -> str:
    """Why it is on that carrier; nothing needs to be said of memory."""
    return "" if row.carrier == "shm" else row.detail or row.reason


def address_text(address: tuple[str, int] | None) -> str:
    if address is None:
        return "?"
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
