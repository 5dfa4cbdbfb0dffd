"""The selection table of fastsock.mpj, measured: the fastest algorithm by primitive, reach, number of ranks and size.

Between hosts is measured over TCP on this one, each rank as if on a host of its own.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from . import machine, mpi, sizes, summary, table
from .placement import NEAR, Placement
from .process import Broken, Unusable

SHIPPED = Path(__file__).parents[2] / "fastsock" / "mpj" / "collectives" / "table.txt"
WORTH = 0.05  # by how much an algorithm must be faster to take the place of the one for the next smaller size
# Where only one rank knows the sizes the table is asked for size 0: these stand for all.
SIZELESS = ("scatterv", "gatherv", "alltoallv", "alltoallw", "barrier")
# What two levels gain cannot be seen on one host: they use the slow links between hosts once.
LEVELLED = ("barrier", "bcast", "scatter", "scatterv", "gather", "gatherv", "allgather", "allgatherv", "reduce",
            "allreduce", "reduce_scatter", "reduce_scatter_block", "scan", "exscan")  # fmt: skip
REACHES = ("host", "messages", "hosts")
# Calls of these in shared memory go straight to the core, and not the way that is timed here: what that costs more
# hides how fast small ones are.
STRAIGHT = ("bcast", "scatter", "gather", "allgather", "alltoall", "reduce", "allreduce", "reduce_scatter_block",
            "scan", "exscan", "scatterv", "gatherv", "allgatherv", "alltoallv", "alltoallw",
            "reduce_scatter")  # fmt: skip
SMALL = 128 * 1024
PRIMITIVES = ("barrier", *STRAIGHT)
SIZES = sizes.parse("8,1k,16k,64k,256k,1m,4m,16m")  # the shipped table's
SECONDS = 0.03  # for each algorithm and size, there too
Measured = dict[tuple[str, str, int, int], dict[str, float]]  # primitive, reach, ranks, size: microseconds by algorithm
Row = tuple[str, str, int, int, str, str]  # primitive, reach, ranks, size, algorithms, note


def main(words: argparse.Namespace) -> int:
    """Measure, print and write; what is not measured this time stays in the file."""
    try:
        names = named(words.what)
    except Unusable as error:
        print(error, file=sys.stderr)
        return 2
    placement = Placement(words.pin)
    taken: list[tuple[str, Measured]] = []
    # a start for each, as the cores stay where they are for seconds
    for turn, reach, ranks, name in itertools.product(range(words.turns), REACHES, words.ranks, names.split(",")):
        print(f"turn {turn + 1}: {name}, {reach}, {ranks} ranks", file=sys.stderr, flush=True)
        before = placement.probe()
        said = ["--what", name, "--seconds", str(words.seconds)]
        try:
            some, _ = measure(reach, ranks, words.pin, said, words.sizes)
        except Broken as error:  # the other starts count
            print(f"left out: {error}", file=sys.stderr)
            continue
        taken.append((placement.name(before, placement.probe()), some))
    near = sum(where == NEAR for where, _ in taken)
    print(f"{near} of {len(taken)} starts were near; of the others counts what was never near", file=sys.stderr)
    measured = medians(taken)
    rows = list(chosen(measured))
    write(words.tune, rows, measured)
    print("\n".join(map(as_line, rows)))
    return 0


def named(what: str) -> str:
    """The collectives that a user named, or all. Raises Unusable for one that has no algorithms."""
    names = what.split(",") if what else PRIMITIVES
    if unknown := [name for name in names if name not in PRIMITIVES]:
        raise Unusable(f"--what {unknown[0]} has no algorithms to choose from; there are {', '.join(PRIMITIVES)}")
    return ",".join(names)


def measure(
    reach: str, ranks: int, cores: tuple[int, int], said: Iterable[str], lengths: Iterable[int]
) -> tuple[Measured, float]:
    """What one start of ranks takes for its algorithms, and the seconds that the measuring took. Raises Broken."""
    runner = mpi.find(mpi.FASTSOCK_TCP if reach == "hosts" else mpi.FASTSOCK)
    machine.wait_until_idle()
    words = ["--reach", reach, "--cores", ",".join(map(str, cores)), "--sizes", ",".join(map(str, lengths)), *said]
    measured: Measured = {}
    took = 0.0
    for entry in mpi.run(runner, ranks, "algorithms", words, timeout=1800):
        measured.setdefault((entry["what"], reach, ranks, entry["size"]), {})[entry["algorithm"]] = entry["value"]
        took += entry["seconds"]
    return measured, took


def medians(taken: Iterable[tuple[str, Measured]]) -> Measured:
    """Of what several starts measured, each at a distance of the cores: of the near ones, or of all where none was.

    Far cores make copies several times dearer, and another algorithm the fastest. One start may have been disturbed.
    """
    by_cell: dict[Any, list[tuple[bool, dict[str, float]]]] = {}
    for where, measured in taken:
        for cell, values in measured.items():
            by_cell.setdefault(cell, []).append((where == NEAR, values))
    found: Measured = {}
    for cell, several in by_cell.items():
        counted = [values for near, values in several if near] or [values for _, values in several]
        found[cell] = {name: summary.median([values[name] for values in counted]) for name in counted[0]}
    return found


def write(file: str, rows: Iterable[Row], measured: Measured) -> None:
    """Write the rows into a table's file. What was not measured stays there: other calls, and longer messages."""
    longest: dict[tuple[str, str, int], int] = {}
    for name, reach, ranks, size in measured:
        longest[name, reach, ranks] = max(size, longest.get((name, reach, ranks), 0))
    lines = [as_line(row) for row in rows]
    there = Path(file).read_text().splitlines() if Path(file).exists() else UNMEASURED
    for line in there:
        if line.strip() and line[:1] != "#":
            name, reach, number, nbytes = line.split()[:4]
            if int(nbytes) > longest.get((name, reach, int(number)), -1):
                lines.append(line)
    Path(file).write_text(HEADER + "\n".join(sorted(lines, key=_order)) + "\n")


def as_line(row: Row) -> str:
    """The row in the table's file."""
    *key, algorithm, note = row
    return f"{' '.join(map(str, key))} {algorithm}  # {note}"


def _order(line: str) -> tuple[str, int, int, int]:
    name, reach, ranks, nbytes = line.split()[:4]
    return name, REACHES.index(reach), int(ranks), int(nbytes)


HEADER = f"""\
# Which algorithm each collective uses, measured by python -m bench.collectives --tune
# (lines of "model": from the models of python -m bench.model table).
# primitive, reach, from so many ranks on, from so many bytes on, algorithms: the first that suits the call.
# Reach: host = all share memory and the call blocks; messages = on one host, by messages; hosts = between hosts.
# Bytes: of the vector; of all blocks that a rank receives; of one block in scatter and gather; 0 where only one rank
# knows them ({", ".join(SIZELESS)}).
"""
UNMEASURED = ("neighbour_allgather messages 1 0 flat_tree", "neighbour_alltoall messages 1 0 flat_tree")


def by_rule(name: str, reach: str, size: int) -> bool:
    """Whether a call has its algorithm by rule, whatever was measured."""
    return reach == "host" and name in STRAIGHT and (name in SIZELESS or size < SMALL)


def chosen(measured: Measured) -> Iterable[Row]:
    """The table's rows."""
    for name, reach, ranks in dict.fromkeys(key[:3] for key in measured):
        mine = {key[3]: values for key, values in measured.items() if key[:3] == (name, reach, ranks)}
        if name in SIZELESS:
            mine = {0: _together(mine.values())}
        last = ""
        least = 0
        for size, values in sorted(mine.items()):
            best = "shared_memory" if by_rule(name, reach, size) else min(values, key=values.__getitem__)
            if last and values[best] > values[last] * (1 - WORTH):
                continue
            slower = sorted((value / values[best], other) for other, value in values.items() if other != best)
            note = f"{table.number(values[best])} us" if name not in SIZELESS else "fastest"
            if slower:
                note += f"; {slower[0][1]} {slower[0][0]:.2f} times"
            levels = "two_level," if reach == "hosts" and name in LEVELLED else ""
            yield name, reach, ranks, least if not last else size, levels + best, note
            last = best


def _together(several: Iterable[dict[str, float]]) -> dict[str, float]:
    """One value for several sizes: the product, so that each counts the same."""
    result: dict[str, float] = {}
    for values in several:
        for algorithm, value in values.items():
            result[algorithm] = result.get(algorithm, 1.0) * value
    return result
