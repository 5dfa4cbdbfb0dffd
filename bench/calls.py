"""Persistent and matched messages, waiting for some of several, objects, probes, pairs: beside MPICH and Open MPI.

python bench/calls.py [--quick]       bench/mpj.py --install first
"""

from __future__ import annotations

import sys

from common import call_targets, mpi, mpi_command, question
from common.interleave import Sample
from common.placement import Placement
from common.question import Options
from common.target import Result


def measure(options: Options) -> list[Result]:
    """Every call on two ranks, some on four."""
    peers = mpi_command.those((mpi.FASTSOCK, *mpi.OTHERS), options.skipped)
    placement, cores = Placement(options.cores), ",".join(map(str, options.cores))
    samples: list[Sample] = []
    for turn in range(options.times(2, 5)):
        for ranks in call_targets.RANKS:

            def each(peer: mpi.Mpi, ranks: int = ranks) -> list[dict]:
                return call_targets.measured(peer, ranks, cores)

            samples += mpi_command.turn(turn, peers, options.skipped, placement, ranks, False, each)
    options.samples += samples
    return call_targets.results(samples)


if __name__ == "__main__":
    sys.exit(question.main(measure, __doc__))
