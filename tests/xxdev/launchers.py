"""Ranks that tests start by hand, with the environments of launchers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

SECRET = bytes(32)
DEADLINE = 60.0
ROOT = Path(__file__).parents[2]
SHOW = """
from fastsock.xxdev.job import current
job = current()
job.announce(job.interface, 1000 + job.rank)
ports = [job.address_of(rank)[1] for rank in range(job.size)]
print(job.launcher, job.rank, job.size, ports, job.local_ranks, flush=True)
job.fence()
"""
CLEAN = {
    name: value
    for name, value in os.environ.items()
    if not re.match(
        r"PYTHONUNBUFFERED|(FASTSOCK|PMI|PMIX|OMPI|SLURM|TORCHELASTIC)_|RANK$|WORLD_SIZE$|MASTER_|JOB_COMPLETION", name
    )
}
SHARED = {"FASTSOCK_MPJ_SECRET": "a secret of this test, not short"}


def start_ranks(each, text=SHOW, within=()):
    """One process for each of these environments, started by `within`: (status, output, errors) of each."""
    started = [
        subprocess.Popen(
            [*within, sys.executable, "-c", text],
            env=CLEAN | {"FASTSOCK_MPJ_START_TIMEOUT": "30"} | environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for environ in each
    ]
    ended = [process.communicate(timeout=DEADLINE) for process in started]
    return [(process.returncode, *texts) for process, texts in zip(started, ended, strict=True)]


def together(each, launcher):
    """They find each other."""
    size = len(each)
    expected = [str([1000 + rank for rank in range(size)]), str(list(range(size)))]
    for rank, (status, output, errors) in enumerate(start_ranks(each)):
        assert output == f"{launcher} {rank} {size} {' '.join(expected)}\n", errors
        assert (status, errors) == (0, "")


def by_hand(rank, size, port):
    numbers = {"FASTSOCK_MPJ_RANK": str(rank), "FASTSOCK_MPJ_SIZE": str(size)}
    return numbers | {"FASTSOCK_MPJ_ADDRESS": f"localhost:{port}"}
