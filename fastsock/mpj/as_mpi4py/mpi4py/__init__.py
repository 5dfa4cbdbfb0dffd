"""Stands for mpi4py under ``python -m fastsock.mpj.run --as-mpi4py``: the same names, carried by fastsock.mpj."""

from __future__ import annotations

import sys
from typing import Any

try:
    from fastsock.mpj import rc
except ModuleNotFoundError as error:
    if error.name != "fastsock":
        raise
    raise ImportError(
        "here mpi4py stands for fastsock.mpj (because of --as-mpi4py, or of fastsock's mpiexec), but this Python, "
        f"{sys.executable}, has no fastsock. Either install it there too (pip install fastsock), or start the ranks by "
        "the Python that has it: `python -m fastsock.mpj.run --as-mpi4py app.py`, with no `python` before app.py, does"
    ) from None

__version__ = "4.1.2"  # whose names and behaviour these are
__all__ = ["MPI"]

sys.modules[f"{__name__}.rc"] = rc  # type: ignore[assignment]  # importable, as mpi4py's is


def get_include() -> str:
    """Extensions in C are compiled against a real MPI library. This is none."""
    raise NotImplementedError("fastsock.mpj has no C headers: an extension that needs mpi4py's must run with mpi4py")


def get_config() -> dict[str, str]:
    """Of the MPI that it was built with: none."""
    return {}


def profile(name: str, *, path: Any = None) -> None:
    """PMPI libraries wrap the C functions of an MPI library. Nothing here calls those."""
    import warnings

    warnings.warn(f"fastsock.mpj calls no MPI library, so {name!r} has nothing to profile", stacklevel=2)
