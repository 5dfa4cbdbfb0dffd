"""Ranks that somebody started by hand or by a script: FASTSOCK_MPJ_RANK, _SIZE, _ADDRESS (of rank 0) and _SECRET."""

from __future__ import annotations

from .addresses import number, split_host
from .base import Job
from .hosting import ADDRESS, by_address
from .own import JOB, RANK, SIZE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def detect(environ: Mapping[str, str]) -> str | None:
    """This rank's identity, if it was started by hand; else None."""
    if not all(name in environ for name in (RANK, SIZE, ADDRESS)):
        return None
    return f"{environ[RANK]} {environ[ADDRESS]}"


def start(environ: Mapping[str, str]) -> Job:
    """Join. Raises WireupError."""
    host, port = split_host(environ[ADDRESS], ADDRESS)
    name = environ.get(JOB, "by-hand")
    return by_address(environ, number(environ, RANK, 0), number(environ, SIZE, 1), name, host, port, launcher="by hand")
