"""Unmodified programs on two hosts: their connections stay on TCP, every byte arrives, and the reason is told."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..helpers.hosts import Hosts
from ..helpers.scripts import DEADLINE, ROOT

BODY = 100 << 20
ENDS = pytest.mark.parametrize(("server", "client"), [("fast", "fast"), ("fast", "plain"), ("plain", "fast")])
FETCH = """
import hashlib, sys, urllib.request
digest = hashlib.sha256()
with urllib.request.urlopen(sys.argv[1]) as response:
    while data := response.read(1 << 20):
        digest.update(data)
print(digest.hexdigest())
"""


def _command(network: Hosts, host: int, kind: str, told: Path) -> list[str]:
    launcher = ["-m", "fastsock.launcher", f"--stats={told}"] if kind == "fast" else []
    return [*network.inside(host), sys.executable, "-u", *launcher]


def _environment() -> dict[str, str]:
    """The default chain. A wait for a meeting would be longer than the test may take."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FASTSOCK_")}
    return clean | {"FASTSOCK_MEETING_MS": "100000", "PYTHONPATH": str(ROOT)}


@contextlib.contextmanager
def _serving(network: Hosts, kind: str, folder: Path, told: Path) -> Iterator[str]:
    """http.server on the first host; its address. An interrupt ends it, as it ends one at a terminal."""
    words = [*_command(network, 0, kind, told), "-m", "http.server", "--bind", network.ip(0), "-d", str(folder), "0"]
    with subprocess.Popen(
        words, env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            found = re.search(r"\((http://[^)]*)\)", line)
            assert found, line
            yield found[1]
            process.send_signal(signal.SIGINT)
            process.wait(DEADLINE)
        finally:
            process.kill()


def _paths(told: Path) -> set[tuple[str, str]]:
    lines = [json.loads(line) for line in told.read_text().splitlines()]
    return {(line["transport"], line["reason"]) for line in lines if "transport" in line}


@ENDS
def test_a_large_body_by_http(network: Hosts, tmp_path: Path, server: str, client: str) -> None:
    folder = tmp_path / "served"
    folder.mkdir()
    body = random.Random(1).randbytes(BODY)
    (folder / "body").write_bytes(body)
    told = {"server": tmp_path / "server.json", "client": tmp_path / "client.json"}
    with _serving(network, server, folder, told["server"]) as address:
        words = [*_command(network, 1, client, told["client"]), "-c", FETCH, f"{address}body"]
        done = subprocess.run(words, env=_environment(), capture_output=True, text=True, timeout=DEADLINE)
    assert done.stdout.strip() == hashlib.sha256(body).hexdigest(), done.stderr
    for end, kind in (("server", server), ("client", client)):
        if kind == "fast":
            assert _paths(told[end]) <= {("tcp", "peer_not_local"), ("tcp", "descriptor_taken")}  # os.sendfile takes it
