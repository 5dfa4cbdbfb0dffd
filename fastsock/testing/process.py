"""A second process that obeys a test's commands, one at a time.

The process is forked, so a command is any function that pickles by name. It answers through a pipe, so a
test never sleeps to guess how far the other process has come. Nothing here uses the module `socket`,
because that may be the thing under test.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import pickle
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe
from types import SimpleNamespace
from typing import Any

DEADLINE = 30.0
"""Seconds after which a command that has not answered counts as hung."""


class Hang(AssertionError):
    """A command did not answer in time. The other process printed the stacks of its threads and was killed."""


class Died(AssertionError):
    """The other process ended before it answered."""


class FarError(Exception):
    """Cause of an exception that was raised in the other process: its traceback there, as text."""


class Pending:
    """A command that has begun. Answers are collected in the order in which commands began."""

    def __init__(self, process: FarProcess, what: str) -> None:
        self._process = process
        self._what = what

    def done(self) -> bool:
        """Whether the answer can be collected without waiting."""
        return self._process._answers.poll(0)

    def result(self, timeout: float = DEADLINE) -> Any:
        """The command's value. Raises the command's error; Hang after `timeout` seconds; Died if the process ended."""
        return self._process._collect(self._what, timeout)


class FarProcess:
    """A forked process. `here` in it is a namespace that lives as long as the process.

    fresh: it runs a new interpreter, for what a fork may not share. Then nothing can be inherited.
    numbers: the descriptor numbers in that process through which it is controlled.
    inherited: names and objects that the process finds in `here`.
    """

    def __init__(self, *, fresh: bool = False, **inherited: Any) -> None:
        commands_out, self._commands = Pipe(duplex=False)
        self._answers, answers_in = Pipe(duplex=False)
        sys.stdout.flush()
        sys.stderr.flush()
        commands_number, answers_number = commands_out.fileno(), answers_in.fileno()
        self.pid = os.fork()
        if not self.pid:
            self._commands.close()
            self._answers.close()
            if fresh:
                _begin_anew(commands_number, answers_number)
            _serve(commands_out, answers_in, inherited)
        commands_out.close()
        answers_in.close()
        self._status: int | None = None
        self.numbers = [commands_number, answers_number]

    def begin(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Pending:
        """Start `function(here, ...)` in the process and return at once."""
        self._commands.send_bytes(pickle.dumps((function, arguments, options)))
        return Pending(self, getattr(function, "__name__", repr(function)))

    def run(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Run `function(here, ...)` in the process and return its value, or raise what it raised."""
        return self.begin(function, *arguments, **options).result()

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal."""
        if self._status is None:
            os.kill(self.pid, number)

    def wait(self, timeout: float = DEADLINE) -> int:
        """The process's exit code as in subprocess (negative: the signal that ended it)."""
        if self._status is None:
            self._status = _reap(self.pid, timeout)
        return self._status

    def until_blocked(self) -> None:
        """Return when the main thread of the process sleeps in a system call. Raises Hang after DEADLINE seconds."""
        until_blocked(self.pid)

    def until_asleep(self) -> None:
        """As until_blocked(), when the wait has reached its last stage."""
        until_asleep(self.pid)

    def close(self) -> None:
        """End the process (it is killed when it does not end by itself) and release the pipes."""
        if self._commands.closed:
            return
        # It may have ended by itself or been killed, as some tests mean it to.
        with contextlib.suppress(BrokenPipeError):
            # Said, not only hung up: processes that were forked later hold a copy of this pipe.
            self._commands.send_bytes(b"")
        self._commands.close()
        try:
            self.wait()
        except Hang:
            self.kill()
            self.wait()
            raise
        finally:
            self._answers.close()

    def __enter__(self) -> FarProcess:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is not None:
            # The test failed: what the process still does is of no interest.
            self.kill()
        self.close()

    def _collect(self, what: str, timeout: float) -> Any:
        if not self._answers.poll(timeout):
            state, threads = _state(self.pid), _threads(self.pid)
            self.kill(signal.SIGABRT)
            self.wait()
            raise Hang(f"{what} in process {self.pid} (state {state}) did not answer within {timeout} s\n{threads}")
        try:
            ok, answer, text = pickle.loads(self._answers.recv_bytes())
        except EOFError:
            raise Died(f"process {self.pid} ended with {self.wait()} during {what}") from None
        if ok:
            return answer
        raise answer from FarError(text)


def until_blocked(pid: int, thread: int | None = None, timeout: float = DEADLINE) -> None:
    """Return when a thread (the main one by default) of a process sleeps in a system call."""
    thread = thread or pid
    _until(lambda: _state(pid, thread) in "SD", f"thread {thread} of process {pid} to block", timeout)


def until_asleep(pid: int, thread: int | None = None, timeout: float = DEADLINE) -> None:
    """As until_blocked(), but return when the thread's wait has reached its last stage.

    That is so when the thread was not switched in between two looks, five milliseconds apart.
    """
    thread = thread or pid
    before = -1

    def same() -> bool:
        nonlocal before
        last, before = before, _switches(pid, thread)
        if last == before and _state(pid, thread) in "SD":
            return True
        select.select([], [], [], 0.005)
        return False

    _until(same, f"thread {thread} of process {pid} to fall asleep", timeout)


def until_stopped(pid: int, timeout: float = DEADLINE) -> None:
    """Return when a process that was sent SIGSTOP has stopped."""
    _until(lambda: _state(pid) == "T", f"process {pid} to stop", timeout)


def _until(condition: Callable[[], bool], what: str, timeout: float) -> None:
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            raise Hang(f"waited {timeout} s for {what}")
        os.sched_yield()


def _state(pid: int, thread: int | None = None) -> str:
    with open(f"/proc/{pid}/task/{thread or pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[0].decode()


def _threads(pid: int) -> str:
    """Where each thread waits in the kernel, as far as this user may know."""
    lines = []
    for thread in sorted(os.listdir(f"/proc/{pid}/task"), key=int):
        for name in ("comm", "wchan", "syscall", "stack"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/{name}") as file:
                lines.append(f"{thread} {name}: {file.read().strip()}")
    return "\n".join(lines)


def _switches(pid: int, thread: int) -> int:
    with open(f"/proc/{pid}/task/{thread}/status") as file:
        return sum(int(line.split()[1]) for line in file if "ctxt_switches" in line)


def _reap(pid: int, timeout: float) -> int:
    descriptor = os.pidfd_open(pid)
    try:
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        if not poller.poll(timeout * 1000):
            raise Hang(f"process {pid} (state {_state(pid)}) did not end within {timeout} s")
    finally:
        os.close(descriptor)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _begin_anew(*numbers: int) -> None:
    """In the forked process: runs a new interpreter that goes on as this one would."""
    for number in numbers:
        os.set_inheritable(number, True)
    program = f"import sys; sys.path[:] = {sys.path!r}; from fastsock.testing import process; process.serve(*{numbers})"
    os.execv(sys.executable, [sys.executable, "-c", program])


def serve(commands: int, answers: int) -> None:
    """What the new interpreter of a fresh process runs, with the numbers of its two pipes."""
    _serve(Connection(commands, writable=False), Connection(answers, readable=False), {})


def _serve(commands: Any, answers: Any, inherited: dict[str, Any]) -> None:
    """The forked process: it leaves by os._exit only, so nothing of the parent's stack ever runs here."""
    code = 1
    try:
        # A hang is answered with SIGABRT, which prints every thread's stack first.
        faulthandler.enable(2)
        here = SimpleNamespace(**inherited)
        while True:
            try:
                command = commands.recv_bytes()
            except EOFError:
                command = b""
            if not command:
                code = 0
                break
            try:
                function, arguments, options = pickle.loads(command)
                answer = pickle.dumps((True, function(here, *arguments, **options), None))
            except Exception as error:
                answer = pickle.dumps((False, _portable(error), traceback.format_exc()))
            answers.send_bytes(answer)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _portable(error: Exception) -> Exception:
    try:
        if type(pickle.loads(pickle.dumps(error))) is type(error):
            return error
    except Exception as failure:
        return RuntimeError(f"{type(error).__name__}: {error} (not picklable: {failure})")
    return RuntimeError(f"{type(error).__name__}: {error}")
