"""Which algorithm a collective call uses: one table, by primitive, reach, number of ranks and size.

The shipped table (`table.txt`) is measured. The rows of the file FASTSOCK_MPJ_COLLECTIVES replace all rows of the same
primitives and reaches. FASTSOCK_MPJ_<PRIMITIVE> names one algorithm for every call of a primitive that it can serve.
All ranks of a job must see the same, since they must choose the same.
"""

from __future__ import annotations

import os
import sys
from bisect import bisect_right

from ... import config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

SHIPPED = os.path.join(os.path.dirname(__file__), "table.txt")
FILE_VARIABLE = "FASTSOCK_MPJ_COLLECTIVES"
PRIMITIVE_VARIABLE = "FASTSOCK_MPJ_"
REACHES = ("messages", "host", "hosts")


class Row:
    """From so many ranks and so many bytes on, these algorithms: the first that suits the call."""

    __slots__ = ("algorithms", "nbytes", "primitive", "ranks", "reach")

    def __init__(self, primitive: str, reach: str, ranks: int, nbytes: int, algorithms: tuple[str, ...]) -> None:
        self.primitive, self.reach, self.ranks, self.nbytes = primitive, reach, ranks, nbytes
        self.algorithms = algorithms


def parse(text: str, name: str) -> list[Row]:
    """The rows of a table file: primitive, reach, ranks, bytes, algorithms by preference; # starts a comment."""
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        if len(words) != 5 or words[1] not in REACHES or not words[2].isdecimal() or not words[3].isdecimal():
            raise config.ConfigError(
                f"{line.strip()!r} is not: primitive, one of {'/'.join(REACHES)}, "
                "least ranks, least bytes, algorithms with commas between",
                file=name,
                line=number,
            )
        rows.append(Row(words[0], words[1], int(words[2]), int(words[3]), tuple(words[4].split(","))))
    return rows


class Plan:
    """The algorithms of one primitive among so many ranks: the first ones for sizes up to the first bound, ..."""

    __slots__ = ("_algorithms", "_bounds")

    def __init__(self, bounds: list[int], algorithms: list[tuple[str, ...]]) -> None:
        self._bounds, self._algorithms = bounds, algorithms

    def candidates(self, nbytes: int) -> tuple[str, ...]:
        """The algorithms for a call, the best first; empty where the table says nothing."""
        return self._algorithms[bisect_right(self._bounds, nbytes)]

    def sizes(self, algorithm: str) -> list[tuple[int, int]]:
        """The sizes, from one to before another, for which an algorithm is the first choice."""
        found: list[tuple[int, int]] = []
        bounds = [0, *self._bounds, sys.maxsize]
        for least, end, algorithms in zip(bounds, bounds[1:], self._algorithms, strict=False):
            if algorithms[:1] == (algorithm,):
                if found and found[-1][1] == least:
                    least = found.pop()[0]
                found.append((least, end))
        return found


class Table:
    """The selection table."""

    def __init__(self, rows: Iterable[Row], forced: Mapping[str, str] | None = None) -> None:
        self._rows: dict[tuple[str, str], dict[int, list[Row]]] = {}
        self._forced = dict(forced or {})
        self._plans: dict[tuple[str, str, int], Plan] = {}
        self._watchers: list[Callable[[], object]] = [self._plans.clear]
        self.replace(rows)

    def replace(self, rows: Iterable[Row]) -> None:
        """Take these rows in place of all that the table has for the same primitives and reaches."""
        fresh: dict[tuple[str, str], dict[int, list[Row]]] = {}
        for row in sorted(rows, key=lambda row: row.nbytes):
            fresh.setdefault((row.primitive, row.reach), {}).setdefault(row.ranks, []).append(row)
        self._rows.update(fresh)
        self._forget()

    def force(self, primitive: str, algorithm: str | None) -> None:
        """Use one algorithm for every call of a primitive that it can serve; None: as the rows say."""
        self._forced.pop(primitive, None)
        if algorithm is not None:
            self._forced[primitive] = algorithm
        self._forget()

    def candidates(self, primitive: str, reach: str, ranks: int, nbytes: int) -> tuple[str, ...]:
        """The algorithms for a call, the best first; empty where the table says nothing."""
        return self.plan(primitive, reach, ranks).candidates(nbytes)

    def plan(self, primitive: str, reach: str, ranks: int) -> Plan:
        """What the table says of a primitive among so many ranks; to be asked for again when the table has changed."""
        key = (primitive, reach, ranks)
        found = self._plans.get(key)
        if found is None:
            forced = self._forced.get(primitive)
            first = () if forced is None else (forced,)
            by_ranks = self._rows.get((primitive, reach), {})
            few_enough = [least for least in by_ranks if least <= ranks]
            rows = by_ranks[max(few_enough, default=min(by_ranks))] if by_ranks else []
            found = self._plans[key] = Plan(
                [row.nbytes for row in rows[1:]], [first + row.algorithms for row in rows] or [first]
            )
        return found

    def watch(self, watcher: Callable[[], object]) -> None:
        """Call this whenever the table changes."""
        self._watchers.append(watcher)

    def _forget(self) -> None:
        for watcher in self._watchers:
            watcher()


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def _read_own(path: str) -> str:
    try:
        return _read(path)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        advice = "name another file, or leave it unset"
        raise config.ConfigError(f"{FILE_VARIABLE}: the table cannot be read ({why}); {advice}", file=path) from error


def load(environment: Mapping[str, str] = os.environ) -> Table:
    """The shipped table, with the changes of the environment. Raises ConfigError."""
    forced = {
        name[len(PRIMITIVE_VARIABLE) :].lower(): algorithm
        for name, algorithm in environment.items()
        if name.startswith(PRIMITIVE_VARIABLE) and name != FILE_VARIABLE and algorithm
    }
    table = Table(parse(_read(SHIPPED), "table.txt"), forced)
    path = environment.get(FILE_VARIABLE)
    if path:
        table.replace(parse(_read_own(path), f"{path} ({FILE_VARIABLE})"))
    return table


TABLE = load()
