"""Rows for people, as text."""

from __future__ import annotations

from .view import address_text, why

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .rows import Row
    from .view import View
    from .work import DaemonRow, RankRow

CARRIER = "CARRIER"
HEAD = ("PID", "FD", "PEER", CARRIER, "OUT/s", "IN/s", "MSG OUT/s", "MSG IN/s", "WAITS/s", "WAKES/s", "WHY")
RANK_HEAD = ("PID", "RANK", "JOB", "OUT/s", "IN/s", "MSG OUT/s", "MSG IN/s", "COLLECT/s", "COMMAND")
DAEMON_HEAD = ("PID", "DAEMON", "CALLS/s", "ERRORS/s", "CONNECTIONS", "CALLS", "ERRORS", "COMMAND")
_WORDS = {"PEER", CARRIER, "WHY", "RANK", "JOB", "DAEMON", "COMMAND"}  # the other columns are numbers
_WIDEST = 42


def cells(row: Row) -> tuple[str, ...]:
    """As HEAD names them."""
    arrow = "<" if row.role == "accept" else ">"
    return (
        str(row.pid),
        str(row.descriptor),
        f"{arrow} {address_text(row.peer)}" + (f" [{row.peer_pid}]" if row.peer_pid else ""),
        row.carrier,
        _size(row.bytes_out_rate),
        _size(row.bytes_in_rate),
        *(_size(rate) for rate in (row.messages_out_rate, row.messages_in_rate, row.waits_rate, row.wakes_rate)),
        why(row),
    )


def _rank_cells(row: RankRow) -> tuple[str, ...]:
    rates = (row.bytes_out_rate, row.bytes_in_rate, row.messages_out_rate, row.messages_in_rate, row.collectives_rate)
    return str(row.pid), f"{row.rank} of {row.size}", row.job, *map(_size, rates), row.command


def _daemon_cells(row: DaemonRow) -> tuple[str, ...]:
    rates, counts = (row.calls_rate, row.errors_rate), (row.connections, row.calls, row.errors)
    return str(row.pid), address_text(row.address), *map(_size, rates), *map(_size, counts), row.command


def title(view: View) -> str:
    """One line of all."""
    rows = view.connections
    by_memory = sum(row.carrier == "shm" for row in rows)
    out, into = (sum(getattr(row, name) or 0 for row in rows) for name in ("bytes_out_rate", "bytes_in_rate"))
    text = f"{view.processes} processes, {len(rows)} connections: shm {by_memory}, tcp {len(rows) - by_memory}"
    text += f"; {_size(out)}/s out, {_size(into)}/s in"
    if view.ranks:
        text += f"; ranks {len(view.ranks)}"
    if view.daemons:
        text += f"; daemons {len(view.daemons)}"
    return text + (f"; {view.missed} connections show nothing of themselves: too many" if view.missed else "")


def tables(view: View) -> list[list[str]]:
    """One for ranks, one for daemons and one for connections, as far as there are any. The first line is the head."""
    found = []
    if view.ranks:
        found.append(_lines(RANK_HEAD, [_rank_cells(row) for row in view.ranks]))
    if view.daemons:
        found.append(_lines(DAEMON_HEAD, [_daemon_cells(row) for row in view.daemons]))
    if view.connections or not found:
        found.append(_lines(HEAD, [cells(row) for row in view.connections]))
    return found


def _lines(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    table = [head, *rows]
    widths = [min(max(len(line[column]) for line in table), _WIDEST) for column in range(len(head))]
    return [_line(line, head, widths) for line in table]


def _line(line: Sequence[str], head: Sequence[str], widths: Sequence[int]) -> str:
    parts = []
    for cell, name, width in zip(line, head, widths, strict=True):
        parts.append(cell.ljust(width) if name in _WORDS else cell.rjust(width))
    return "  ".join(parts).rstrip()


def _size(rate: float | None) -> str:
    if rate is None:
        return "-"
    for unit in ("", "k", "M"):
        if rate < 1000:
            return f"{rate:.0f}{unit}" if unit == "" else f"{rate:.1f}{unit}"
        rate /= 1000
    return f"{rate:.1f}G"
