"""Ranks started by torchrun: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.

All on one host: they meet by the user. On several: at MASTER_ADDR and the port after MASTER_PORT, which torchrun's own
store takes; FASTSOCK_MPJ_ADDRESS names another. FASTSOCK_MPJ_SECRET must be set then.
"""

from __future__ import annotations

from .addresses import split_host
from .base import Job
from .hosting import ADDRESS, by_address, by_user

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def detect(environ: Mapping[str, str]) -> str | None:
    """This rank's identity, if torchrun started it; else None."""
    if not all(name in environ for name in _VARIABLES):
        return None
    return " ".join(environ[name] for name in _VARIABLES)


def start(environ: Mapping[str, str]) -> Job:
    """Join. Raises WireupError."""
    rank, size = int(environ["RANK"]), int(environ["WORLD_SIZE"])
    host, port = environ["MASTER_ADDR"], int(environ["MASTER_PORT"])
    attempt = environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    name = f"torchrun-{environ.get('TORCHELASTIC_RUN_ID', 'none')}-{host}-{port}-{attempt}"
    if environ.get("LOCAL_WORLD_SIZE") == environ["WORLD_SIZE"]:
        return by_user(environ, rank, size, name, launcher="torchrun")
    if ADDRESS in environ:
        host, port = split_host(environ[ADDRESS], ADDRESS)
    else:
        port += 1
    return by_address(environ, rank, size, name, host, port, launcher="torchrun")
