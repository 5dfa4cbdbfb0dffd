"""The selection table of fastsock.mpj, measured: the fastest algorithm by primitive, reach, number of ranks and size.

Between hosts is measured over TCP on this one, each rank as if on a host of its own.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from . import machine, mpi, table

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
Measured = dict[tuple[str, str, int, int], dict[str, float]]


def main(words: argparse.Namespace) -> int:
    """Measure, print and write; what is not measured this time stays in the file."""
    measured: Measured = {}
    for reach in REACHES:
        runner = mpi.find(mpi.FASTSOCK_TCP if reach == "hosts" else mpi.FASTSOCK)
        for ranks in words.ranks:
            print(f"{reach}, {ranks} ranks", file=sys.stderr, flush=True)
            machine.wait_until_idle()
            said = ["--reach", reach, "--cores", ",".join(map(str, words.pin)), "--what", words.what]
            said += ["--sizes", ",".join(map(str, words.sizes)), "--seconds", str(words.seconds)]
            for entry in mpi.run(runner, ranks, "algorithms", said, timeout=1800):
                key = (entry["what"], reach, ranks, entry["size"])
                measured.setdefault(key, {})[entry["algorithm"]] = entry["value"]
    rows = list(chosen(measured))
    lines = [f"{' '.join(map(str, key))} {algorithm}  # {note}" for *key, algorithm, note in rows]
    fresh = {tuple(line.split()[:3]) for line in lines}
    file = Path(words.tune)
    kept = file.read_text().splitlines() if file.exists() else UNMEASURED
    lines += [line for line in kept if line[:1] != "#" and tuple(line.split()[:3]) not in fresh]
    file.write_text(HEADER + "\n".join(sorted(lines, key=_order)) + "\n")
    print("\n".join(line for line in lines if tuple(line.split()[:3]) in fresh))
    return 0


def _order(line: str) -> tuple[str, int, int, int]:
    name, reach, ranks, nbytes = line.split()[:4]
    return name, REACHES.index(reach), int(ranks), int(nbytes)


HEADER = f"""\
# Which algorithm each collective uses, measured by python -m bench.collectives --tune
# primitive, reach, from so many ranks on, from so many bytes on, algorithms: the first that suits the call.
# Reach: host = all share memory and the call blocks; messages = on one host, by messages; hosts = between hosts.
# Bytes: of the vector; of all blocks that a rank receives; of one block in scatter and gather; 0 where only one rank
# knows them ({", ".join(SIZELESS)}).
"""
UNMEASURED = ("neighbour_allgather messages 1 0 flat_tree", "neighbour_alltoall messages 1 0 flat_tree")


def chosen(measured: Measured) -> Iterable[tuple[str, str, int, int, str, str]]:
    """The table's rows."""
    for name, reach, ranks in dict.fromkeys(key[:3] for key in measured):
        mine = {key[3]: values for key, values in measured.items() if key[:3] == (name, reach, ranks)}
        if name in SIZELESS:
            mine = {0: _together(mine.values())}
        last = ""
        least = 0
        for size, values in sorted(mine.items()):
            straight = reach == "host" and name in STRAIGHT and size < SMALL
            best = "shared_memory" if straight else min(values, key=values.__getitem__)
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
