"""A child process that does what it is told: its object's methods, called over a pair of pipes."""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from . import machine

_parents_ends: set[int] = set()


class Unusable(Exception):
    """This peer cannot be measured here; the text says why."""


class Broken(Exception):
    """A child failed or did not answer in time; the text says what it was doing."""


class Process:
    """Forks; in the child calls ``make()`` and serves the methods of what it returned.

    The parent stays free of whatever is measured, so that a child begins as a fresh program does, at the cost of
    a fork. Pipes, not sockets, carry the commands: they must not be measured by accident.
    """

    def __init__(
        self,
        make: Callable[[], object],
        *,
        cores: int | set[int] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        command_out, command_in = os.pipe()
        answer_out, answer_in = os.pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                machine.die_with_parent()
                for fd in (*_parents_ends, command_in, answer_out):
                    os.close(fd)
                os.environ.update(environment or {})
                machine.pin(cores)
                _serve(make, command_out, answer_in)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        os.close(command_out)
        os.close(answer_in)
        _parents_ends.update((command_in, answer_out))
        self._fds = [command_in, answer_out]
        self._received = b""
        self._doing = "starting"

    def start(self, method: str, *arguments: Any) -> None:
        """Have the child begin a method; ``finish`` waits for it."""
        self._doing = f"{method}{arguments!r}"
        try:
            os.write(self._fds[0], json.dumps([method, arguments]).encode() + b"\n")
        except BrokenPipeError:
            raise Broken(f"the process ended before {self._doing}") from None

    def finish(self, timeout: float = 60.0) -> Any:
        """What the method returned.

        Raises Unusable with the child's reason, Broken for any other error there or after ``timeout`` seconds.
        """
        end = time.monotonic() + timeout
        while b"\n" not in self._received:
            ready, _, _ = select.select([self._fds[1]], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise Broken(f"no answer within {timeout:g} s to {self._doing}")
            part = os.read(self._fds[1], 1 << 16)
            if not part:
                raise Broken(f"the process ended during {self._doing}")
            self._received += part
        line, _, self._received = self._received.partition(b"\n")
        kind, value = json.loads(line)
        if kind == "unusable":
            raise Unusable(value)
        if kind == "failed":
            raise Broken(f"{self._doing}: {value}")
        return value

    def call(self, method: str, *arguments: Any, timeout: float = 60.0) -> Any:
        """``start`` and ``finish``."""
        self.start(method, *arguments)
        return self.finish(timeout)

    def close(self) -> None:
        """End the child at once."""
        if not self._fds:
            return
        for fd in self._fds:
            _parents_ends.discard(fd)
            os.close(fd)
        self._fds = []
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def _serve(make: Callable[[], object], commands: int, answers: int) -> None:
    target: object = None
    write = os.write  # the target may install another one
    gc.disable()
    with open(commands, "rb") as lines:
        for line in lines:
            method, arguments = json.loads(line)
            try:
                if target is None:
                    target = make()
                    gc.freeze()
                answer = ["done", getattr(target, method)(*arguments)]
            except Unusable as error:
                answer = ["unusable", str(error)]
            except Exception as error:
                answer = ["failed", f"{type(error).__name__}: {error} ({_place(error)})"]
            write(answers, json.dumps(answer).encode() + b"\n")


def _place(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{os.path.basename(frame.filename)}:{frame.lineno}"
