"""Performance models of message passing: measured, fitted, tested, used.

After G. L. Taboada, Design of Efficient Java Communications for High Performance Computing, sections 2.1 to 2.4.
Times are microseconds, lengths bytes of the longest buffer that a rank has, p the number of ranks.

    samples.py     what was measured: records, their file, and what may not be mixed
    measure.py     the micro-benchmark suite, run by turns on the MPIs
    lines.py       a parameter as a line in p or log2 p, and the regressions that find it
    boundaries.py  where each MPI changes its protocol
    fits.py        the models of one primitive: the thesis's, Hockney's, and one in pieces
    errors.py      how wrong the models are at lengths that no fit has seen
    metrics.py     bandwidths and specific performances: tables 2.1 to 2.4
    substitute.py  primitives replaced by cheaper combinations: table 2.5
    choosing.py    a selection table from models of the algorithms, beside the tuned one
    targets.py     what the models must reach
"""

import sys
from pathlib import Path

if (folder := str(Path(__file__).parents[1])) not in sys.path:
    sys.path.insert(0, folder)  # the modules of common/ are found as the benches find them
