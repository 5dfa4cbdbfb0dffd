"""One thread each for BLAS and Numba. Imported before numpy: the libraries read this once, as they are loaded."""

from __future__ import annotations

import os

for name in ("OPENBLAS", "MKL", "BLIS", "OMP", "VECLIB_MAXIMUM", "NUMBA"):
    os.environ[f"{name}_NUM_THREADS"] = "1"
