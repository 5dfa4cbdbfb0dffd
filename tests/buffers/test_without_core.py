"""Where the native core is not built, buffers say so in plain words."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import socket, sys
sys.modules["fastsock.core.binding._core"] = None
from fastsock import buffers
ends = socket.socketpair()
calls = {
    "RegisteredBuffer": lambda: buffers.RegisteredBuffer(8),
    "Pool": lambda: buffers.Pool(1, 8),
    "expect": lambda: buffers.expect(ends[0]),
    "recv_buffer": lambda: buffers.recv_buffer(ends[0]),
}
try:
    calls[sys.argv[1]]()
except NotImplementedError as error:
    print(error)
"""


@pytest.mark.parametrize("call", ["RegisteredBuffer", "Pool", "expect", "recv_buffer"])
def test_says_what_is_missing(call):
    done = subprocess.run([sys.executable, "-c", PROGRAM, call], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("registered buffers need the native core, and "), done.stdout + done.stderr
