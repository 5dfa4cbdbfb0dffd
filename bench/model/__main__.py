"""Performance models of message passing, on fastsock.mpj, MPICH and Open MPI.

python -m bench.model measure                    the micro-benchmark suite into --samples, goes on where it was cut off
python -m bench.model fit                        the models of --samples into --models
python -m bench.model errors                     how wrong the models are at lengths that no fit has seen
python -m bench.model predict --what bcast --bytes 64K --ranks 4
python -m bench.model metrics                    parameters and peaks, as tables 2.1 to 2.4 of the thesis
python -m bench.model substitute                 primitives replaced by cheaper combinations, as table 2.5, and measured
python -m bench.model table                      a selection table from models of the algorithms, beside the tuned one
"""

from __future__ import annotations

import sys

from . import cli

if __name__ == "__main__":
    sys.exit(cli.main())
