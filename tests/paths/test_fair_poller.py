"""An epoll that has room for few events tells all that stands in turn, however many are always ready."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fastsock import core
from fastsock.launching import preloading

from ..helpers.comparing import environment

PROGRAM = str(Path(__file__).with_name("fair_poller.py"))
WAYS = {
    "plain": ([sys.executable, PROGRAM, "ALONE"], "none"),
    "class": ([sys.executable, PROGRAM, "CLASS"], "shm"),
    "library": ([sys.executable, "-m", "fastsock", "run", PROGRAM, "ALONE"], "shm"),
}


@pytest.mark.parametrize("kind", ["writable", "readable"])
@pytest.mark.parametrize("room", [1, 7, 64])
@pytest.mark.parametrize("count", [2, 20, 80])
@pytest.mark.parametrize("way", WAYS)
def test_no_event_waits_for_ever_behind_others(way: str, count: int, room: int, kind: str) -> None:
    if way != "plain" and not core.available:
        pytest.skip(core.why_not)
    if way == "library" and not os.path.exists(preloading.LIBRARY):
        pytest.skip("the library was not built")
    command, path = WAYS[way]
    variables = environment(FASTSOCK_UPGRADE_AFTER="3")
    words = [*command, str(count), str(room), kind]
    done = subprocess.run(words, capture_output=True, text=True, timeout=100, env=variables)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{{'{path}'}}\n", "")
