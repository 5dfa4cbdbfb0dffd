"""The live view in a terminal of its own."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios

import pytest

from ..preload import compiled
from .talkers import talking

pytest.importorskip("rich")


@compiled.needs_library
def test_it_shows_connections_until_ctrl_c():
    near, far = pty.openpty()
    # some module of a test process says how wide its own terminal is: rich would believe that
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    fcntl.ioctl(far, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 160, 0, 0))
    with talking() as (server, client):
        command = [sys.executable, "-m", "fastsock", "top", "--seconds", "0.2", "--pid", str(client.pid)]
        environment["TERM"] = "xterm-256color"
        with subprocess.Popen(command, stdin=far, stdout=far, stderr=far, env=environment) as top:
            try:
                os.close(far)
                seen = b""
                while not re.search(rf"{client.pid}.*\[{server.pid}\].*shm".encode(), seen):
                    seen += os.read(near, 65536)
                top.send_signal(signal.SIGINT)
                while b"\x1b[?1049l" not in seen:  # the screen of before is back
                    seen += os.read(near, 65536)
                assert top.wait() == 0
            finally:
                top.kill()  # or a test that runs out of time would wait for it
    os.close(near)
    assert b"1 connections: shm 1, tcp 0" in seen
    assert b"Traceback" not in seen
