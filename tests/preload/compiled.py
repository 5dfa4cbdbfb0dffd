"""C programs of `programs/`, compiled where there is a compiler, and what `fastsock run` tells of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from fastsock.launching import preloading

PROGRAMS = Path(__file__).parent / "programs"
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
LIMIT = 60

needs_library = pytest.mark.skipif(not os.path.exists(preloading.LIBRARY), reason="the library was not built")


@cache
def program(name: str) -> str:
    """The program made of `name`.c, or of all C files of that folder."""
    if COMPILER is None:
        pytest.skip("there is no C compiler")
    target = os.path.join(mkdtemp(prefix="fastsock-"), name)
    files = sorted((PROGRAMS / name).glob("*.c")) or [PROGRAMS / f"{name}.c"]
    words = [COMPILER, "-O1", "-pthread", "-o", target, *map(str, files)]
    made = subprocess.run(words, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return target


def plain(words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, timeout=LIMIT)


def command(report: Path, words: list[str]) -> list[str]:
    return [sys.executable, "-m", "fastsock", "run", f"--stats={report}", *words]


def ours(words: list[str], report: Path, **settings: object) -> subprocess.CompletedProcess[str]:
    """By `fastsock run`, with settings as UPGRADE_AFTER=3."""
    environment = {**os.environ, **{f"FASTSOCK_{name}": str(value) for name, value in settings.items()}}
    return subprocess.run(command(report, words), capture_output=True, text=True, timeout=LIMIT, env=environment)


def ours_at_once(words: list[str], report: Path, **settings: object) -> subprocess.CompletedProcess[str]:
    """The same, with what `fastsock run` gives a program, and without that command's own process."""
    given = {f"FASTSOCK_{name}": str(value) for name, value in settings.items()}
    environment = {**_environment(), **given, "FASTSOCK_STATS": str(report)}
    return subprocess.run(words, capture_output=True, text=True, timeout=LIMIT, env=environment)


@cache
def _environment() -> dict[str, str]:
    words = [sys.executable, "-m", "fastsock", "run", "env", "-0"]
    printed = subprocess.run(words, capture_output=True, check=True).stdout.decode()
    return dict(entry.split("=", 1) for entry in printed.split("\0") if entry)


def report_lines(report: Path) -> list[dict[str, Any]]:
    """The lines of the report: one a process."""
    return [json.loads(line) for line in report.read_text().splitlines()]


def gained(report: Path) -> int:
    """How many ends had memory, and bytes went through it."""
    return sum(line["totals"]["shm"] for line in report_lines(report) if "shm_bytes_sent" in line)
