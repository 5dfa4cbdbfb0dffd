"""Unmodified programs over RDMA: http.server and urllib, both ends under the launcher, or one of them.

One host: `tests/lab/run -- python -m pytest -n 0 -s tests/lab/test_rdma_programs.py`. Two: the same with `--pair`.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ..helpers.scripts import ROOT
from .guest import IS_QUICK, Guest, only_in_lab

pytestmark = only_in_lab

BODY = (8 if IS_QUICK else 100) << 20
PATIENCE = 200  # seconds: the guest's processor is emulated
ENDS = [
    ("fast", "fast", "urllib", "rdma"),
    ("fast", "fast", "asyncio", "rdma"),
    ("fast", "plain", "urllib", "tcp"),
    ("plain", "fast", "urllib", "tcp"),
]
BY_URLLIB = """
import hashlib, sys, urllib.request
digest = hashlib.sha256()
with urllib.request.urlopen(sys.argv[1], timeout=100) as response:
    while data := response.read(1 << 20):
        digest.update(data)
print(digest.hexdigest())
"""
# its sockets connect without waiting
BY_ASYNCIO = """
import asyncio, hashlib, sys, urllib.parse
async def main():
    where = urllib.parse.urlsplit(sys.argv[1])
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    writer.write(f"GET {where.path} HTTP/1.0\\r\\n\\r\\n".encode())
    await reader.readuntil(b"\\r\\n\\r\\n")
    digest = hashlib.sha256()
    while data := await reader.read(1 << 20):
        digest.update(data)
    writer.close()
    print(digest.hexdigest())
asyncio.run(main())
"""
CLIENTS = {"urllib": BY_URLLIB, "asyncio": BY_ASYNCIO}


def _environment() -> dict[str, str]:
    """The default chain but for paths within a host: both ends may be on one."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FASTSOCK_")}
    more = {"FASTSOCK_TRANSPORTS": "rdma,tcp", "FASTSOCK_MEETING_MS": "10000", "PYTHONPATH": str(ROOT)}
    return clean | more


def _command(host: list[str], kind: str, told: Path) -> list[str]:
    launcher = ["-m", "fastsock.launcher", f"--stats={told}"] if kind == "fast" else []
    return [*host, sys.executable, "-u", *launcher]


def _paths(told: Path) -> set[str]:
    lines = [json.loads(line) for line in told.read_text().splitlines()]
    return {line["transport"] for line in lines if "transport" in line}


@pytest.mark.parametrize(("server", "client", "program", "path"), ENDS)
def test_a_large_body_by_http(tmp_path: Path, server: str, client: str, program: str, path: str) -> None:
    guest = Guest()
    if not (guest.serves and guest.connects):
        pytest.skip("needs both ends in one guest")
    body = random.Random(1).randbytes(BODY)
    (tmp_path / "served").mkdir()
    (tmp_path / "served/body").write_bytes(body)
    told = {"server": tmp_path / "server.json", "client": tmp_path / "client.json"}
    before = sum(map(guest.sent_packets, guest.devices())) if guest.counts(guest.devices()[0]) else None
    listening = ["-m", "http.server", "--bind", guest.address, "-d", str(tmp_path / "served"), "0"]
    with subprocess.Popen(
        [*_command(guest.at_h1, server, told["server"]), *listening],
        env=_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            found = re.search(r"\((http://[^)]*)\)", process.stdout.readline())
            assert found
            words = [*_command(guest.at_h2, client, told["client"]), "-c", CLIENTS[program], f"{found[1]}body"]
            done = subprocess.run(words, env=_environment(), capture_output=True, text=True, timeout=PATIENCE)
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE)
        finally:
            process.kill()
    assert done.stdout.strip() == hashlib.sha256(body).hexdigest(), done.stderr
    for end, kind in (("server", server), ("client", client)):
        if kind == "fast":
            assert _paths(told[end]) == {path}
    if before is not None:
        packets = sum(map(guest.sent_packets, guest.devices())) - before
        print(f"\n{server} server, {client} {program}: {packets} packets of RDMA for {BODY} bytes")
        assert (packets > BODY // 4096) == (path == "rdma")
