"""Python packages whose C code uses the descriptor, beside the servers that they are for: hiredis, libcurl, libpq."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fastsock.launching import preloading

from . import compiled

pytestmark = compiled.needs_library

PROGRAM = compiled.PROGRAMS / "packages.py"
FILES = """
import http.server, sys
class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        length = int(self.path[1:])
        self.send_response(200)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(b"5" * length)
    def log_message(self, *words):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Answers)
print("serves", flush=True)
try:
    server.serve_forever()
except KeyboardInterrupt:
    pass
"""
POSTGRES = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


@contextmanager
def serving(words: list[str], says: str, report: Path | None, **options: object) -> Iterator[None]:
    """Until it says so on its two outputs, or ends; it is stopped by SIGINT."""
    words = words if report is None else compiled.command(report, words)
    environment = {**os.environ, "FASTSOCK_PEERS": "any", "FASTSOCK_UPGRADE_AFTER": "3"}
    server = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, **options
    )  # type: ignore[call-overload]
    try:
        assert server.stdout is not None
        lines = []
        for line in server.stdout:
            lines.append(line)
            if says in line:
                break
        else:
            pytest.fail("".join(lines))
        yield
    finally:
        server.send_signal(2)
        server.communicate(timeout=compiled.LIMIT)


def meets(package: str, port: int, folder: Path) -> None:
    """It says what it says on plain TCP, and its connections gain memory at both ends."""
    words = [sys.executable, str(PROGRAM), package, str(port)]
    plain = compiled.plain(words)
    assert plain.returncode == 0, plain.stderr
    done = compiled.ours(words, folder / "client", UPGRADE_AFTER=3, PEERS="any")
    assert (done.returncode, done.stdout, done.stderr) == (0, plain.stdout, "")
    rows = [line for line in compiled.report_lines(folder / "client") if "role" in line]
    assert [row["transport"] for row in rows] == ["shm"] * len(rows) != []


def test_hiredis(tmp_path: Path) -> None:
    pytest.importorskip("hiredis")
    pytest.importorskip("redis")
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed")
    port = free_port()
    words = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path)]
    with serving(words, "eady to accept", tmp_path / "server"):
        subprocess.run(["redis-cli", "-p", str(port), "flushall"], capture_output=True)
        words = [sys.executable, str(PROGRAM), "redis", str(port)]
        done = compiled.ours(words, tmp_path / "client", UPGRADE_AFTER=3, PEERS="any")
        counted = sum(i // 7 + 1 for i in range(200))
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{(counted, 1_000_000, 60)}\n", "")
    rows = [line for line in compiled.report_lines(tmp_path / "client") if "role" in line]
    assert [row["transport"] for row in rows] == ["shm"]


def test_libcurl(tmp_path: Path) -> None:
    pytest.importorskip("pycurl")
    port = free_port()
    with serving([sys.executable, "-c", FILES, str(port)], "serves", tmp_path / "server"):
        meets("pycurl", port, tmp_path)


@pytest.mark.skipif(POSTGRES is None, reason="PostgreSQL is not installed")
def test_libpq(tmp_path_factory: pytest.TempPathFactory) -> None:
    pytest.importorskip("psycopg2")
    assert POSTGRES is not None
    folder, port = tmp_path_factory.mktemp("postgres"), free_port()
    as_other: dict[str, object] = {}
    if os.geteuid() == 0:  # it refuses to run so
        as_other = {"user": "postgres"}
        for each in (folder, folder.parent, folder.parent.parent):
            os.chmod(each, 0o755)
        shutil.chown(folder, "postgres")
    words = [str(POSTGRES / "initdb"), "-A", "trust", "-U", "postgres", "-D", str(folder / "data")]
    made = subprocess.run(words, capture_output=True, text=True, cwd=folder, **as_other)  # type: ignore[call-overload]
    if made.returncode != 0:
        pytest.skip(f"initdb: {made.stderr}")
    words = [str(POSTGRES / "postgres"), "-D", str(folder / "data"), "-p", str(port), "-k", "", "-h", "127.0.0.1"]
    report = None if as_other else folder / "server"
    if report is None:
        words = ["env", f"LD_PRELOAD={preloading.LIBRARY}", *words]
    with serving(words, "ready to accept", report, cwd=folder, **as_other):
        meets("psycopg2", port, folder)
