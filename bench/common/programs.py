"""Runs of whole programs, plain and under the launcher."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from importlib import util
from pathlib import Path

from .process import Broken, Unusable

APPS = Path(__file__).parent.parent / "apps"
NEEDS = {"pyro5_calls": "Pyro5", "dask_tasks": "distributed", "tornado_http": "tornado", "aiohttp_http": "aiohttp"}


@dataclass(frozen=True)
class Run:
    """What one run of a program printed, and which paths its connections took."""

    rates: dict[str, float]  # calls a second
    paths: dict[str, int]  # connections by transport, in those processes that were not killed


def names() -> list[str]:
    """The programs there are."""
    return sorted(p.stem for p in APPS.glob("*.py") if p.stem != "program")


def require(name: str) -> None:
    """Raise Unusable where the program's package is missing."""
    package = NEEDS.get(name)
    if package and util.find_spec(package) is None:
        raise Unusable(f"needs the package {package}")


def require_launcher() -> None:
    """Raise Unusable where fastsock cannot be run."""
    if util.find_spec("fastsock") is None or util.find_spec("fastsock.launcher") is None:
        raise Unusable("fastsock.launcher cannot be imported")


def run(name: str, *, launcher: bool, seconds: float, cores: tuple[int, int], timeout: float = 120.0) -> Run:
    """Run one program to its end. Raises Broken with its last words when it fails."""
    with tempfile.TemporaryDirectory() as folder:
        stats = Path(folder, "stats")
        command = [sys.executable]
        if launcher:
            command += ["-m", "fastsock.launcher", f"--stats={stats}", "--"]
        command += [str(APPS / f"{name}.py"), "--seconds", str(seconds), "--cores", f"{cores[0]},{cores[1]}"]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            out, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            raise Broken(f"no result within {timeout:g} s") from None
        finally:
            _end_session(process)
        if process.returncode:
            last = errors.strip().splitlines()[-1:] or [f"status {process.returncode}"]
            raise Broken(last[0])
        paths = _paths(stats)
        if launcher and not paths:  # else plain would be compared with plain
            last = errors.strip().splitlines()[-1:] or ["no word on stderr"]
            raise Broken(f"fastsock reported no connection under the launcher: {last[0]}")
        return Run(json.loads(out.strip().splitlines()[-1]), paths)


def _end_session(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)  # its servers too, whatever happened
    except ProcessLookupError:
        return
    process.wait()


def _paths(stats: Path) -> dict[str, int]:
    totals: Counter[str] = Counter()
    if stats.exists():
        for line in stats.read_text().splitlines():
            totals.update(json.loads(line).get("totals", {}))
    return dict(totals)
