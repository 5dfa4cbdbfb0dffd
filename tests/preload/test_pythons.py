"""Pythons under `fastsock run`, however they are started: the class and the library where they can import fastsock."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import fastsock

from . import compiled

pytestmark = compiled.needs_library

BIN = os.path.dirname(sys.executable)
SHOWS = """
import socket, sys
maps = open("/proc/self/maps").read()
print(socket.socket.__name__, "fastsock" in sys.modules, "libfastsock_preload" in maps, *sys.argv[1:])
"""
BOTH = "socket True True"
# An echo between two processes, which ends with how many bytes came back.
TALKS = """
import os, socket
with socket.create_server(("127.0.0.1", 0)) as server:
    child = os.fork()
    if child == 0:
        with socket.create_connection(server.getsockname()) as stream:
            for _ in range(60):
                stream.sendall(b"12345")
                assert stream.recv(5, socket.MSG_WAITALL) == b"12345"
        raise SystemExit
    stream, _ = server.accept()
    count = 0
    with stream:
        while came := stream.recv(100):
            stream.sendall(came)
            count += len(came)
assert os.waitpid(child, 0)[1] == 0
print(count)
"""


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python of another environment, which has fastsock too."""
    folder = tmp_path_factory.mktemp("python")
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "fastsock.pth").write_text(f"{Path(fastsock.__file__).parent.parent}\n")
    return folder / "bin" / "python"


def run(*words: object, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder), BIN, os.environ["PATH"]])
    given = {**os.environ, "PATH": path, **environment}
    command = [sys.executable, "-m", "fastsock", "run", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, env=given, timeout=compiled.LIMIT)


def script(folder: Path, name: str, first: str = "", text: str = SHOWS) -> Path:
    (folder / name).write_text(f"{first}\n{text}")
    (folder / name).chmod(0o755 if first else 0o644)
    return folder / name


@pytest.mark.parametrize("first", ["#!/usr/bin/env python", f"#!{sys.executable}", f"#!{sys.executable} -u", "#!OTHER"])
def test_a_script_gets_class_and_library(first: str, other: Path, tmp_path: Path) -> None:
    app = script(tmp_path, "app", first.replace("OTHER", str(other)))
    for words in ([app], ["app"], ["sh", "-c", "app; exit"], ["sh", "-c", "exec app"], ["env", "app"]):
        done = run(*words, folder=tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{BOTH}\n", "")


@pytest.mark.parametrize(
    "words",
    [
        ["python", "APP", "-a"],
        [sys.executable, "APP", "-a"],
        ["OTHER", "-B", "APP", "-a"],
        ["env", "python", "APP", "-a"],
        ["env", "-u", "HOME", "NAME=1", "python", "-X", "utf8", "APP", "-a"],
        ["nice", "python", "APP", "-a"],
        ["APP", "-a"],
    ],
)
def test_a_python_that_is_named_gets_class_and_library(words: list[str], other: Path, tmp_path: Path) -> None:
    app = script(tmp_path, "app.py")
    done = run(*[{"APP": app, "OTHER": other}.get(word, word) for word in words], folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{BOTH} -a\n", "")


def test_a_script_of_the_path_is_found_by_its_name(tmp_path: Path) -> None:
    script(tmp_path, "on-the-path.py", "#!/usr/bin/env python")
    done = run("on-the-path.py", "-a", folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{BOTH} -a\n", "")


@pytest.mark.parametrize("option", ["-I", "-E", "-S", None])
def test_a_python_with_the_library_alone_gains_memory(option: str | None, tmp_path: Path) -> None:
    app = script(tmp_path, "app.py", text=TALKS)
    words = [sys.executable, *([option] if option else []), app]
    done = run(f"--stats={tmp_path / 'report'}", *words, folder=tmp_path, FASTSOCK_UPGRADE_AFTER="3")
    assert (done.returncode, done.stdout, done.stderr) == (0, "300\n", "")
    lines = compiled.report_lines(tmp_path / "report")
    assert sum(line["totals"].get("shm", 0) for line in lines if "totals" in line) == 2
    assert all(("program" in line) == (option is not None) for line in lines if "totals" in line)
