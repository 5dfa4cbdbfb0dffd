"""Ranks started by a process manager that speaks PMI-1: mpiexec of MPICH and Intel MPI (Hydra), `srun --mpi=pmi2`.

Its key-value space carries rank 0's addresses and a fresh secret to the other ranks: as private as that manager's own
connections are.
"""

from __future__ import annotations

import contextlib
import re

from .addresses import WireupError
from .client import WiredJob
from .hosting import by_exchange
from .pmi1 import Pmi1

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_KEY = "fastsock-wireup"
_BY_DESCRIPTOR = ("PMI_FD", "PMI_RANK", "PMI_SIZE")
_BY_PORT = ("PMI_PORT", "PMI_ID")


def detect(environ: Mapping[str, str]) -> str | None:
    """This rank's identity, if a process manager that speaks PMI-1 started it; else None."""
    if not any(all(name in environ for name in names) for names in (_BY_DESCRIPTOR, _BY_PORT)):
        return None
    return " ".join(environ.get(name, "") for name in (*_BY_DESCRIPTOR, *_BY_PORT))


def start(environ: Mapping[str, str]) -> WiredJob:
    """Join. Raises WireupError."""
    manager = Pmi1(environ)

    def put(text: str) -> None:
        manager.put(_KEY, text)
        manager.barrier()

    def get() -> str:
        manager.barrier()
        text = manager.get(_KEY)
        if text is None:
            raise WireupError("rank 0 of this job does not use fastsock.mpj: it left nothing at the process manager")
        return text

    one_host = _hosts(manager.get("PMI_process_mapping") or "") == 1
    job = by_exchange(
        environ, manager.rank, manager.size, manager.name, launcher="hydra", one_host=one_host, put=put, get=get
    )

    def finalize() -> None:
        with contextlib.suppress(WireupError):
            manager.finalize()

    job.on_finish(finalize)
    return job


def _hosts(mapping: str) -> int:
    """How many hosts `(vector,(first,hosts,ranks on each),...)` names; 0 where it says nothing."""
    blocks = re.findall(r"\((\d+),(\d+),\d+\)", mapping)
    return len({host for first, count in blocks for host in range(int(first), int(first) + int(count))})
