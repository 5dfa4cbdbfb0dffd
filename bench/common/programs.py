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
SHARED = ("program", "asgi", "https", "foreign")  # what the programs share
NEEDS = {
    "aiohttp_http": ("aiohttp",),
    "aiohttp_websockets": ("aiohttp",),
    "dask_tasks": ("distributed",),
    "django_requests": ("django", "requests"),
    "flask_httpx": ("flask", "httpx"),
    "gunicorn_gthread": ("gunicorn",),
    "https_aiohttp": ("aiohttp", "trustme"),
    "https_urllib": ("trustme",),
    "https_uvicorn": ("uvicorn", "httpx", "trustme"),
    "postgres_pg8000": ("pg8000",),
    "pyro5_calls": ("Pyro5",),
    "redis_calls": ("redis",),
    "rpyc_calls": ("rpyc",),
    "tornado_http": ("tornado",),
    "uvicorn_httpx": ("uvicorn", "httpx"),
}
LACKS = 3  # a program's exit status where another program is missing that it needs
PATHS = ("shm", "tcp")


@dataclass(frozen=True)
class Run:
    """What one run of a program printed, and which paths its connections took."""

    rates: dict[str, float]  # calls a second
    paths: dict[str, int]  # connections by transport, in those processes that were not killed


def names() -> list[str]:
    """The programs there are."""
    return sorted(p.stem for p in APPS.glob("*.py") if p.stem not in SHARED)


def require(name: str) -> None:
    """Raise Unusable where the program's package is missing."""
    for package in NEEDS.get(name, ()):
        if util.find_spec(package) is None:
            raise Unusable(f"needs the package {package}")


def require_launcher() -> None:
    """Raise Unusable where fastsock cannot be run."""
    if util.find_spec("fastsock") is None or util.find_spec("fastsock.launcher") is None:
        raise Unusable("fastsock.launcher cannot be imported")


def run(name: str, *, path: str | None, seconds: float, cores: tuple[int, int], timeout: float = 120.0) -> Run:
    """Run one program to its end: under the launcher with the paths from ``path`` on, or plain where it is None.

    Raises Broken with its last words when it fails, Unusable where it lacks a program that it needs.
    """
    with tempfile.TemporaryDirectory() as folder:
        stats = Path(folder, "stats")
        command = [sys.executable]
        if path is not None:
            transports = ",".join(PATHS[PATHS.index(path) :])
            command += ["-m", "fastsock.launcher", f"--stats={stats}", f"--transports={transports}", "--"]
        command += [str(APPS / f"{name}.py"), "--seconds", str(seconds), "--cores", f"{cores[0]},{cores[1]}"]
        out, errors = finish(command, timeout)
        paths = _paths(stats)
        if path is not None and not paths:  # else plain would be compared with plain
            last = errors.strip().splitlines()[-1:] or ["no word on stderr"]
            raise Broken(f"fastsock reported no connection under the launcher: {last[0]}")
        return Run(json.loads(out.strip().splitlines()[-1]), paths)


def finish(command: list[str], timeout: float) -> tuple[str, str]:
    """What a program prints, and what it tells on standard error. Raises as run() does."""
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
        raise (Unusable if process.returncode == LACKS else Broken)(last[0])
    return out, errors


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
