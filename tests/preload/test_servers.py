"""Servers as they are installed: redis, with its own client, a Python one and its benchmark."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import compiled

pytestmark = [
    compiled.needs_library,
    pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server is not installed"),
]

CLIENT = """
import os, random, socket, sys
sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
stream = sock.makefile("rb")
def ask(*words):
    parts = [b"*%d\\r\\n" % len(words)]
    for word in words:
        parts.append(b"$%d\\r\\n%s\\r\\n" % (len(word), word))
    sock.sendall(b"".join(parts))
def bulk():
    head = stream.readline()
    assert head[:1] == b"$", head
    return stream.read(int(head[1:]) + 2)[:-2]
for i in range(300):
    value = random.Random(i).randbytes(200000 if i % 50 == 49 else i + 1)
    ask(b"SET", b"key%d" % i, value)
    assert stream.readline() == b"+OK\\r\\n"
    ask(b"GET", b"key%d" % i)
    assert bulk() == value, i
for i in range(300):
    ask(b"GET", b"key%d" % i)
for i in range(300):
    assert bulk() == random.Random(i).randbytes(200000 if i % 50 == 49 else i + 1)
print("right")
"""


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """Its port, and the report that it writes at its end."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    report = tmp_path / "server"
    words = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path)]
    with open(tmp_path / "log", "w") as log:
        server = subprocess.Popen(compiled.command(report, words), stdout=log, stderr=log)
    try:
        while subprocess.run(["redis-cli", "-p", str(port), "ping"], capture_output=True).stdout != b"PONG\n":
            assert server.poll() is None, (tmp_path / "log").read_text()
            time.sleep(0.01)  # between two questions whether it serves: it tells nobody
        yield port, report
    finally:
        if server.poll() is None:
            server.terminate()
        server.wait()


def stop(port: int) -> None:
    subprocess.run(["redis-cli", "-p", str(port), "shutdown", "nosave"], capture_output=True)


def load_on(port: int, folder: Path, what: str, count: int) -> subprocess.Popen[bytes]:
    words = ["redis-benchmark", "-p", str(port), "-t", what, "-c", "4", "-n", str(count), "-q"]
    return subprocess.Popen(compiled.command(folder / "client", words), stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_redis_and_its_benchmark_talk_through_memory(redis: tuple[int, Path], tmp_path: Path) -> None:
    port, report = redis
    words = ["redis-benchmark", "-p", str(port), "-t", "get,set,lrange_100", "-c", "8", "-n", "4000", "-q"]
    done = compiled.ours(words, tmp_path / "client", UPGRADE_AFTER=5)
    assert done.returncode == 0 and "requests per second" in done.stdout
    stop(port)
    assert compiled.gained(tmp_path / "client") >= 8 and compiled.gained(report) >= 8


def test_python_has_the_class_and_talks_with_a_server_that_has_the_library(
    redis: tuple[int, Path], tmp_path: Path
) -> None:
    port, report = redis
    done = compiled.ours(["-c", CLIENT, str(port)], tmp_path / "client", UPGRADE_AFTER=3)
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stderr
    stop(port)
    assert compiled.gained(report) >= 1


def test_a_client_without_the_library_is_served_by_tcp(redis: tuple[int, Path]) -> None:
    port, report = redis
    done = compiled.plain([sys.executable, "-c", CLIENT, str(port)])
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stderr
    stop(port)
    assert compiled.gained(report) == 0


def test_redis_saves_in_a_forked_child_and_serves_on(redis: tuple[int, Path], tmp_path: Path) -> None:
    port, _ = redis
    load = load_on(port, tmp_path, "set", 8000)
    for _ in range(3):
        subprocess.run(["redis-cli", "-p", str(port), "bgsave"], capture_output=True)
    load.communicate(timeout=compiled.LIMIT)
    assert load.returncode == 0
    stop(port)


def test_a_client_of_a_killed_server_hears_of_it(redis: tuple[int, Path], tmp_path: Path) -> None:
    port, _ = redis
    load = load_on(port, tmp_path, "get", 100_000_000)
    try:
        assert load.stdout is not None
        load.stdout.read(100)  # it is at work
        pid = int(
            dict(
                line.split(":", 1)
                for line in subprocess.run(
                    ["redis-cli", "-p", str(port), "info", "server"], capture_output=True, text=True
                ).stdout.splitlines()
                if ":" in line
            )["process_id"]
        )
        os.kill(pid, signal.SIGKILL)
        load.communicate(timeout=compiled.LIMIT)
        assert load.returncode != 0
    finally:
        load.kill()
        load.wait()
