"""How many system calls both ends of a pair make for a message, counted by strace."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from .pair import Pair
from .process import Broken, Unusable

_TOTAL = re.compile(r"^\s*100\.00\s+\S+\s+(?:\S+\s+)?(\d+)\s+(?:\d+\s+)?total$", re.MULTILINE)


def count(pair: Pair, near: str, other: str, size: int, messages: int) -> float:
    """System calls a message, of all threads at both ends. Raises Unusable without strace."""
    few, many = (_total(pair, near, other, size, number) for number in (messages, 3 * messages))
    return (many - few) / (2 * messages)  # what the command itself and its warm-up cost falls out


def total(file: Path) -> int:
    """How many calls the file tells of. Raises Broken."""
    found = _TOTAL.search(file.read_text())
    if found is None:
        raise Broken("strace counted nothing")
    return int(found[1])


def _need() -> None:
    if shutil.which("strace") is None:
        raise Unusable("system calls are not counted: apt-get install strace")


def _total(pair: Pair, near: str, other: str, size: int, messages: int) -> int:
    with tempfile.TemporaryDirectory(prefix="fastsock-bench-") as folder:
        files = [Path(folder) / name for name in ("near", "other")]
        attached = [attach(end.pid, file) for end, file in zip((pair.near, pair.other), files, strict=True)]
        try:
            pair.both(near, other, size, messages, timeout=120)
        finally:
            for process in attached:
                detach(process)
        return sum(total(file) for file in files)


def attach(pid: int, file: Path, summary: bool = True) -> subprocess.Popen[str]:
    """From now on the calls of all threads of a process are counted, or written down one by one. Raises Unusable."""
    _need()
    how = ["-c"] if summary else ["-s", "0"]
    attached = subprocess.Popen(
        ["strace", *how, "-f", "-o", str(file), "-p", str(pid)], stderr=subprocess.PIPE, text=True
    )
    assert attached.stderr is not None
    line = attached.stderr.readline()
    if "attached" not in line:
        attached.kill()
        attached.communicate()
        raise Unusable(f"system calls are not counted: {line.strip()}")
    return attached


def detach(tracer: subprocess.Popen[str]) -> None:
    """The file has the counts."""
    tracer.send_signal(signal.SIGINT)
    tracer.communicate()
