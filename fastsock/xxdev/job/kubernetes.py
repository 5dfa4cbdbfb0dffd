"""Ranks that are pods of a Kubernetes Job with completionMode Indexed: JOB_COMPLETION_INDEX is the rank.

Kubernetes tells neither how many there are nor where index 0 is, so the pod's template does: FASTSOCK_MPJ_SIZE,
FASTSOCK_MPJ_ADDRESS (<job>-0.<headless service>:<port>) and, from a Secret, FASTSOCK_MPJ_SECRET.
"""

from __future__ import annotations

from .addresses import WireupError, number, split_host
from .base import Job
from .hosting import ADDRESS, by_address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_SIZE = "FASTSOCK_MPJ_SIZE"


def detect(environ: Mapping[str, str]) -> str | None:
    """This rank's identity, if Kubernetes started it as one of a job; else None."""
    if "JOB_COMPLETION_INDEX" not in environ or not ({_SIZE, ADDRESS} & environ.keys()):
        return None
    return f"{environ['JOB_COMPLETION_INDEX']} {environ.get(ADDRESS)}"


def start(environ: Mapping[str, str]) -> Job:
    """Join. Raises WireupError."""
    missing = [name for name in (_SIZE, ADDRESS) if name not in environ]
    if missing:
        raise WireupError(
            f"this pod of an indexed job has no {missing[0]}: let the pod's template set {_SIZE} to the job's "
            f"completions, and {ADDRESS} to <job>-0.<headless service>:<port>"
        )
    rank, size = number(environ, "JOB_COMPLETION_INDEX", 0), number(environ, _SIZE, 1)
    if not 0 <= rank < size:
        raise WireupError(f"JOB_COMPLETION_INDEX is {rank}, but {_SIZE} says {size} ranks")
    host, port = split_host(environ[ADDRESS], ADDRESS)
    return by_address(environ, rank, size, f"kubernetes-{host}", host, port, launcher="kubernetes")
