"""The part of the ranks' environment that says where Python imports fastsock and mpi4py from."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import MutableMapping

HERE = os.path.dirname(os.path.abspath(__file__))
AS_MPI4PY = os.path.join(HERE, "as_mpi4py")
ROOT = os.path.dirname(os.path.dirname(HERE))  # the directory that holds fastsock
COMMANDS = os.path.join(HERE, "runner", "commands")  # mpiexec and mpirun, for programs that start them by name
PYTHON = "FASTSOCK_MPJ_PYTHON"  # the Python by which these run
_SEARCH_PATH = "PYTHONPATH"


def cover(environ: MutableMapping[str, str], as_mpi4py: bool) -> str | None:
    """Let Pythons with this environment import fastsock, and fastsock.mpj as mpi4py. Returns why not, or None.

    With fastsock.mpj as mpi4py, commands called mpiexec and mpirun are found where there are no others.

    Idempotent.
    """
    entries = environ.get(_SEARCH_PATH, "")
    others = [entry for entry in entries.split(os.pathsep) if entry != AS_MPI4PY] if entries else []
    first = [AS_MPI4PY] if as_mpi4py else []
    last = [] if ROOT in others or found_anywhere() else [ROOT]
    for entry in (*first, *last):
        if os.pathsep in entry:
            return f"{entry} cannot stand in {_SEARCH_PATH}, because of the {os.pathsep!r} in it"
    if first or last or others:
        environ[_SEARCH_PATH] = os.pathsep.join([*first, *others, *last])
    if as_mpi4py:
        environ[PYTHON] = sys.executable
        found = environ.get("PATH", os.defpath).split(os.pathsep)
        if COMMANDS not in found:  # last: an MPI's own go first
            environ["PATH"] = os.pathsep.join([*found, COMMANDS])
    return None


def found_anywhere() -> bool:
    """Whether a Python finds this very fastsock wherever it starts, not only where this one did."""
    before = sys.path[:]
    sys.path[:] = before[1:]  # the working directory, because of -m
    try:
        for finder in sys.meta_path:
            spec = finder.find_spec("fastsock", None)
            if spec is not None:
                return bool(
                    spec.origin and os.path.samefile(os.path.dirname(spec.origin), os.path.join(ROOT, "fastsock"))
                )
    except (OSError, AttributeError):
        return False
    finally:
        sys.path[:] = before
    return False
