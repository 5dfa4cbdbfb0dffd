"""Ranks started by Slurm's `srun` without any MPI plugin: SLURM_PROCID and what else a step's environment tells.

All on one node: they meet by the user. On several: rank 0 is on the first node of the step, and listens at a port that
follows from the step's number; FASTSOCK_MPJ_ADDRESS names another place. FASTSOCK_MPJ_SECRET must be set then, in the
batch script for example, whose environment `srun` hands on. (`srun --mpi=pmi2` and `--mpi=pmix` need no secret.)
"""

from __future__ import annotations

import re

from .addresses import WireupError, split_host
from .base import Job
from .hosting import ADDRESS, by_address, by_user

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_RANK, _SIZE, _STEP, _NODES = "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID", "SLURM_STEP_NUM_NODES"
_NODE_LIST = "SLURM_STEP_NODELIST"
_FIRST_PORT, _PORTS = 20000, 10000  # below those that the kernel gives to clients


def detect(environ: Mapping[str, str]) -> str | None:
    """This rank's identity in a step; None elsewhere, in a batch script too."""
    if not all(name in environ for name in (_RANK, _SIZE, _STEP)):
        return None
    return " ".join(environ.get(name, "") for name in ("SLURM_JOB_ID", _STEP, _RANK))


def start(environ: Mapping[str, str]) -> Job:
    """Join. Raises WireupError."""
    rank, size = int(environ[_RANK]), int(environ[_SIZE])
    job, step = environ.get("SLURM_JOB_ID", "0"), environ[_STEP]
    name = f"slurm-{job}-{step}"
    if environ.get(_NODES) == "1":
        return by_user(environ, rank, size, name, launcher="slurm")
    if ADDRESS in environ:
        host, port = split_host(environ[ADDRESS], ADDRESS)
    else:
        host = first_host(environ.get(_NODE_LIST) or environ.get("SLURM_NODELIST", ""))
        port = _port(environ, job, step)
    return by_address(environ, rank, size, name, host, port, launcher="slurm")


def _port(environ: Mapping[str, str], job: str, step: str) -> int:
    reserved = re.match(r"\d+", environ.get("SLURM_STEP_RESV_PORTS", ""))
    if reserved:
        return int(reserved[0])
    numbers = [int(digits) for digits in re.findall(r"\d+", f"{job} {step}")] or [0]
    return _FIRST_PORT + (numbers[0] * 31 + numbers[-1]) % _PORTS


def first_host(hosts: str) -> str:
    """The first of a list as Slurm writes it: `n[03-05,9],m1` begins with `n03`. Raises WireupError."""
    text = hosts
    while True:
        found = re.match(r"([^,\[\]]*)\[(\w+)[^\]]*\](.*)", text)
        if not found:
            break
        text = found[1] + found[2] + found[3]
    first = text.partition(",")[0]
    if not first or not re.fullmatch(r"[\w.:-]+", first):
        raise WireupError(f"{_NODE_LIST} is {hosts!r}, and that names no host; set {ADDRESS}=host:port of rank 0")
    return first
