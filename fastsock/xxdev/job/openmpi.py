"""Ranks started by Open MPI's mpiexec, or by another launcher that speaks PMIx (prterun, `srun --mpi=pmix`).

All on one host: they meet by the user. On several: the launcher's PMIx servers carry rank 0's addresses and a fresh
secret; where no PMIx library is found, FASTSOCK_MPJ_ADDRESS and FASTSOCK_MPJ_SECRET must tell them.
"""

from __future__ import annotations

from .addresses import WireupError, split_host
from .base import Job
from .hosting import ADDRESS, SECRET, by_address, by_exchange, by_user

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_KEY = "fastsock.wireup"
_RANK, _SIZE, _LOCAL_SIZE = "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"
_PMIX = ("PMIX_NAMESPACE", "PMIX_RANK")


def detect(environ: Mapping[str, str]) -> str | None:
    """This rank's identity, if Open MPI's launcher started it; else None."""
    if _RANK not in environ and not all(name in environ for name in _PMIX):
        return None
    return " ".join(environ.get(name, "") for name in (*_PMIX, _RANK))


def start(environ: Mapping[str, str]) -> Job:
    """Join. Raises WireupError."""
    rank = int(environ.get(_RANK) or environ["PMIX_RANK"])
    name = f"pmix-{environ.get('PMIX_NAMESPACE', 'none')}"
    if _SIZE in environ and environ[_SIZE] == environ.get(_LOCAL_SIZE):
        return by_user(environ, rank, int(environ[_SIZE]), name, launcher="openmpi")
    if ADDRESS in environ and _SIZE in environ:
        host, port = split_host(environ[ADDRESS], ADDRESS)
        return by_address(environ, rank, int(environ[_SIZE]), name, host, port, launcher="openmpi")
    from .pmix import Pmix

    try:
        server = Pmix(environ)
    except WireupError as error:
        raise WireupError(
            f"{error}. Tell the ranks yourself where rank 0 is: {ADDRESS}=host:port, and {SECRET}=random text, "
            "the same in all ranks (mpiexec -x passes them on)"
        ) from None

    def put(text: str) -> None:
        server.put(_KEY, text)
        server.fence()

    def get() -> str:
        server.fence()
        return server.get(0, _KEY)

    size = int(environ[_SIZE]) if _SIZE in environ else server.size()
    job = by_exchange(environ, rank, size, name, launcher="openmpi", one_host=False, put=put, get=get)
    job.on_finish(server.finalize)
    return job
