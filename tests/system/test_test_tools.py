"""Test tools that replace the clock and the system's calls: what a program's own tests do while it uses sockets.

Each tool is the real one. It is in force in one process; the other end is a process without it, or the same thread.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import fastsock

from ..helpers.paths import all_took
from ..helpers.scripts import Script

CONNECTIONS = 3

# What `with tool:` puts in force.
TOOLS = {
    "freezegun": """
        from freezegun import freeze_time
        tool = freeze_time("2024-01-01", real_asyncio=True)
    """,
    "time_machine": """
        import time_machine
        tool = time_machine.travel("2024-01-01", tick=False)
    """,
    "pyfakefs": """
        from pyfakefs.fake_filesystem_unittest import Patcher
        tool = Patcher()
    """,
    "blockbuster": """
        from blockbuster import blockbuster_ctx
        tool = blockbuster_ctx()
    """,
    "mock": """
        import builtins, contextlib, os, select, signal, time
        from unittest import mock
        CALLS = (
            (time, "monotonic perf_counter time sleep"),
            (os, "read write close dup dup2 fstat open getpid geteuid eventfd pidfd_open kill urandom strerror"),
            (select, "poll"),
            (signal, "pidfd_send_signal"),
            (builtins, "open"),
        )
        @contextlib.contextmanager
        def replaced():
            with contextlib.ExitStack() as stack:
                for module, names in CALLS:
                    for name in names.split():
                        stack.enter_context(mock.patch.object(module, name, side_effect=AssertionError(name)))
                yield
        tool = replaced()
    """,
    "gevent": """
        import contextlib, threading, time
        from gevent import monkey
        @contextlib.contextmanager
        def patched():
            monkey.patch_all(socket=False, ssl=False)
            yield
        tool = patched()
    """,
}
WITH_ASYNCIO = ("freezegun", "time_machine", "pyfakefs", "blockbuster")


def _need(tool):
    if tool != "mock":
        pytest.importorskip(tool)


# Both ends of a connection, and a process that first accepts and then connects.
ENDS = """
        import socket, threading
        def echo(sock):
            while data := sock.recv(100):
                sock.sendall(data.upper())
            sock.close()
        def serve(listener, count):
            for _ in range(count):
                echo(listener.accept()[0])
        def use(address, count):
            taken = []
            for _ in range(count):
                with socket.create_connection(address, timeout=30) as sock:
                    sock.sendall(b"abc")
                    assert sock.recv(100) == b"ABC"
                    taken.append(getattr(sock, "transport", "plain"))
            return taken
    """
FAR = (
    ENDS
    + """
        listener = socket.create_server(("127.0.0.1", 0))
        tell(listener.getsockname())
        address, count = hear()
        serve(listener, count)
        tell(use(tuple(address), count))
    """
)
NEAR = (
    ENDS
    + """
        far, count = hear()
        listener = socket.create_server(("127.0.0.1", 0))
        tell(listener.getsockname())
        with tool:
            taken = use(tuple(far), count)
            serve(listener, count)
            with socket.create_server(("127.0.0.1", 0)) as own:
                alone = socket.create_connection(own.getsockname())
                other = own.accept()[0]
                alone.sendall(b"abc")
                assert other.recv(3) == b"abc"
                alone.close()
                other.close()
        tell(taken)
    """
)
NEAR_ASYNCIO = """
        import asyncio
        async def answer(reader, writer):
            while data := await reader.read(100):
                writer.write(data.upper())
            writer.close()
            answered.set()
        async def use(address):
            reader, writer = await asyncio.open_connection(*address)
            sock = writer.get_extra_info("socket")._sock
            for turn in range(1000):  # the first bytes may go before the server's thread has joined
                writer.write(b"abc")
                assert await reader.read(100) == b"ABC"
                path = getattr(sock, "transport", "plain")
                if path != "tcp":
                    break
            taken.append(path)
            writer.close()
            await writer.wait_closed()
        async def main():
            global answered
            far, count = hear()
            answered = asyncio.Event()
            server = await asyncio.start_server(answer, "127.0.0.1", 0)
            tell(server.sockets[0].getsockname())
            with tool:
                for _ in range(count):
                    await use(far)
                    answered.clear()
                for _ in range(count):
                    await answered.wait()
                    answered.clear()
                own = await asyncio.start_server(answer, "127.0.0.1", 0)
                await use(own.sockets[0].getsockname())
                own.close()
                server.close()
        taken = []
        asyncio.run(main())
        tell(taken[:-1])
    """


def _meet(kind: str, near: str) -> None:
    """Two processes make connections both ways; the path is the one asked for."""
    with Script(kind, FAR) as far, Script(kind, near) as tested:
        address = far.hear()
        tested.tell([address, CONNECTIONS])
        far.tell([tested.hear(), CONNECTIONS])
        assert all_took(far.hear(), kind, CONNECTIONS)
        assert all_took(tested.hear(), kind, CONNECTIONS)
        assert tested.finish() == 0
        assert far.finish() == 0


@pytest.mark.parametrize("tool", TOOLS)
def test_connections_are_made_while_a_test_tool_is_in_force(kind, tool):
    _need(tool)
    _meet(kind, TOOLS[tool] + NEAR)


@pytest.mark.parametrize("tool", WITH_ASYNCIO)
def test_asyncio_makes_connections_while_a_test_tool_is_in_force(kind, tool):
    _need(tool)
    _meet(kind, TOOLS[tool] + NEAR_ASYNCIO)


@pytest.mark.parametrize("tool", TOOLS)
def test_connections_are_made_without_the_native_core_too(tool):
    _need(tool)
    without = """
        import sys
        sys.modules["fastsock.core.binding._core"] = None
        import fastsock
        fastsock.install()
    """
    with Script("plain", without + TOOLS[tool] + NEAR) as tested, Script("shm", FAR) as far:
        tested.tell([far.hear(), CONNECTIONS])
        far.tell([tested.hear(), CONNECTIONS])
        assert far.hear() == ["tcp"] * CONNECTIONS
        assert tested.hear() == ["tcp"] * CONNECTIONS
        assert tested.finish() == 0


# ---- nothing is looked up late ----

FOLDER = Path(fastsock.__file__).parent
# They run before the program, at its start or its end, or where no connection is.
NOT_ON_THE_WAY = {"__main__.py", "launcher.py", "config.py", "originals.py"}  # the last one takes them
FOLDERS = ("connection", "meeting", "patching", "system")
FILES = [*FOLDER.glob("*.py"), *(path for folder in FOLDERS for path in (FOLDER / folder).glob("*.py"))]
PATHS = [path for path in FILES if path.name not in NOT_ON_THE_WAY]
DEVICES = list((FOLDER / "xxdev").glob("*.py"))
REPLACED = {"time", "os", "posix", "select", "io", "fcntl", "signal"}
NO_CALLS_OF_OURS = {"environ", "register_at_fork"}


@pytest.mark.parametrize("source", [*PATHS, *DEVICES], ids=lambda path: str(path.relative_to(FOLDER)))
def test_no_function_looks_up_what_a_test_tool_replaces(source):
    assert _late(ast.parse(source.read_text())) == []


def _late(tree: ast.Module) -> list[str]:
    """What is found at run time: by a function in a module, or in this module, where freezegun replaces it too."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in REPLACED and not node.col_offset:
            found += [f"line {node.lineno}: from {node.module} import {each.name}" for each in node.names]
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) and not _patches(node):
            found += [f"line {each.lineno}: {ast.unparse(each)}" for each in ast.walk(node) if _is_late(each)]
    return found


def _is_late(node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
        return True
    in_module = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in REPLACED
    return in_module and node.attr not in NO_CALLS_OF_OURS


def _patches(node: ast.AST) -> bool:
    """A function that replaces these names itself."""
    return getattr(node, "name", "").startswith("patch")


def test_late_look_ups_are_recognised():
    for text in (
        "from time import monotonic",
        "from os import close as _close",
        "import os\ndef f(): os.close(1)",
        "import time\nlate = lambda: time.time()",
        "def f():\n  with open('x'): pass",
        "import select\nclass A:\n  def f(self): return [select.poll() for _ in ()]",
    ):
        assert len(_late(ast.parse(text))) == 1, text
    assert _late(ast.parse("import os\nnow = os.close\ndef f(): now(1)")) == []


def test_gevent_patched_before_the_import_is_told():
    pytest.importorskip("gevent")
    program = "from gevent import monkey; monkey.patch_all(); import fastsock.socket"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "ImportError: select.epoll is gone: import fastsock before gevent.monkey.patch_all()" in done.stderr
