"""What macOS and Windows get: everything that a user does first works, on plain TCP, and says so.

There is no such machine here. A venv has a Python that lacks what these systems lack (another_system.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import numpy
import pytest

import fastsock

from ..helpers.copies import copy_of

FOLDER = Path(fastsock.__file__).parent
ECHO = """
import numpy, sys

with socket.create_server(("127.0.0.1", 0)) as listener:
    near = socket.create_connection(listener.getsockname())
    far, address = listener.accept()
assert address == near.getsockname()
with near, far, near.dup() as second:
    near.sendall(b"question")
    assert far.recv(100) == b"question"
"""
ARRAYS = """
    for array in (numpy.arange(6).reshape(2, 3), numpy.arange(300_000)[::2]):
        far.send_array(array)
        assert (second.recv_array() == array).all()
    far.send_array(array)
    out = numpy.empty_like(array)
    near.recv_array_into(out)
    assert (out == array).all()
"""
EXPLAIN = """
    import fastsock
    assert not fastsock.attach(near, 0.1)
    for sock in (near, far):
        told = fastsock.explain(sock)
        print(sys.platform, told.transport, told.reason, told.role)
assert {one.reason for one in fastsock.connections()} == {"not_linux"}
assert fastsock.transports()["shm"] == "not_linux" and fastsock.transports()["tcp"] == "works"
"""
PROGRAM = "import socket\n" + ECHO + EXPLAIN + "sys.exit(3)\n"
ASYNCIO = """
import fastsock
fastsock.install()
import asyncio

async def echo(reader, writer):
    writer.write(await reader.readexactly(5))
    writer.close()

async def main():
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"hello")
    print(await reader.readexactly(5), [one.reason for one in fastsock.connections()])
    writer.close()
    server.close()

asyncio.run(main())
"""


@pytest.fixture(scope="module", params=["darwin", "win32"])
def system(request):
    return request.param


@pytest.fixture(scope="module")
def run(system, tmp_path_factory):
    """Runs that system's Python, which has the package as it is installed there: nothing is compiled."""
    tree = tmp_path_factory.mktemp(system)
    copy_of(FOLDER, tree, "*.so", "*.c")
    venv.create(tree / "venv", symlinks=True)
    (packages,) = (tree / "venv").glob("lib/python*/site-packages")
    where_numpy_is = Path(numpy.__file__).parents[1]
    lines = (where_numpy_is, Path(__file__).parent, f"import another_system; another_system.be({system!r})")
    (packages / "another.pth").write_text("".join(f"{line}\n" for line in lines))
    env = {name: value for name, value in os.environ.items() if not name.startswith("FASTSOCK")}
    env |= {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}

    def run(*arguments, status=0, **settings):
        command = [str(tree / "venv/bin/python"), *map(str, arguments)]
        done = subprocess.run(command, env=env | settings, cwd=tree, capture_output=True, text=True, timeout=60)
        assert done.returncode == status, done.stdout + done.stderr
        return done

    return run


def told_by_both(system):
    return [f"{system} tcp not_linux {role}" for role in ("connect", "accept")]


def test_the_stub_lacks_what_the_system_lacks(run, system):
    code = "import os, sys, select, socket; from fastsock import core; print(sys.platform, core.available)\n"
    code += "assert not hasattr(select, 'epoll') and not hasattr(os, 'eventfd') and not hasattr(socket, 'TCP_INFO')"
    assert run("-c", code).stdout == f"{system} False\n"


def test_the_module(run, system):
    done = run("-W", "error", "-c", "from fastsock import socket\n" + ECHO + ARRAYS + EXPLAIN)
    assert done.stdout.splitlines() == told_by_both(system)
    assert done.stderr == ""


def test_install_and_uninstall(run, system):
    code = "import fastsock; fastsock.install()\nimport socket\n" + ECHO + ARRAYS + EXPLAIN
    code += "fastsock.uninstall()\nassert not hasattr(socket.socket, 'transport')"
    done = run("-W", "error", "-c", code)
    assert done.stdout.splitlines() == told_by_both(system)
    assert done.stderr == ""


def test_arrays_over_a_class_that_gathers_nothing(run, system):
    """As on Windows, whose sockets have no sendmsg()."""
    code = "from fastsock.system import together; together._GATHERS = False\nfrom fastsock import socket\n"
    assert run("-c", code + ECHO + ARRAYS + EXPLAIN).stdout.splitlines() == told_by_both(system)


def test_event_loops(run, system):
    if system == "win32":
        pytest.skip("the loop there stands on overlapped calls, which no stub has")
    assert run("-c", ASYNCIO).stdout == "b'hello' ['not_linux', 'not_linux']\n"


@pytest.mark.parametrize("launcher", [("fastsock.launcher",), ("fastsock", "run")], ids=" ".join)
def test_a_program_that_is_launched(run, system, tmp_path, launcher):
    program, told = tmp_path / "app.py", tmp_path / "told"
    program.write_text(PROGRAM)
    done = run("-m", *launcher, f"--stats={told}", program, status=3)
    assert done.stdout.splitlines() == told_by_both(system)
    said = f"fastsock run: the program runs on plain TCP: the faster paths need Linux, and this is {system}\n"
    assert done.stderr == (said if "run" in launcher else "")
    rows = [row for row in map(json.loads, told.read_text().splitlines()) if "transport" in row]
    assert [(row["transport"], row["reason"]) for row in rows] == [("tcp", "not_linux")] * 2


def test_any_other_program_runs_plainly(run):
    done = run("-m", "fastsock", "run", "/bin/sh", "-c", "echo $LD_PRELOAD; exit 4", status=4)
    assert done.stdout == "\n" and done.stderr.count("\n") == 1


def test_the_doctor(run, system):
    text = run("-m", "fastsock", "doctor").stdout
    assert f"made of what Linux alone has, and this is {system}; without it every connection stays on TCP" in text
    found = json.loads(run("-m", "fastsock.doctor", "--json", "--no-measure").stdout)
    assert {path["name"]: path["reason"] for path in found["paths"] if path["name"] in ("shm", "tcp", "rdma")} == {
        "shm": "not_linux",
        "tcp": None,
        "rdma": "not_linux",
    }
    asked = run("-m", "fastsock", "doctor", sys.executable, status=1).stdout
    assert f"the faster paths need Linux, and this is {system}" in asked


def test_the_command(run, system):
    for words in (["--version"], ["--help"], ["run", "--help"], ["doctor", "--help"]):
        assert run("-m", "fastsock", *words).stdout
    for name in ("ranks", "top", "list", "names", "bench", "completion"):
        done = run("-m", "fastsock", name, status=2)
        assert done.stderr == f"fastsock: the command {name} needs Linux, and this is {system}\n"


@pytest.mark.parametrize("what", ["mpj import MPI", "xxdev import Device", "rmi import connect"])
def test_layers_that_need_linux_say_so(run, system, what):
    last = run("-c", f"from fastsock.{what}", status=1).stderr.splitlines()[-1]
    assert last.startswith("ImportError: fastsock.") and "Linux" in last and f"this is {system}" in last
