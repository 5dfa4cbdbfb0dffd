"""What a machine without a compiler gets: plain TCP, and the reason."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import fastsock

from ..helpers.copies import copy_of

FOLDER = Path(fastsock.__file__).parent
HEAD = """
import sys
import fastsock
from fastsock import core
assert not core.available
"""
BOTH = """
import numpy
from fastsock import socket

with socket.create_server(("127.0.0.1", 0)) as listener:
    near = socket.create_connection(listener.getsockname())
    far, address = listener.accept()
assert address == near.getsockname()
with near, far, near.dup() as second:
    near.sendall(b"question")
    assert far.recv(100) == b"question"
    far.send_array(numpy.arange(6).reshape(2, 3))
    assert second.recv_array().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert not fastsock.attach(near, 0.1)
    for sock in (near, far):
        told = fastsock.explain(sock)
        print(type(sock), sock.transport, told.transport, told.reason, told.role, told.detail)
print([(row.transport, row.state) for row in fastsock.connections()])
with socket.socketpair()[0] as sock:
    print(sock.transport, fastsock.explain(sock).reason)
waiting = socket.socket()
print(waiting.transport, fastsock.explain(waiting).reason)
try:
    waiting.connect(("127.0.0.1", 1))
except ConnectionRefusedError:
    print(fastsock.explain(waiting).reason)
"""
PROGRAM = """
import asyncio

async def echo(reader, writer):
    writer.write(await reader.readexactly(5))
    await writer.drain()
    writer.close()

async def main():
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"hello")
    print(await reader.readexactly(5))
    writer.close()
    await writer.wait_closed()
    server.close()

asyncio.run(main())
"""
CLASS = "<class 'fastsock.socket.socket'>"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Runs Python with a copy of the package that has nothing compiled."""
    tree = tmp_path_factory.mktemp("tree")
    copy_of(FOLDER, tree, "*.so", "*.c")
    env = {name: value for name, value in os.environ.items() if not name.startswith("FASTSOCK")}

    def run(*arguments, **settings):
        done = subprocess.run(
            [sys.executable, *arguments],
            env=env | {"PYTHONPATH": str(tree)} | settings,
            cwd=tree,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


def test_connections_are_plain_tcp_and_say_why(run):
    assert run("-c", HEAD + BOTH) == [
        f"{CLASS} tcp tcp no_native_core connect ",
        f"{CLASS} tcp tcp no_native_core accept ",
        "[('tcp', 'closed'), ('tcp', 'closed')]",
        "plain not_a_tcp_stream",
        "tcp not_connected",
        "not_connected",
    ]


def test_settings_are_told_first(run):
    told = run("-c", HEAD + BOTH, FASTSOCK_TRANSPORTS="tcp")
    assert told[:2] == [f"{CLASS} tcp tcp excluded_by_setting {role} " for role in ("connect", "accept")]


def test_the_doctor_knows_no_path_but_tcp(run):
    paths = json.loads("".join(run("-m", "fastsock.doctor", "--json")))["paths"]
    assert [path["name"] for path in paths if path["works"]] == ["tcp"]
    assert {path["reason"] for path in paths if path["name"] == "shm"} == {"no_native_core"}


def test_a_program_under_the_launcher(run, tmp_path):
    told = tmp_path / "connections"
    assert run("-m", "fastsock.launcher", f"--stats={told}", "-c", PROGRAM) == ["b'hello'"]
    rows = [row for row in map(json.loads, told.read_text().splitlines()) if "transport" in row]
    assert [(row["transport"], row["reason"]) for row in rows] == [("tcp", "no_native_core")] * 2
