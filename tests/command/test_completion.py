"""The completion of the shells that are installed."""

from __future__ import annotations

import functools
import shutil
import subprocess

import pytest

from fastsock.command.table import COMMANDS

from .running import run


@functools.cache
def script_of(shell: str) -> str:
    return run("completion", shell).stdout


def completed(*words: str) -> list[str]:
    """What bash offers for the last word."""
    line = " ".join(f"'{word}'" for word in words)
    script = f"{script_of('bash')}\nCOMP_WORDS=({line}) COMP_CWORD={len(words) - 1}\n_fastsock\n"
    script += 'printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_subcommands_options_and_programs():
    assert set(completed("fastsock", "")) == {*COMMANDS, "--help", "--version"}
    assert completed("fastsock", "ra") == ["ranks"]
    assert set(completed("fastsock", "run", "--tra")) == {"--transports", "--trace"}
    assert completed("fastsock", "ranks", "--ho") == ["--hostfile"]
    assert "bash" in completed("fastsock", "run", "bas")
    assert completed("fastsock", "completion", "f") == ["fish"]


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes(tmp_path):
    script = tmp_path / "fastsock.fish"
    script.write_text(script_of("fish"))

    def offered(line: str) -> list[str]:
        command = f"source {script}; complete -C '{line}'"
        done = subprocess.run(
            ["fish", "--no-config", "-c", command], capture_output=True, text=True, env={"HOME": str(tmp_path)}
        )
        return [row.split("\t")[0] for row in done.stdout.splitlines()]

    assert set(COMMANDS) <= set(offered("fastsock "))
    assert offered("fastsock ranks --ho") == ["--hostfile"]
    assert "--transports" in offered("fastsock run --tra")


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_reads_it(tmp_path):
    script = tmp_path / "_fastsock"
    script.write_text(script_of("zsh"))
    command = f"autoload -U compinit; compinit -D; source {script}; print $_comps[fastsock]"
    done = subprocess.run(["zsh", "-f", "-c", command], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("_fastsock", "")
