"""How long does a job of ranks take that does nothing, from its start to its end, beside MPICH and Open MPI?

python bench/start_ranks.py [--quick]       bench/mpj.py --install first
"""

from __future__ import annotations

import sys
import time

from common import mpi, mpi_command, mpi_targets, question
from common.interleave import Sample
from common.placement import Placement
from common.question import Options
from common.target import Result

RANKS = (2, 4)
STARTED = "start-up"


def timed(peer: mpi.Mpi, ranks: int) -> dict:
    """One job's sample."""
    start = time.perf_counter()
    mpi.run(peer, ranks, "nothing", [])
    return {"what": STARTED, "size": 0, "value": (time.perf_counter() - start) * 1e6}


def measure(options: Options) -> list[Result]:
    peers = mpi_command.those((mpi.FASTSOCK, *mpi.OTHERS), options.skipped)
    placement = Placement(options.cores)
    samples: list[Sample] = []
    for turn in range(options.times(2, 9)):
        for ranks in RANKS:

            def each(peer: mpi.Mpi, ranks: int = ranks) -> list[dict]:
                return [timed(peer, ranks)]

            samples += mpi_command.turn(turn, peers, options.skipped, placement, ranks, False, each)
    options.samples += samples
    return mpi_targets.point_to_point(samples)


if __name__ == "__main__":
    sys.exit(question.main(measure, __doc__))
