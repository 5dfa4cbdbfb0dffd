"""The report of each connection's path and reason, written when a process ends (FASTSOCK_STATS, ``--stats``).

It is written at the interpreter's exit. A multiprocessing child skips that exit, so it writes at its own end. A
process that ends by a signal or ``os._exit`` writes nothing.
"""

from __future__ import annotations

import atexit
import os
import sys

from ..config import LAUNCHED, settings
from ..system.forkable import in_forked_child

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

_STANDARD_ERROR = "-"


class _Report:
    """The target to which this process and each of its forks write once."""

    def __init__(self, target: str) -> None:
        # The program may change its directory before it ends.
        self.target = target if target == _STANDARD_ERROR else os.path.abspath(target)
        self._written_by: int | None = None

    def write(self) -> None:
        """Write once; a failure is told on standard error and never raised into the program's end."""
        if self._written_by == os.getpid():
            return
        self._written_by = os.getpid()
        from .explanation import connections, totals

        try:
            rows, counts = connections(), totals()
            if self.target == _STANDARD_ERROR:
                print_line("\n".join(text_lines(rows, counts, os.getpid(), _is_launched())))
            else:
                append(self.target, json_lines(rows, counts, os.getpid()))
        except OSError as error:
            print_line(f"fastsock: the statistics could not be written to {self.target}: {error.strerror}")

    def at_the_end_of(self, util: Any) -> None:
        """Lets a multiprocessing child, which skips atexit, write after all that it does at its end."""
        finish = util._exit_function

        def finish_and_write(*args: Any, **options: Any) -> None:
            util._exit_function = finish
            finish(*args, **options)
            self.write()

        util._exit_function = finish_and_write


_current: _Report | None = None
_watching_forks = False


def arrange() -> None:
    """Write when this process ends, if the settings ask for it. Idempotent. Raises ConfigError for bad settings."""
    global _current, _watching_forks
    target = settings().stats
    if _current is not None or target is None:
        return
    # Imported now, not at exit: code that an import compiles there would make the interpreter forget
    # that a KeyboardInterrupt ended the program, and exit with another code.
    import json  # noqa: F401

    from ..connection import carriers
    from . import explanation  # noqa: F401

    carriers.note_all(True)
    _current = _Report(target)
    atexit.register(_current.write)
    if not _watching_forks:
        in_forked_child(_after_fork)
        _watching_forks = True


def withdraw() -> None:
    """Undo activation: write nothing at the end. Idempotent."""
    global _current
    if _current is not None:
        from ..connection import carriers

        carriers.note_all(False)
        atexit.unregister(_current.write)
        _current = None


def _after_fork() -> None:
    util: Any = sys.modules.get("multiprocessing.util")
    if _current is not None and util is not None:
        _current.at_the_end_of(util)


def text_lines(rows: Iterable[Any], totals: Mapping[str, int], pid: int, always: bool = False) -> list[str]:
    """For people: one line for each connection, and one of totals. No lines without connections, unless ``always``."""
    who = f"fastsock[{pid}]"
    lines = [
        f"{who} {row.transport:4} {row.role:7} {address_text(row.local)} {'<' if row.role == 'accept' else '>'} "
        f"{address_text(row.peer)}  sent {_count_text(row.bytes_sent)}, received {_count_text(row.bytes_received)}  "
        f"({row.reason}{row.detail and f': {row.detail}'})"
        for row in rows
    ]
    if any(totals.values()):
        lines.append(f"{who} connections: " + ", ".join(f"{name} {count:,}" for name, count in totals.items()))
    elif always:
        lines.append(f"{who} no TCP connection was made or accepted")
    return lines


def json_lines(rows: Iterable[Any], totals: Mapping[str, int], pid: int) -> list[str]:
    """For programs: one JSON object for each connection, and one of totals. A count that is not kept is null."""
    from json import dumps

    lines = [
        dumps(
            {
                "pid": pid,
                "role": row.role,
                "transport": row.transport,
                "reason": str(row.reason),
                "detail": row.detail,
                "local": row.local,
                "peer": row.peer,
                "bytes_sent": row.bytes_sent,
                "bytes_received": row.bytes_received,
                "bytes_direct": row.bytes_direct,
            }
        )
        for row in rows
    ]
    return [*lines, dumps({"pid": pid, "totals": dict(totals)})]


def _count_text(count: int | None) -> str:
    return "?" if count is None else f"{count:,} B"


def address_text(address: Any) -> str:
    """``host:port``, with brackets around an IPv6 host; "?" for an address that is not known."""
    if not address:
        return "?"
    host, port = address[0], address[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def append(path: str, lines: Iterable[str]) -> None:
    """Append whole lines, in one write if the system takes it, so that processes mix no lines. Raises OSError."""
    data = "".join(f"{line}\n" for line in lines).encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        _write_all(descriptor, data)
    finally:
        os.close(descriptor)


def _is_launched() -> bool:
    """Whether the launcher became this process: then it says even that there was no connection."""
    return os.environ.get(LAUNCHED) == str(os.getpid())


def print_line(text: str) -> None:
    """Write a line to standard error, if there is one."""
    if not text or sys.stderr is None:
        return
    try:
        sys.stderr.flush()
        # By the descriptor: what stays in a buffer that cannot be written changes the exit code.
        _write_all(sys.stderr.fileno(), f"{text}\n".encode(errors="backslashreplace"))
    except (AttributeError, OSError, ValueError):  # the program has closed or replaced it: there is nobody to tell
        return


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
