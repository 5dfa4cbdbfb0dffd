"""Where the native core is not built, remote calls say so in plain words, and the rest of fastsock goes on."""

from __future__ import annotations

import subprocess
import sys

import pytest

WITHOUT = "import sys; sys.modules['fastsock.core.binding._core'] = None; import fastsock; "
SAYS = "fastsock.rmi needs the native core: the native core is not built"


def told(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", WITHOUT + program], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("module", ["fastsock.rmi", "fastsock.rmi.aio", "fastsock.rmi.managers", "fastsock.rmi.names"])
def test_the_import_says_what_is_missing_and_what_to_do(module):
    done = told(f"import {module}")
    assert done.returncode == 1
    assert f"ImportError: {SAYS}" in done.stderr and "install a C compiler" in done.stderr


def test_what_runs_on_this_host_is_listed_without_the_remote_objects():
    done = told("from fastsock.command import main; main(['list'])")
    assert done.returncode == 1
    assert f"problem: {SAYS}" in done.stdout and "Traceback" not in done.stderr


def test_the_name_server_is_refused():
    done = told("from fastsock.command import main; main(['names'])")
    assert done.returncode == 2
    assert done.stderr.startswith(f"fastsock names: {SAYS}") and "Traceback" not in done.stderr
