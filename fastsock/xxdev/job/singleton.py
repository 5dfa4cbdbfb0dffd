"""A program that nobody launched as a rank: it is the only one."""

from __future__ import annotations

import os

from ..hello import new_secret
from .base import Job, ends_with_program


def start() -> Job:
    """A job of one rank."""
    job = Job(0, 1, f"singleton-{os.getpid()}", new_secret())
    ends_with_program(job)
    return job
