"""Runs the command as a user does."""

from __future__ import annotations

import os
import subprocess
import sys

COMMAND = [sys.executable, "-m", "fastsock"]


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *words], capture_output=True, text=True, env={**os.environ, **environment}, timeout=100
    )
