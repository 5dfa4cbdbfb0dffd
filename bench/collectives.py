"""Every collective, beside mpi4py on MPICH and on Open MPI; and the selection table of fastsock.mpj, measured anew.

python bench/collectives.py --install          first time: MPICH and Open MPI from their wheels, into bench/.venvs
python bench/collectives.py --ranks 2,4,8 --sizes 8,1k,64k,1m,16m --what bcast,ibcast,bcast_init --plot FILE.png
python -m bench.collectives --tune [FILE]      every algorithm, by size and number of ranks: the fastest into the table
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # also as a module of this folder

from common import collective_curves, collective_targets, collective_tuning, mpi_command, sizes
from common.interleave import Skipped


def main() -> int:
    words = _arguments()
    if words.tune:
        return collective_tuning.main(words)
    skipped = Skipped()
    samples = mpi_command.turns(words, mpi_command.find(words, skipped), skipped, "collectives")
    for ranks in words.ranks:
        print(mpi_command.lines(samples, ranks, False, words.peers, "us"))
    mpi_command.report(words, samples, collective_targets.results(samples), skipped)
    if words.plot:
        collective_curves.write(words.plot, samples, f"cores {words.pin[0]} and {words.pin[1]}")
    return 0 if samples else 1


def _arguments() -> argparse.Namespace:
    parser = mpi_command.options(
        __doc__, "two turns, four sizes, the six most used", "draw a panel for each collective"
    )
    forms = "ibcast: the non-blocking form; bcast_init: the persistent one; object_bcast: the one of objects"
    parser.add_argument("--what", default="", help=f"names, with commas; {forms} (default: all)")
    parser.add_argument("--seconds", type=float, default=0.03, help="for each measurement")
    parser.add_argument(
        "--tune", nargs="?", const=str(collective_tuning.SHIPPED), metavar="FILE",
        help="measure every algorithm of fastsock.mpj and write its selection table (default: the shipped one)",
    )  # fmt: skip
    words = parser.parse_args()
    if words.quick:
        words.turns, words.sizes = 2, sizes.parse("8,1k,64k,1m")
        words.what = words.what or ",".join(collective_targets.WANTED)
    return words


if __name__ == "__main__":
    sys.exit(main())
