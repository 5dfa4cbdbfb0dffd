"""Foreign programs for the mixed tests: started, known to be ready without sleeping, and ended."""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

DEADLINE = 30.0


def need(program: str) -> str:
    """The program's path, or a skip that names the Debian package."""
    found = shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")
    if not found:
        pytest.skip(f"{program} is not installed (apt-get install {program})")
    return found


def free_port() -> int:
    """A port that nobody listens on now, below those that the kernel gives to tests beside this one."""
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.SystemRandom().randrange(lowest // 2, lowest)  # a test may have seeded the common one
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def _until_it_listens(process: subprocess.Popen[Any], port: int) -> None:
    """Connect, by plain TCP, until somebody accepts; the kernel's refusal is immediate."""
    end = time.monotonic() + DEADLINE
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None:
            raise AssertionError(f"{process.args} ended with {process.returncode}")
        if time.monotonic() > end:
            raise AssertionError(f"{process.args} does not listen on port {port}")
        os.sched_yield()


@contextmanager
def running(command: list[str], port: int, **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """A server program that listens on `port`; it is killed at the exit."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options) as process:
        try:
            _until_it_listens(process, port)
            yield process
        finally:
            process.kill()


@contextmanager
def redis(directory: Path) -> Iterator[tuple[int, subprocess.Popen[Any]]]:
    """redis-server without files: its port and process."""
    port = free_port()
    command = [need("redis-server"), "--port", str(port), "--save", "", "--appendonly", "no", "--bind", "127.0.0.1"]
    with running(command, port, cwd=directory) as process:
        yield port, process


@contextmanager
def nginx(directory: Path, body: str, files: dict[str, bytes]) -> Iterator[int]:
    """nginx with one server that has `body` in its configuration and `files` under its root."""
    program = need("nginx")
    port = free_port()
    root = directory / "www"
    root.mkdir()
    for name, content in files.items():
        (root / name).write_bytes(content)
    temporary = "".join(
        f"{kind}_temp_path {directory}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    configuration = directory / "nginx.conf"
    configuration.write_text(
        f"daemon off; master_process off; pid {directory}/pid; error_log {directory}/error.log;"
        "events { worker_connections 64; }"
        f"http {{ access_log off; {temporary} client_max_body_size 64m;"
        f" server {{ listen 127.0.0.1:{port}; root {root}; {body} }} }}"
    )
    with running([program, "-p", str(directory), "-c", str(configuration)], port):
        yield port


def output_of(command: list[str], **options: Any) -> bytes:
    """What a program prints; AssertionError with its error output when it fails."""
    done = subprocess.run(command, capture_output=True, timeout=DEADLINE, **options)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout
