"""System calls, copies and bytes of a call, counted at both ends by strace and, in shared memory, by fastsock itself.

A copy is one of a byte on its way between the memory of the two programs. Through the kernel, and through a ring, each
byte is copied twice; read straight out of the sender it is copied once. What the programs pack before is not seen.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from . import system_calls, table
from .interleave import Skipped
from .pair import Pair
from .process import Broken, Unusable

_SENT = r"write|writev|pwrite64|sendto|sendmsg|sendmmsg|splice"
_GOT = r"read|readv|pread64|recvfrom|recvmsg|recvmmsg"
_RETURNED = re.compile(rf"^\d+ +(?:<\.\.\. )?(?:({_SENT})|({_GOT}))(?:\(| resumed).* = (\d+)$", re.MULTILINE)
_BEGUN = re.compile(r"^\d+ +\w+\(", re.MULTILINE)


@dataclass(frozen=True)
class Totals:
    """Of both ends together."""

    calls: float = 0
    sent: float = 0  # bytes that programs gave to the kernel
    got: float = 0  # bytes that they took from it
    shared: float = 0  # bytes by shared memory
    direct: float = 0  # of these: copied from process to process

    def less(self, other: Totals, by: int) -> Totals:
        """The difference, for one of so many."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Totals(*(max(0.0, (mine - its) / by) for mine, its in pairs))

    @property
    def bytes(self) -> float:
        """That went from program to program, in both directions."""
        return self.sent + self.shared

    @property
    def copies(self) -> float:
        """Of each byte."""
        copied = self.sent + self.got + 2 * (self.shared - self.direct) + self.direct
        return copied / self.bytes if self.bytes else 0.0


@dataclass(frozen=True)
class Row:
    """One kind of call by one peer."""

    what: str
    peer: str
    counted: Totals | None
    why_not: str = ""


def count(pair: Pair, run: Callable[[int], object], number: int) -> Totals:
    """What one of the calls that `run(number)` makes costs. Raises Unusable without strace."""
    run(3)  # what the first ones set up is no part of it
    few, many = (_total(pair, run, times) for times in (number, 3 * number))
    return many.less(few, 2 * number)


def rows(what: str, pairs: Iterable[Pair], run: Callable[[Pair, int], object], number: int) -> list[Row]:
    """One row a peer."""
    found = []
    for pair in pairs:
        try:
            found.append(Row(what, pair.peer.name, count(pair, lambda times, pair=pair: run(pair, times), number)))  # type: ignore[misc]
        except (Broken, Unusable) as error:
            found.append(Row(what, pair.peer.name, None, str(error)))
    return found


def report(found: Iterable[Row], skipped: Skipped) -> str:
    """The rows as a table; the reasons once."""
    told = list(found)
    for row in told:
        if row.counted is None:
            skipped.add(f"counts of {row.what} by {row.peer}", row.why_not)
    body = [
        [row.what, row.peer, *(table.number(value) for value in (c.calls, c.bytes, c.shared, c.copies))]
        for row in told
        if (c := row.counted) is not None
    ]
    if not body:
        return "system calls, copies and bytes are not counted: " + next((row.why_not for row in told), "nothing ran")
    header = ["a call, both ends", "", "system calls", "bytes", "of these by shared memory", "copies of each"]
    return table.lines(header, body)


def _total(pair: Pair, run: Callable[[int], object], times: int) -> Totals:
    with tempfile.TemporaryDirectory(prefix="fastsock-bench-") as folder:
        files = [Path(folder) / name for name in ("near", "other")]
        before = pair.near.call("carried")
        attached = [
            system_calls.attach(end.pid, file, summary=False)
            for end, file in zip((pair.near, pair.other), files, strict=True)
        ]
        try:
            run(times)
        finally:
            for process in attached:
                system_calls.detach(process)
        after = pair.near.call("carried")
        calls = sent = got = 0
        for file in files:
            text = file.read_text(errors="replace")
            calls += len(_BEGUN.findall(text))
            for gave, _, size in _RETURNED.findall(text):
                if gave:
                    sent += int(size)
                else:
                    got += int(size)
    shared, direct = (new - old for new, old in zip(after, before, strict=True))
    return Totals(calls, sent, got, shared, direct)
