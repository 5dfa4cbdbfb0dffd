"""JGF's kernels: python -m fastsock.mpj.run -n 4 --as-mpi4py bench/jgf/run.py lufact A (or mpiexec -n 4 python ...)"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ranks import program

KERNELS = {
    "crypt": "jgf.crypt:Crypt",
    "lufact": "jgf.lufact:LUFact",
    "series": "jgf.series:Series",
    "sor": "jgf.sor:SOR",
    "sparse": "jgf.sparse:SparseMatmult",
    "moldyn": "jgf.moldyn:MolDyn",
}

if __name__ == "__main__":
    program.main(KERNELS, sys.argv[1:])
