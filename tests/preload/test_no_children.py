"""--no-children: the program has fast sockets, and what it starts has neither the library nor the class."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fastsock.launching import children, preloading

from . import compiled
from .test_rules import port, words

__all__ = ["port"]  # the fixture

OURS = (
    "LD_PRELOAD",
    "PYTHONPATH",
    "FASTSOCK_INSTALL",
    "FASTSOCK_INTERPRETER",
    "FASTSOCK_RESOLVED_RULES",
    "FASTSOCK_CHILDREN",
)
SHOW = "; ".join(f"echo {name}=${{{name}-unset}}" for name in OURS)
SHOW_IN_PYTHON = f"import os; [print(f'{{name}}={{os.environ.get(name, \"unset\")}}') for name in {OURS!r}]"
OTHERS = {"LD_PRELOAD": "/nonexistent/a.so /nonexistent/b.so", "PYTHONPATH": "/nonexistent/a::/nonexistent/b"}
CLASS = "import socket; print(socket.socket.__mro__[1].__module__)"
PLAIN = subprocess.run([sys.executable, "-c", CLASS], capture_output=True, text=True).stdout
FAST = subprocess.run([sys.executable, "-m", "fastsock.launcher", "-c", CLASS], capture_output=True, text=True).stdout

needs_library = compiled.needs_library


def run(*words: str, command: str = "fastsock run", **environment: str | None) -> subprocess.CompletedProcess[str]:
    first = ["-m", "fastsock", "run"] if command == "fastsock run" else ["-m", command]
    given = {name: value for name, value in {**os.environ, **environment}.items() if value is not None}
    return subprocess.run([sys.executable, *first, *words], capture_output=True, text=True, env=given, timeout=60)


def shown(**others: str) -> list[str]:
    return [f"{name}={others.get(name, 'unset')}" for name in OURS]


def without_warnings(text: str) -> str:
    """The loader's, of libraries that are not there."""
    return "".join(line for line in text.splitlines(True) if "from LD_PRELOAD cannot be preloaded" not in line)


@needs_library
@pytest.mark.parametrize("how", ["system", "popen", "spawn", "fork", "given", "bare", "exec"])
@pytest.mark.parametrize("others", [{}, OTHERS])
def test_the_environment_is_as_it_was(how: str, others: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "rules").write_text("connect * * shm,tcp\n")
    words = ["--no-children", "--config", str(tmp_path / "rules"), "--", compiled.program("starts"), how, SHOW]
    done = run(*words, **{"PYTHONPATH": None, "LD_PRELOAD": None, **others})
    assert (done.returncode, without_warnings(done.stderr)) == (0, "")
    assert done.stdout.splitlines() == ["environ is given", *shown(**others)]


@needs_library
@pytest.mark.parametrize("how", ["system", "exec"])
def test_without_the_option_children_have_it(how: str) -> None:
    done = run(compiled.program("starts"), how, SHOW, PYTHONPATH=None, LD_PRELOAD=None, FASTSOCK_CHILDREN="0")
    assert f"LD_PRELOAD={preloading.LIBRARY}" in done.stdout and f"PYTHONPATH={children.BOOTSTRAP}" in done.stdout
    assert "FASTSOCK_CHILDREN=unset" in done.stdout


@needs_library
def test_the_program_gains_memory_with_its_forks_and_its_children_do_not(port: int, tmp_path: Path) -> None:
    given = {"FASTSOCK_UPGRADE_AFTER": "3"}
    pair = words("127.0.0.1", "127.0.0.1", port)
    for number, (program, expected) in enumerate([(pair, 2), (["sh", "-c", " ".join(pair)], 0)]):
        report = tmp_path / str(number)
        done = run("--no-children", f"--stats={report}", *program, **given)
        assert (done.returncode, done.stdout, done.stderr) == (0, "40\n", "")
        assert (compiled.gained(report) if report.exists() else 0) == expected


@needs_library
@pytest.mark.parametrize("command", ["fastsock run", "fastsock.launcher"])
@pytest.mark.parametrize("others", [{}, OTHERS])
def test_a_python_program_has_the_class_and_its_children_do_not(command: str, others: dict[str, str]) -> None:
    code = f"{CLASS}; import subprocess, sys; subprocess.run([sys.executable, '-c', {CLASS!r}]); {SHOW_IN_PYTHON}"
    words = ["--no-children", "-c", f"import sys; sys.stdout.reconfigure(line_buffering=True); {code}"]
    done = run(*words, command=command, **{"PYTHONPATH": None, "LD_PRELOAD": None, **others})
    assert (done.returncode, without_warnings(done.stderr)) == (0, "")
    assert done.stdout == FAST + PLAIN + "".join(f"{line}\n" for line in shown(**others))


@needs_library
def test_a_python_that_another_program_starts_has_plain_sockets() -> None:
    done = run("--no-children", "sh", "-c", f'{sys.executable} -c "{CLASS}"')
    assert (done.stdout, done.stderr) == (PLAIN, "")


@needs_library
@pytest.mark.parametrize("option", ["-I", "-E", "-S"])
def test_a_python_that_reads_no_environment_hands_nothing_on(option: str) -> None:
    code = f"import os, subprocess, sys; subprocess.run([sys.executable, '-c', {CLASS!r}], env=dict(os.environ))"
    done = run("--no-children", sys.executable, option, "-c", code)
    assert (done.stdout, done.stderr) == (PLAIN, "")


@needs_library
def test_multiprocessing_forks_have_it_and_spawned_ones_do_not(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        "import multiprocessing, socket, sys\n"
        "def show():\n"
        "    print(socket.socket.__mro__[1].__module__, flush=True)\n"
        "if __name__ == '__main__':\n"
        "    for way in ('fork', 'spawn'):\n"
        "        child = multiprocessing.get_context(way).Process(target=show)\n"
        "        child.start()\n"
        "        child.join()\n"
    )
    done = run("--no-children", str(tmp_path / "app.py"))
    assert (done.stdout, done.stderr) == (FAST + PLAIN, "")
