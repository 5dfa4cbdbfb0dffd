"""Two hosts without RDMA, joined by one wire: arrays beside pickles, and ranks beside MPICH and Open MPI. Needs root.

python bench/between_hosts.py --install          first time: MPICH and Open MPI from their wheels, into bench/.venvs
python bench/between_hosts.py --ranks 2,4 --sizes 8,1k,64k,1m,4m --json FILE

The hosts are network namespaces of this machine, so all that is measured shares its cores. Between them everybody
uses tcp. Ratios are medians over turns; each turn runs all that is compared, one after the other.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path

from common import exchange, mpi, mpi_command, mpi_targets, network, question, summary
from common.exchange import PING_PONG, STREAM
from common.interleave import Sample, Skipped
from common.peers.arrays import FastArrays, PickleTcp
from common.placement import Placement
from common.process import Broken
from common.target import Result

PICKLE, ARRAYS = "pickle over tcp", "send_array over tcp"
COLLECTIVES = "bcast,allreduce"
LEAST = 10  # times that each size crosses the wire at the very least
NOISE = 0.05  # of ranks that share cores with the wire


def main() -> int:
    words = _arguments()
    reason = network.why_not()
    if reason:
        print(f"between_hosts: {reason}", file=sys.stderr)
        return 1
    skipped = Skipped()
    with network.Hosts(2) as hosts, tempfile.TemporaryDirectory(prefix="fastsock-bench-") as folder:
        results = [] if words.no_arrays else arrays(words, hosts, skipped)
        samples = ranks(words, hosts, Path(folder), skipped)
    mpi_command.report(words, samples, results + targets(samples), skipped)
    return 0 if samples else 1


def _arguments() -> argparse.Namespace:
    parser = mpi_command.options(__doc__, "two turns, three sizes", "(not drawn here)")
    parser.add_argument("--no-arrays", action="store_true", help="only the ranks")
    parser.set_defaults(ranks=[2, 4], peers=[mpi.FASTSOCK, *mpi.OTHERS])
    words = parser.parse_args()
    if words.quick:
        words.turns, words.sizes = 2, [8, 64 << 10, 1 << 20]
    return words


def arrays(words: argparse.Namespace, hosts: network.Hosts, skipped: Skipped) -> list[Result]:
    """send_array against pickle, there and back and one way."""
    fast, pickles = network.between(hosts, FastArrays), network.between(hosts, PickleTcp)
    cells = [(what, size) for size in words.sizes for what in (PING_PONG, STREAM)]
    samples = exchange.measure(
        [pickles, partial(fast, ARRAYS, "tcp", into=False)],
        cells, cores=words.pin, groups=1, turns=words.turns, seconds=0.03, skipped=skipped,
    )  # fmt: skip
    return [
        question.ratio(
            f"{ARRAYS}, {size} B, {what}, times {PICKLE}",
            summary.compare(samples, what, size, ARRAYS, PICKLE), skipped, ARRAYS, at_least=1,
            cores=summary.placements(samples, what, size), note=summary.medians(samples, what, size), noise=NOISE,
        )
        for what, size in cells
    ]  # fmt: skip


def ranks(words: argparse.Namespace, hosts: network.Hosts, folder: Path, skipped: Skipped) -> list[Sample]:
    """Point to point by two ranks, one on each host; collectives by all numbers of ranks."""
    placement, samples, turn = Placement(words.pin), [], 0
    found = mpi_command.find(words, skipped)
    for count in words.ranks:
        peers = [network.across(hosts, peer, folder, count // 2) for peer in found]
        cores = ",".join([str(words.pin[0])] * (count // 2) + [str(words.pin[1])] * (count // 2))
        said = ["--cores", cores, "--seconds", "0.05", "--sizes", ",".join(map(str, words.sizes))]

        def each(peer: mpi.Mpi, count: int = count, said: list[str] = said) -> list[dict]:
            before = hosts.received(1)
            found = mpi.run(peer, count, "point_to_point", [*said, "--what", "latency,bandwidth"])
            found += mpi.run(peer, count, "collectives", [*said, "--what", COLLECTIVES])
            if hosts.received(1) - before < LEAST * sum(words.sizes):
                raise Broken(f"{peer.name} did not use the wire: its ranks share memory between the hosts")
            return found

        for _ in range(words.turns):
            turn += 1
            samples += mpi_command.turn(turn, peers, skipped, placement, count, False, each)
        print(mpi_command.lines(samples, count, False, words.peers, "what"))
    return samples


def targets(samples: list[Sample]) -> list[Result]:
    """Never slower than the better of the others, at any size."""
    return [
        Result(
            f"{what}, {size} B", mpi_targets.against_best(samples, what, size), "x", 1, None,
            summary.placements(samples, what, size), "", NOISE,
        )
        for what, size in dict.fromkeys((sample.what, sample.size) for sample in samples)
    ]  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
