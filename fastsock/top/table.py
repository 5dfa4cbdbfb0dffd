"""Rows for people: sorted, filtered, as text."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .rows import Row

CARRIER = "CARRIER"
HEAD = ("PID", "FD", "PEER", CARRIER, "OUT/s", "IN/s", "MSG OUT/s", "MSG IN/s", "WAITS/s", "WAKES/s", "WHY")
_LEFT = {2, 3, 10}  # columns of words; the others are numbers
_WIDEST = 42


def _moved(row: Row) -> float:
    return (row.bytes_out_rate or 0) + (row.bytes_in_rate or 0)


def _total(row: Row) -> float:
    return row.bytes_out + row.bytes_in


def _messages(row: Row) -> float:
    return (row.messages_out_rate or 0) + (row.messages_in_rate or 0)


ORDERS: dict[str, Callable[[Row], tuple[float, ...]]] = {
    "rate": lambda row: (-_moved(row), -_total(row), row.pid, row.descriptor),
    "bytes": lambda row: (-_total(row), row.pid, row.descriptor),
    "messages": lambda row: (-_messages(row), -_total(row), row.pid, row.descriptor),
    "waits": lambda row: (-(row.waits_rate or 0), row.pid, row.descriptor),
    "pid": lambda row: (row.pid, row.descriptor),
}


def chosen(
    rows: Iterable[Row], order: str, pid: int | None = None, carrier: str | None = None, text: str = ""
) -> list[Row]:
    """Those of that process and carrier, and with that text in the command, an address or the reason."""
    wanted = text.lower()
    found = [
        row
        for row in rows
        if pid in (None, row.pid)
        and carrier in (None, row.carrier)
        and (not wanted or wanted in f"{row.command} {_address(row.peer)} {_address(row.local)} {why(row)}".lower())
    ]
    return sorted(found, key=ORDERS[order])


def cells(row: Row) -> tuple[str, ...]:
    """As HEAD names them."""
    arrow = "<" if row.role == "accept" else ">"
    return (
        str(row.pid),
        str(row.descriptor),
        f"{arrow} {_address(row.peer)}" + (f" [{row.peer_pid}]" if row.peer_pid else ""),
        row.carrier,
        _size(row.bytes_out_rate),
        _size(row.bytes_in_rate),
        *(_size(rate) for rate in (row.messages_out_rate, row.messages_in_rate, row.waits_rate, row.wakes_rate)),
        why(row),
    )


def why(row: Row) -> str:
    """Why it is on that carrier; nothing needs to be said of memory."""
    return "" if row.carrier == "shm" else row.detail or row.reason


def title(rows: Sequence[Row], processes: int, missed: int = 0) -> str:
    """One line of all."""
    by_memory = sum(row.carrier == "shm" for row in rows)
    out, into = (sum(getattr(row, name) or 0 for row in rows) for name in ("bytes_out_rate", "bytes_in_rate"))
    text = f"{processes} processes, {len(rows)} connections: shm {by_memory}, tcp {len(rows) - by_memory}"
    text += f"; {_size(out)}/s out, {_size(into)}/s in"
    return text + (f"; {missed} connections show nothing of themselves: too many" if missed else "")


def lines(rows: Sequence[Row]) -> list[str]:
    """A table, a line a row."""
    table = [HEAD, *(cells(row) for row in rows)]
    widths = [min(max(len(line[column]) for line in table), _WIDEST) for column in range(len(HEAD))]
    return [_line(line, widths) for line in table]


def _line(line: Sequence[str], widths: Sequence[int]) -> str:
    parts = []
    for column, (cell, width) in enumerate(zip(line, widths, strict=True)):
        parts.append(cell.ljust(width) if column in _LEFT else cell.rjust(width))
    return "  ".join(parts).rstrip()


def _address(address: tuple[str, int] | None) -> str:
    if address is None:
        return "?"
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _size(rate: float | None) -> str:
    if rate is None:
        return "-"
    for unit in ("", "k", "M"):
        if rate < 1000:
            return f"{rate:.0f}{unit}" if unit == "" else f"{rate:.1f}{unit}"
        rate /= 1000
    return f"{rate:.1f}G"
