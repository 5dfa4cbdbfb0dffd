"""What the commands that measure the MPIs side by side share: options, peers, turns, and what they print and write."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence

from . import machine, mpi, mpi_targets, record, sizes, summary, table, target
from .interleave import Sample, Skipped
from .placement import Placement
from .process import Broken, Unusable
from .question import Options
from .target import Result
from .words import Parser

PEERS = (mpi.FASTSOCK, mpi.FASTSOCK_TCP, mpi.MPICH, mpi.OPENMPI)


def options(text: str | None, quick: str, plot: str) -> argparse.ArgumentParser:
    """The options of all; ``quick`` and ``plot`` are what these two do in this command."""
    parser = Parser(description=text)
    parser.add_argument(
        "--ranks", default="2,4,8", type=numbers, help="numbers of ranks, with commas (default: %(default)s)"
    )
    parser.add_argument("--sizes", default="8,1k,16k,64k,256k,1m,4m,16m", type=sizes.parse)
    parser.add_argument("--peers", default=",".join(PEERS), type=lambda text: text.split(","))
    parser.add_argument("--turns", type=int, default=5, help="runs of each MPI for each number of ranks")
    parser.add_argument("--pin", default="0,1", type=machine.two_cores, help="the cores (default: 0,1)")
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--install", action="store_true", help="first install MPICH and Open MPI into bench/.venvs")
    parser.add_argument("--json", metavar="FILE", help="write samples and results")
    parser.add_argument("--plot", metavar="FILE.png", help=plot)
    return parser


def numbers(text: str) -> list[int]:
    """Numbers of at least 1 with commas between. Raises ValueError."""
    found = [int(number) if number.strip().isdecimal() else 0 for number in text.split(",")]
    if min(found) < 1:
        raise ValueError(f"{text}: numbers are wanted, with commas, as 1,2,4")
    return found


def find(words: argparse.Namespace, skipped: Skipped) -> list[mpi.Mpi]:
    """The MPIs that were asked for and can run here."""
    if words.install:
        for name in mpi.OTHERS:
            mpi.install(name)
    return those(words.peers, skipped)


def those(names: Iterable[str], skipped: Skipped) -> list[mpi.Mpi]:
    """The MPIs of these names that can run here; the others are told."""
    peers = []
    for name in names:
        try:
            peers.append(mpi.find(name))
        except Unusable as error:
            skipped.add(name, str(error))
    return peers


def turn(
    number: int,
    peers: Sequence[mpi.Mpi],
    skipped: Skipped,
    placement: Placement,
    ranks: int,
    one_core: bool,
    measure: Callable[[mpi.Mpi], list[dict]],
) -> list[Sample]:
    """Each of the peers once; who breaks is skipped from then on."""
    samples: list[Sample] = []
    disturbed = machine.wait_until_idle() > 0.15
    before = placement.probe()
    for peer in peers:
        if peer.name in skipped:
            continue
        try:
            found = measure(peer)
        except Broken as error:
            skipped.add(peer.name, str(error))
            continue
        after = placement.probe()
        where = "one core" if one_core else placement.name(before, after)
        samples += [
            Sample(
                mpi_targets.name(entry["what"], ranks, one_core), peer.name, entry["size"], entry["value"],
                number, where, before, after, disturbed,
            )
            for entry in found
        ]  # fmt: skip
        before = after
    return samples


def lines(samples: Sequence[Sample], ranks: int, one_core: bool, peers: Sequence[str], title: str) -> str:
    """The table of one number of ranks."""
    mine = [s for s in samples if s.what.endswith(mpi_targets.name("", ranks, one_core))]
    rows = []
    for what, size in dict.fromkeys((s.what, s.size) for s in mine):
        row = [what, sizes.name(size) if size else ""]
        for peer in peers:
            values = [s.value for s in mine if (s.what, s.size, s.peer) == (what, size, peer)]
            row.append(table.number(summary.median(values)) if values else "-")
        row.append(table.number(mpi_targets.against_best(samples, what, size)))
        row.append(summary.placements(mine, what, size))
        rows.append(row)
    return table.lines([title, "size", *peers, "times the best other", "cores"], rows) + "\n"


def report(words: argparse.Namespace, samples: Sequence[Sample], results: Sequence[Result], skipped: Skipped) -> None:
    """Print the targets; write what was asked for."""
    print(target.report(results) + "\n" + target.count(results))
    if words.json:
        record.write(words.json, {"samples": samples, "results": results, "skipped": skipped})


def beside_others(options: Options, ranks: int, program: str, said: Sequence[str]) -> None:
    """Adds samples of one program of bench/mpi, on fastsock and on the others by turns, to the options' own."""
    peers = those((mpi.FASTSOCK, *mpi.OTHERS), options.skipped)
    placement = Placement(options.cores)
    for number in range(options.times(2, 7)):
        options.samples += turn(
            number, peers, options.skipped, placement, ranks, False, lambda peer: mpi.run(peer, ranks, program, said)
        )


def turns(words: argparse.Namespace, peers: Sequence[mpi.Mpi], skipped: Skipped, program: str) -> list[Sample]:
    """Samples of one program of bench/mpi, which takes --sizes, --cores, --what and --seconds."""
    placement = Placement(words.pin)
    said = ["--sizes", ",".join(map(str, words.sizes)), "--cores", ",".join(map(str, words.pin))]
    said += ["--what", words.what, "--seconds", str(words.seconds)]
    samples: list[Sample] = []
    number = 0
    for _ in range(words.turns):
        for ranks in words.ranks:
            number += 1

            def each(peer: mpi.Mpi, ranks: int = ranks) -> list[dict]:
                return mpi.run(peer, ranks, program, said, timeout=600)

            samples += turn(number, peers, skipped, placement, ranks, False, each)
    return samples
