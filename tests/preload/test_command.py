"""The command: what it gives to programs, and what it says of those that it cannot enter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fastsock.launching import preloading, programs

from . import compiled

RUN = [sys.executable, "-m", "fastsock"]


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*RUN, *words], capture_output=True, text=True, env={**os.environ, **environment})


@compiled.needs_library
def test_other_preloads_stay() -> None:
    seen = run("run", "sh", "-c", "echo $LD_PRELOAD", LD_PRELOAD="/nonexistent/other.so")
    assert seen.stdout.split() == [preloading.LIBRARY, "/nonexistent/other.so"]
    again = run("run", "sh", "-c", "echo $LD_PRELOAD", LD_PRELOAD=preloading.LIBRARY)
    assert again.stdout.split() == [preloading.LIBRARY]


@compiled.needs_library
def test_settings_come_by_the_environment_under_the_launchers_names() -> None:
    seen = run(
        "run", "--transports", "^shm", "--stats=-", "sh", "-c", "echo $FASTSOCK_TRANSPORTS $FASTSOCK_STATS; exit 5"
    )
    assert (seen.stdout, seen.returncode) == ("^shm -\n", 5)


@compiled.needs_library
def test_a_python_program_has_the_class() -> None:
    code = "import socket; print(socket.socket.__mro__[1].__module__)"
    seen = [
        run("run", *words).stdout
        for words in (["-c", code], [sys.executable, "-c", code], ["sh", "-c", f"{sys.executable} -c '{code}'"])
    ]
    assert (
        seen
        == [
            subprocess.run(
                [sys.executable, "-m", "fastsock.launcher", "-c", code], capture_output=True, text=True
            ).stdout
        ]
        * 3
    )


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "usage:"),
        (["walk"], "there is no command walk"),
        (["run"], "there is no program to run"),
        (["run", "--far", "sh"], "there is no option --far"),
        (["run", "/nonexistent/program"], "there is no program /nonexistent/program"),
        (["run", "--transports", "carrier", "sh"], "'carrier' is no path"),
    ],
)
def test_a_mistake_is_told(words: list[str], text: str) -> None:
    seen = run(*words)
    assert seen.returncode == 2 and text in seen.stderr


def test_what_cannot_be_entered_is_told(tmp_path: Path) -> None:
    source = tmp_path / "program.c"
    source.write_text("int main(void) { return 0; }\n")
    if compiled.COMPILER is None:
        pytest.skip("there is no C compiler")
    made = tmp_path / "program"
    for words, text in (([], None), (["-static"], "linked statically")):
        assert subprocess.run([compiled.COMPILER, *words, "-o", made, source]).returncode == 0
        found = programs.obstacle(str(made))
        assert (found is None) if text is None else (found is not None and text in found)
    subprocess.run([compiled.COMPILER, "-o", made, source])
    binary = bytearray(made.read_bytes())
    binary[18:20] = b"\xf3\x00"  # RISC-V
    made.write_bytes(binary)
    found = programs.obstacle(str(made))
    assert found is not None and "another architecture" in found
    script = tmp_path / "script"
    script.write_text(f"#!{made}\n")
    assert programs.obstacle(str(script)) == found
