"""Programs in a process of their own: plain Python, or under the launcher on a chosen path.

A program talks with its test by `tell(object)` and `hear()`, one line of JSON each.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .paths import environment

DEADLINE = 40.0
ROOT = Path(__file__).resolve().parents[2]

_PRELUDE = """\
import json as _json, os as _os, sys as _sys
def tell(thing):
    _os.write(_TELLING, _json.dumps(thing).encode() + b"\\n")
def hear():
    line = b""
    while not line.endswith(b"\\n"):
        byte = _os.read(_HEARING, 1)
        if not byte:
            raise SystemExit("the test has gone")
        line += byte
    return _json.loads(line)
_HEARING, _TELLING = int(_sys.argv[1]), int(_sys.argv[2])
del _sys.argv[1:3]
"""


class Script:
    """A running program. kind: "plain", or the path that its connections are to take under the launcher.

    within: what the command begins with.
    """

    def __init__(
        self, kind: str, text: str, *arguments: str, user: int | None = None, within: Sequence[str] = (), **popen: Any
    ) -> None:
        hearing, self._out = os.pipe()
        self._in, telling = os.pipe()
        self.name = kind
        launcher = [] if kind == "plain" else ["-m", "fastsock.launcher"]
        command = [
            *within,
            sys.executable,
            *launcher,
            "-c",
            _PRELUDE + textwrap.dedent(text),
            str(hearing),
            str(telling),
        ]
        variables = {**os.environ, **environment(kind), **popen.pop("env", {})}
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), variables.get("PYTHONPATH")]))
        passed = (hearing, telling, *popen.pop("pass_fds", ()))
        self.process = subprocess.Popen(
            [*command, *arguments], env=variables, pass_fds=passed, user=user, stderr=subprocess.PIPE, **popen
        )
        os.close(hearing)
        os.close(telling)
        self._buffer = b""

    def hear(self) -> Any:
        """The next thing that the program told; AssertionError with its traceback when it ended instead."""
        while b"\n" not in self._buffer:
            if not select.select([self._in], [], [], DEADLINE)[0]:
                self.process.send_signal(6)
                raise AssertionError(f"the program says nothing:\n{self._errors()}")
            data = os.read(self._in, 65536)
            if not data:
                raise AssertionError(f"the program ended with {self.process.wait()}:\n{self._errors()}")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    def has_told(self) -> bool:
        """Has it told something that was not heard yet, or ended?"""
        return b"\n" in self._buffer or bool(select.select([self._in], [], [], 0)[0])

    def tell(self, thing: Any) -> None:
        """Say something to the program."""
        os.write(self._out, json.dumps(thing).encode() + b"\n")

    def finish(self) -> int:
        """Wait for the program's end; its exit code."""
        return self.process.wait(DEADLINE)

    def _errors(self) -> str:
        stream = self.process.stderr
        if stream is None:
            return ""
        self.process.wait(DEADLINE)
        return stream.read().decode(errors="replace")

    def __enter__(self) -> Script:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        os.close(self._out)
        try:
            if kind is not None and self.process.poll() is None:
                self.process.kill()
            self.process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            os.close(self._in)
            if self.process.stderr:
                text = self.process.stderr.read().decode(errors="replace")
                self.process.stderr.close()
                sys.stderr.write(text)
