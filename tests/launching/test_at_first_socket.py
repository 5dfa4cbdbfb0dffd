"""A process under `fastsock run` loads fastsock when it first imports `socket`, and not before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fastsock.launching import preloading

from ..helpers.comparing import environment

pytestmark = pytest.mark.skipif(not os.path.exists(preloading.LIBRARY), reason="the library was not built")

IS_FAST = "hasattr(sys.modules['socket'].socket, 'transport')"
LOADED = "[name for name in sys.modules if name.partition('.')[0] == 'fastsock']"


def run(code: str, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fastsock", "run", *options, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment(**variables))


def told(code: str, *options: str, **variables: str) -> str:
    done = run(code, *options, **variables)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def test_a_program_without_sockets_loads_nothing_of_fastsock() -> None:
    assert told(f"import sys; print({LOADED}, 'socket' in sys.modules)") == "[] False"


@pytest.mark.parametrize(
    "first",
    [
        "import socket",
        "from socket import create_connection",
        "import asyncio",
        "from fastsock import socket",
        "import fastsock.mpj",
        "import fastsock; import socket",
        "import fastsock; fastsock.install(); import socket",
        "import importlib.util as u; u.find_spec('socket').loader.get_filename('socket'); import socket",
        "import importlib as i; i.import_module('socket')",
        "import multiprocessing.connection",
    ],
)
def test_the_class_is_there_whichever_way_it_comes(first: str) -> None:
    code = f"import sys; before = list(sys.meta_path[1:]); {first}; print({IS_FAST}, sys.meta_path == before)"
    assert told(code) == "True True"


def test_the_module_looks_as_python_loaded_it() -> None:
    code = "import socket; print(type(socket.__loader__).__name__, socket.__spec__.loader is socket.__loader__)"
    assert told(code) == "SourceFileLoader True"


@pytest.mark.parametrize("others", ["socket", "fastsock", "asyncio", "fastsock.socket"])
def test_many_threads_import_it_at_once(others: str) -> None:
    code = f"""if True:
    import importlib, sys, threading
    start, seen = threading.Barrier(8), []
    def use(name):
        start.wait()
        importlib.import_module(name)
        import socket
        seen.append(hasattr(socket.socket, "transport"))
    threads = [threading.Thread(target=use, args=(("socket", "{others}")[i % 2],)) for i in range(8)]
    for each in threads: each.start()
    for each in threads: each.join()
    print(len(seen), {IS_FAST})"""
    assert told(code) == "8 True"


def test_taken_back_it_stays_away() -> None:
    code = f"import fastsock, sys; fastsock.uninstall(); import socket; print({IS_FAST})"
    assert told(code) == "False"


def test_what_was_taken_before_closes_and_reads_what_came_after() -> None:
    """os.close and os.read as the program had them, before the class was there."""
    code = """if True:
    from os import close, dup, read, write
    import socket
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    for i in range(300):
        write(near.fileno(), b"there"), far.sendall(b"back!")
        assert (far.recv(5), read(near.fileno(), 5)) == (b"there", b"back!")
    print(near.transport)
    copy = dup(near.fileno())
    close(near.detach())
    write(copy, b"last")
    close(copy)
    print(far.recv(9), far.recv(9))"""
    assert told(code, FASTSOCK_UPGRADE_AFTER="3").split("\n") == ["shm", "b'last' b''"]


@pytest.mark.parametrize("how", ["--stats", "--trace"])
def test_a_report_tells_of_the_process_from_its_start_on(how: str) -> None:
    assert "'fastsock'" in run(f"import sys; print({LOADED})", how).stdout


def test_a_wrong_setting_is_told_at_the_import(tmp_path: Path) -> None:
    code = f"import os, sys; os.environ['FASTSOCK_SPIN_US'] = 'much'; import socket; print({IS_FAST})"
    done = run(code)
    assert (done.returncode, done.stdout) == (0, "False\n")
    assert "fastsock is not installed in this process: ConfigError: FASTSOCK_SPIN_US" in done.stderr
