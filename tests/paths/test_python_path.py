"""A path written only from docs/how-to/writing-a-path.md, its channel in pure Python, does all that a path does."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fastsock
from fastsock import core, testing
from fastsock.transport import Channel

from ..helpers.copies import copy_of

FOLDER = Path(fastsock.__file__).parent
HERE = Path(__file__).parent
SUITE = """
import sys
from fastsock import testing
print(sorted(testing.check_stream(testing.PairMaker("fastsock.socket", transport="python"), sys.argv[1])))
"""
SERVER = """
import asyncio

async def echo(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()
    await writer.wait_closed()
    done.set_result(None)

async def main():
    global done
    done = asyncio.get_running_loop().create_future()
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await done
    server.close()

asyncio.run(main())
"""
CLIENT = """
import asyncio
import sys
import fastsock

async def main():
    reader, writer = await asyncio.open_connection("127.0.0.1", int(sys.argv[1]))
    for turn, length in enumerate((1, 1000, 1_000_000)):
        data = bytes([turn]) * length
        writer.write(data)
        assert await reader.readexactly(length) == data
    print(*{row.transport for row in fastsock.connections()})
    writer.write_eof()
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()

asyncio.run(main())
"""

BOTH = """
import threading
import fastsock
from fastsock import socket

with socket.create_server(("127.0.0.1", 0)) as listener:
    accepted = []
    accepting = threading.Thread(target=lambda: accepted.append(listener.accept()[0]))
    accepting.start()
    near = socket.create_connection(listener.getsockname())
    accepting.join()
with near, accepted[0] as far:
    for one, other in ((near, far), (far, near)) * 10:
        one.sendall(b"some bytes")
        assert other.recv(100) == b"some bytes"
        assert one.getsockname() == other.getpeername()
    for sock in (near, far):
        told = fastsock.explain(sock)
        print(sock.transport, told.transport, told.reason)
"""


def _changed(file: Path, before: str, after: str) -> None:
    text = file.read_text()
    assert text.count(before) == 1, before
    file.unlink()  # it may be the same file as the package's own
    file.write_text(text.replace(before, after))


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Of processes that find a copy of the package with the path entered, as docs/how-to/writing-a-path.md says."""
    tree = tmp_path_factory.mktemp("tree")
    package = copy_of(FOLDER, tree, "*.c")
    shutil.copy(HERE / "python_path.py", package)
    _changed(package / "config.py", 'KNOWN_TRANSPORTS = ("shm", ', 'KNOWN_TRANSPORTS = ("shm", "python", ')
    _changed(package / "chain.py", "(ShmTransport(), ", "(ShmTransport(), PythonTransport(), ")
    _changed(
        package / "chain.py",
        "from .shm import ShmTransport\n",
        "from .python_path import PythonTransport\nfrom .shm import ShmTransport\n",
    )
    found = {name: value for name, value in os.environ.items() if not name.startswith("FASTSOCK")}
    return found | {
        "PYTHONPATH": str(tree),
        "FASTSOCK_TRANSPORTS": "python,tcp",
        "FASTSOCK_MEETING_MS": "500",
    }


def _methods(kind):
    return {name for name, value in vars(kind).items() if callable(value) and not name.startswith("_")}


@pytest.mark.skipif(not core.available, reason="the native core is not built")
def test_a_native_channel_has_the_methods_of_the_interface():
    assert _methods(Channel) >= {"send", "recv", "close", "release"}
    assert _methods(Channel) - _methods(core.Channel) == set()


@pytest.mark.skipif(not core.available, reason="the native core is not built")
def test_the_type_checker_is_told_of_methods_that_exist():
    stub = ast.parse((FOLDER / "core" / "binding" / "_channel.pyi").read_text())
    [channel] = [each for each in stub.body if isinstance(each, ast.ClassDef) and each.name == "Channel"]
    told = {each.name for each in channel.body if isinstance(each, ast.FunctionDef)}
    assert {name for name in told if not hasattr(core.Channel, name)} == set()


@pytest.mark.parametrize(
    ("transports", "told"),
    (
        ("python,tcp", "python joined"),
        ("python,shm,tcp", "python joined"),
        ("shm,python,tcp", "shm joined"),
        ("shm,tcp", "shm joined"),
        ("tcp", "tcp excluded_by_setting"),
    ),
)
def test_the_order_of_paths_decides(environment, transports, told):
    """Memory is added to a connection that stays TCP, so what stands behind `shm` is never reached."""
    finished = subprocess.run(
        [sys.executable, "-c", BOTH],
        env=environment | {"FASTSOCK_TRANSPORTS": transports, "FASTSOCK_UPGRADE_AFTER": "0"},
        cwd=environment["PYTHONPATH"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    both = [f"{told.split()[0]} {told}"] * 2
    assert (finished.returncode, finished.stdout.splitlines()) == (0, both), finished.stderr


def test_a_server_without_the_path_is_left_alone(environment):
    launched = [sys.executable, "-m", "fastsock.launcher", "-c"]
    with subprocess.Popen(
        [*launched, SERVER],
        env=environment | {"FASTSOCK_TRANSPORTS": "tcp"},
        cwd=environment["PYTHONPATH"],
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        client = subprocess.run(
            [*launched, CLIENT, server.stdout.readline().strip()],
            env=environment,
            cwd=environment["PYTHONPATH"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        if client.returncode:
            server.kill()
        assert (client.returncode, client.stdout.split()) == (0, ["tcp"]), client.stderr
        assert server.wait(60) == 0


@pytest.mark.timeout(330)  # some checks that the path cannot pass end by their own time limit
@pytest.mark.parametrize("concept", testing.concepts())
def test_the_whole_stream_contract(environment, concept):
    finished = subprocess.run(
        [sys.executable, "-c", SUITE, concept],
        env=environment,
        cwd=environment["PYTHONPATH"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert finished.returncode == 0, finished.stderr


def test_asyncio_under_the_launcher(environment):
    launched = [sys.executable, "-m", "fastsock.launcher", "-c"]
    with subprocess.Popen(
        [*launched, SERVER], env=environment, cwd=environment["PYTHONPATH"], stdout=subprocess.PIPE, text=True
    ) as server:
        port = server.stdout.readline().strip()
        client = subprocess.run(
            [*launched, CLIENT, port],
            env=environment,
            cwd=environment["PYTHONPATH"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        if client.returncode:
            server.kill()
        assert (client.returncode, client.stdout.split()) == (0, ["python"]), client.stderr
        assert server.wait(60) == 0
