"""`fastsock doctor PROGRAM`: it says beforehand what `fastsock run` does, and is compared with that."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from fastsock.launching import programs

from . import compiled

pytestmark = compiled.needs_library

SHOWS = """
#include <stdio.h>
#include <string.h>
int main(void)
{
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    int has = 0;
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) has |= strstr(line, "fastsock_preload.so") != NULL;
    puts(has ? "library" : "plain");
    return 0;
}
"""
SHOWS_CLASS = "import socket, sys; print('class' if 'fastsock' in sys.modules else 'plain')"
SHOWS_BOTH = f"{SHOWS_CLASS}; print('library' if 'libfastsock_preload' in open('/proc/self/maps').read() else 'plain')"
GO = '__attribute__((section(".go.buildinfo"))) int build = 1;\n'
NAMES_RING = 'const char *name = "io_uring_queue_init";\n'
MUSL = "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1"


def make(folder: Path, source: str = SHOWS, *options: str, name: str = "program") -> Path:
    if compiled.COMPILER is None:
        pytest.skip("there is no C compiler")
    (folder / f"{name}.c").write_text(source)
    command = [compiled.COMPILER, "-o", str(folder / name), str(folder / f"{name}.c"), *options]
    made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode != 0 and "-static" in options:
        pytest.skip("there is no static C library")
    assert made.returncode == 0, made.stderr
    return folder / name


def fastsock(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fastsock", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=compiled.LIMIT)


def doctor(*words: object) -> tuple[list[str], int]:
    done = fastsock("doctor", *words)
    assert done.stderr == ""
    return done.stdout.splitlines(), done.returncode


@pytest.mark.parametrize(
    ("source", "options", "text"),
    [
        (SHOWS, [], None),
        (SHOWS, ["-static"], "is linked statically, and runs without fastsock"),
        (SHOWS, ["-static-pie"], "is linked statically, and runs without fastsock"),
        (GO + SHOWS, [], "is written in Go"),
        (NAMES_RING + SHOWS, [], "has liburing inside, or opens it later"),
    ],
)
def test_a_program_is_entered_where_that_is_said(
    source: str, options: list[str], text: str | None, tmp_path: Path
) -> None:
    program = make(tmp_path, source, *options)
    (line,), status = doctor(program)
    if text is None:
        gets = "gets the library: its connections gain memory where their other ends have fastsock too."
        assert (line, status) == (f"{program} {gets}", 0)
    else:
        assert line.startswith(f"{program} {text}") and status == 1
    run = fastsock("run", program)
    assert (run.returncode, run.stdout) == (0, "plain\n" if "statically" in (text or "") else "library\n")
    assert run.stderr == ("" if text is None else f"fastsock run: {line.rstrip('.')}\n")


def test_another_c_library_and_another_architecture(tmp_path: Path) -> None:
    program = make(tmp_path, SHOWS, MUSL)
    (line,), status = doctor(program)
    assert "has another C library (/lib/ld-musl-x86_64.so.1), and runs without fastsock" in line and status == 1
    program = make(tmp_path)
    binary = bytearray(program.read_bytes())
    binary[18:20] = b"\xf3\x00"
    program.write_bytes(binary)
    (line,), status = doctor(program)
    assert "is of another architecture (RISC-V, 64 bits): it runs without fastsock" in line and status == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("bit", [0o4755, 0o2755])
def test_a_program_that_gains_rights(bit: int, tmp_path: Path) -> None:
    program = make(tmp_path)
    os.chown(program, 65534, 65534)
    program.chmod(bit)
    (line,), status = doctor(program)
    assert "runs with other rights than its user's, so the loader preloads nothing" in line and status == 1


def test_scripts(tmp_path: Path) -> None:
    program = make(tmp_path)
    for name, text in (("one", f"#!{program} word\n"), ("two", f"#! {tmp_path / 'one'}\n"), ("shell", "#!/bin/sh\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    assert doctor(tmp_path / "two") == (
        [
            f"{tmp_path / 'two'} is a script, which {tmp_path / 'one'} runs.",
            f"{tmp_path / 'one'} is a script, which {program} runs.",
            f"{program} gets the library, and hands it on to what it starts.",
        ],
        0,
    )
    assert fastsock("run", tmp_path / "two").stdout == "library\n"
    assert doctor(tmp_path / "shell", "word")[0][1] == "/bin/sh gets the library, and hands it on to what it starts."
    static = make(tmp_path, SHOWS, "-static", name="static")
    (tmp_path / "three").write_text(f"#!/usr/bin/env -S A=1 {static}\n")
    (tmp_path / "three").chmod(0o755)
    lines, status = doctor(tmp_path / "three")
    assert lines[0] == f"{tmp_path / 'three'} is a script, which {static} runs."
    assert lines[1].startswith(f"{static} is linked statically") and status == 1


def test_what_is_no_program(tmp_path: Path) -> None:
    done = fastsock("doctor", "no-such-program")
    assert done.returncode == 2 and "there is no program no-such-program" in done.stderr
    (tmp_path / "text").write_text("only text\n")
    for mode, text in ((0o755, "is neither an executable nor a script"), (0o644, "cannot be started")):
        (tmp_path / "text").chmod(mode)
        (line,), status = doctor(tmp_path / "text")
        assert (text in line or os.geteuid() == 0) and status == 1
    assert doctor(tmp_path)[1] == 1


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has no fastsock."""
    folder = tmp_path_factory.mktemp("python")
    venv.create(folder, with_pip=False, symlinks=True)
    return folder / "bin" / "python"


VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"


def test_a_python_with_fastsock_gets_class_and_library(tmp_path: Path) -> None:
    both = f"{sys.executable} is a Python {VERSION} that can import fastsock: it gets the class and the library."
    (tmp_path / "app.py").write_text(f"#!/usr/bin/env python\n{SHOWS_BOTH}\n")
    (tmp_path / "app").write_text(f"#!{sys.executable}\n{SHOWS_BOTH}\n")
    (tmp_path / "app").chmod(0o755)
    for words in (["app.py"], ["-m", "app"], ["-c", SHOWS_BOTH], [sys.executable, "-u", tmp_path / "app.py"]):
        assert doctor(*words) == ([both], 0)
    assert doctor(tmp_path / "app") == ([f"{tmp_path / 'app'} is a script, which {sys.executable} runs.", both], 0)
    for words in ([tmp_path / "app.py"], [tmp_path / "app"], ["-c", SHOWS_BOTH], [sys.executable, tmp_path / "app.py"]):
        done = fastsock("run", *words)
        assert (done.returncode, done.stdout, done.stderr) == (0, "class\nlibrary\n", "")


@pytest.mark.parametrize("option", ["-I", "-E", "-S", "-sE"])
def test_a_python_that_reads_no_environment_gets_the_library_alone(option: str) -> None:
    expected = f"a Python {VERSION} that does not look at its environment ({option}): it gets the library alone"
    (line,), status = doctor(sys.executable, option, "app.py")
    assert expected in line and status == 0
    assert fastsock("run", sys.executable, option, "-c", SHOWS_BOTH).stdout == "plain\nlibrary\n"


def test_a_python_without_fastsock_gets_the_library_alone(without: Path) -> None:
    (line,), status = doctor(without, "app.py")
    assert "cannot import fastsock (No module named 'fastsock'): it gets the library alone" in line and status == 0
    done = fastsock("run", without, "-c", SHOWS_BOTH)
    assert (done.stdout, done.stderr) == ("plain\nlibrary\n", "")


def test_what_is_called_python_and_is_none(tmp_path: Path) -> None:
    program = make(tmp_path, name="python3.99")
    (line,), status = doctor(program)
    assert line == f"{program} is called as a Python is, but does not run Python code: it gets the library alone."
    assert status == 0


STUB = "int io_uring_queue_init(unsigned a, void *b, unsigned c) { return b == 0 && c == 1 ? (int)a : -1; }\n"
USES_RING = """
#include <stdio.h>
int io_uring_queue_init(unsigned, void *, unsigned);
int main(void) { printf("%d\\n", io_uring_queue_init(7, NULL, 1)); return 0; }
"""


def test_a_program_that_is_linked_to_liburing_has_none(tmp_path: Path) -> None:
    make(tmp_path, STUB, "-shared", "-fPIC", "-Wl,-soname,liburing.so.2", name="liburing.so.2")
    program = make(tmp_path, USES_RING, str(tmp_path / "liburing.so.2"), f"-Wl,-rpath,{tmp_path}")
    lines, status = doctor(program)
    assert status == 0
    assert lines[1] == "It is linked to liburing. io_uring is refused to it: most programs take other calls then."
    assert compiled.plain([str(program)]).stdout == "7\n"
    done = fastsock("run", program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "-38\n", "")


def test_broken_files_are_no_error(tmp_path: Path) -> None:
    whole = make(tmp_path).read_bytes()
    for length in (0, 3, 4, 20, 63, 64, 100, 1000, len(whole) // 2):
        (tmp_path / "broken").write_bytes(whole[:length])
        (tmp_path / "broken").chmod(0o755)
        programs.obstacle(str(tmp_path / "broken"))
        assert programs.described([str(tmp_path / "broken")])[0]


def test_without_a_program_it_is_the_doctor_of_the_paths() -> None:
    done = fastsock("doctor", "--no-measure")
    assert done.returncode == 0 and "native core  built" in done.stdout
