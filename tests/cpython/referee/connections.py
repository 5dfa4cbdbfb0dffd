"""Reads what FASTSOCK_STATS wrote: how many connections took each path, and why not a better one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass
class Paths:
    """Ends of connections by path, reasons by (path, reason). Both ends of a connection count.

    The totals are each process's own; a process that was killed wrote none.
    """

    taken: Counter[str] = field(default_factory=Counter)
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
    processes: int = 0
    unreadable: int = 0

    def add(self, other: Paths) -> None:
        self.taken += other.taken
        self.reasons += other.reasons
        self.processes += other.processes
        self.unreadable += other.unreadable

    def __str__(self) -> str:
        taken = ", ".join(f"{path} {count}" for path, count in self.taken.most_common()) or "none"
        others = Counter({f"{path}/{reason}": n for (path, reason), n in self.reasons.items() if reason != "joined"})
        why = ", ".join(f"{name} {count}" for name, count in others.most_common(8))
        return (
            taken
            + (f"; why: {why}" if why else "")
            + (f"; {self.unreadable} unreadable lines" if self.unreadable else "")
        )


def read(lines: Iterable[str]) -> Paths:
    """Sums the lines of one or more processes."""
    paths = Paths()
    for text in lines:
        try:
            line = json.loads(text)
        except ValueError:  # two processes wrote at once, or one was killed in the middle
            paths.unreadable += 1
            continue
        if "totals" in line:
            paths.processes += 1
            paths.taken.update(line["totals"])
        else:
            paths.reasons[line["transport"], line["reason"]] += 1
    return paths
