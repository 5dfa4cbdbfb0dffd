"""Ranks started by `python -m fastsock.mpj.run`: everything is told by the environment."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .base import Job

RANK = "FASTSOCK_MPJ_RANK"
SIZE = "FASTSOCK_MPJ_SIZE"
JOB = "FASTSOCK_MPJ_JOB"
SECRET = "FASTSOCK_MPJ_SECRET"
SERVERS = "FASTSOCK_MPJ_WIREUP"  # addresses.py, separated by commas
INTERFACE = "FASTSOCK_MPJ_INTERFACE"
# of ranks that were spawned:
PARENT = "FASTSOCK_MPJ_PARENT"  # the port where those wait that spawned them
APPLICATION = "FASTSOCK_MPJ_APPLICATION"  # which of the commands of a Spawn_multiple this rank runs


def detect(environ: Mapping[str, str]) -> str | None:
    """This rank's identity, if fastsock.mpj.run started it; else None."""
    if SERVERS not in environ:
        return None
    return f"{environ[JOB]} {environ[RANK]}"


def start(environ: Mapping[str, str]) -> Job:
    """Join. Raises WireupError."""
    from .client import WiredJob  # the runner imports this module, and joins nothing

    return WiredJob(
        int(environ[RANK]),
        int(environ[SIZE]),
        environ[JOB],
        environ[SECRET].encode(),
        environ[SERVERS].split(","),
        launcher="fastsock",
        interface=environ.get(INTERFACE),
    )
