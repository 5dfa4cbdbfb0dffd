"""One style: help, versions, mistakes and exit statuses of all subcommands; `run` imports nothing of the others."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

import fastsock
from fastsock.command.table import COMMANDS

from .running import COMMAND, run


def test_the_help_names_each_subcommand():
    seen = run("--help")
    assert (seen.returncode, seen.stderr) == (0, "")
    assert all(f"\n  {name} " in seen.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_subcommand_has_a_help_and_the_version(name):
    for option in ("--help", "-h"):
        seen = run(name, option)
        assert (seen.returncode, seen.stderr) == (0, "")
        assert seen.stdout.startswith(f"usage: fastsock {name} ")
    assert run(name, "--version").stdout == f"fastsock {fastsock.__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_mistake_is_told_beside_the_help(name):
    seen = run(name, "--nonsense")
    assert (seen.returncode, seen.stdout) == (2, "")
    assert seen.stderr.startswith(f"fastsock {name}: ")
    assert f"usage: fastsock {name} " in seen.stderr


def test_options_of_no_subcommand():
    assert run("--version").stdout == f"fastsock {fastsock.__version__}\n"
    seen = run("--nonsense")
    assert seen.returncode == 2 and seen.stderr.startswith("fastsock: there is no option --nonsense")


def test_a_closed_pipe_is_no_error():
    with subprocess.Popen([*COMMAND, "completion", "fish"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_ctrl_c_ends_it_with_130():
    code = "import sys, fastsock.command as c; from fastsock.command import listing\n"
    code += "def everything(): raise KeyboardInterrupt\nlisting.everything = everything; c.main(['list'])"
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (seen.returncode, seen.stderr) == (130, "")


def test_a_name_server_ends_by_ctrl_c():
    with subprocess.Popen([*COMMAND, "names", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().startswith("name server at 127.0.0.1:")
        process.send_signal(signal.SIGINT)
    assert process.returncode == 0


def test_a_name_server_that_cannot_listen_says_so():
    seen = run("names", "--listen", "nowhere")
    assert seen.returncode == 2 and seen.stderr.startswith("fastsock names: --listen nowhere: ")


def test_run_imports_nothing_of_the_others():
    code = (
        "import os, sys\n"
        "def execve(path, command, environ): print(*sorted(sys.modules)); os._exit(0)\n"
        "os.execve = execve\n"
        "from fastsock.command import main; main(['run', 'sh', '-c', ':'])"
    )
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    heavy = {"argparse", "json", "numpy", "fastsock.rmi", "fastsock.mpj", "fastsock.doctor", "fastsock.socket"}
    assert "fastsock.command.run" in seen.stdout.split()
    assert heavy.isdisjoint(seen.stdout.split())
