"""NPB's kernels: python -m fastsock.mpj.run -n 4 --as-mpi4py bench/npb/run.py cg W   (or: mpiexec -n 4 python ... )"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ranks import program

KERNELS = {
    "cg": "npb.cg:CG",
    "ep": "npb.ep:EP",
    "ft": "npb.ft:FT",
    "is": "npb.is_:IS",
    "mg": "npb.mg:MG",
    "sp": "npb.sp:SP",
    "dt-bh": "npb.dt:BlackHole",
    "dt-wh": "npb.dt:WhiteHole",
    "dt-sh": "npb.dt:Shuffle",
}

if __name__ == "__main__":
    program.main(KERNELS, sys.argv[1:])
