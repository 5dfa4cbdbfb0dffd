"""Servers that are not Python: found, started on a port of their own, and ended."""

from __future__ import annotations

import glob
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

DEADLINE = 60.0  # seconds
LACKS = 3  # the exit status of a program that cannot be measured here


def need(name: str, places: str = "/usr/sbin") -> str:
    """Its path. Where it is missing, this program ends with status LACKS and says so."""
    found = shutil.which(name) or shutil.which(name, path=os.pathsep.join(sorted(glob.glob(places), reverse=True)))
    if found is None:
        print(f"needs the program {name}", file=sys.stderr)
        sys.exit(LACKS)
    return found


def free_port() -> int:
    """A port of 127.0.0.1 that nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(command: Sequence[str], port: int, cores: Sequence[int] | None, **options: Any) -> Iterator[None]:
    """The server, on the second core, from when it accepts until the end of the block."""

    def pin() -> None:
        if cores:
            os.sched_setaffinity(0, {cores[1]})

    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=pin,
        **options,
    ) as process:
        try:
            _await(process, port)
            yield
        finally:
            process.send_signal(signal.SIGINT)  # PostgreSQL then waits for nobody
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def _await(process: subprocess.Popen[bytes], port: int) -> None:
    end = time.monotonic() + DEADLINE
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None:
            raise SystemExit(f"{process.args!r} ended with status {process.returncode}")
        if time.monotonic() > end:
            raise SystemExit(f"{process.args!r} does not listen at port {port}")
        time.sleep(0.02)
