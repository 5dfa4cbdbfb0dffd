"""The two ends of a schedule as its player sees them: processes, or threads of one process."""

from __future__ import annotations

import contextlib
import faulthandler
import mmap
import os
import pickle
import signal
import sys
import threading
import traceback
from multiprocessing.connection import Pipe
from typing import Any

from . import end

DEADLINE = 25.0


class Hung(AssertionError):
    """An end did not answer. Its process has printed where each thread stood, and is gone."""


class Broken(AssertionError):
    """An end's process ended, or met what no socket call may raise."""


class Actor:
    """One end: commands are begun, and their outcomes collected in that order."""

    def __init__(self, pid: int, commands: Any, answers: Any) -> None:
        self.pid = pid
        self._commands, self._answers = commands, answers

    def begin(self, name: str, *arguments: Any) -> None:
        self._commands.send_bytes(pickle.dumps((name, arguments)))

    def result(self, deadline: float = DEADLINE) -> Any:
        if not self._answers.poll(deadline):
            raise Hung(f"process {self.pid}")
        try:
            good, answer = pickle.loads(self._answers.recv_bytes())
        except (EOFError, ConnectionResetError):
            raise Broken(f"process {self.pid} ended") from None
        if not good:
            raise Broken(answer)
        return answer

    def close(self) -> None:
        self._commands.close()
        self._answers.close()

    def do(self, name: str, *arguments: Any) -> Any:
        self.begin(name, *arguments)
        return self.result()


class Actors:
    """Both ends. threads: in one process."""

    def __init__(self, threads: bool) -> None:
        self.threads = threads
        self.progress = mmap.mmap(-1, 2 * end.PROGRESS.size)
        self.both: list[Actor] = []
        self.pids: list[int] = []
        pipes = [_pipes(number) for number in (0, 1)]
        if threads:
            pid = self._fork([far for far, _ in pipes])
            self.pids = [pid]
            self.both = [Actor(pid, *near) for _, near in pipes]
            for far, _ in pipes:
                far[1].close()
                far[2].close()
        else:
            for far, near in pipes:
                self.both.append(self._start(far, near))
            self.pids = [actor.pid for actor in self.both]
        self.addresses = [actor.do("address") for actor in self.both]

    def sent(self, number: int) -> int:
        """Bytes that an end handed over before its last call, also of an end that is dead."""
        count: int = end.PROGRESS.unpack_from(self.progress, end.PROGRESS.size * number)[0]
        return count

    def replace(self, number: int) -> None:
        """Kill one end, and start another in its place."""
        self.kill_one(number)
        self.both[number] = self._start(*_pipes(number))
        self.pids[number] = self.both[number].pid
        self.addresses[number] = self.both[number].do("address")

    def kill_one(self, number: int) -> None:
        """End the process of one end, and forget what it had to say."""
        actor = self.both[number]
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(actor.pid, signal.SIGKILL)
            os.waitpid(actor.pid, 0)
        actor.close()

    def kill(self, number: int = signal.SIGKILL) -> None:
        """End both processes, whatever they do."""
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        for pid in self.pids:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
        self.pids = []
        for actor in self.both:
            actor.close()
        self.progress.close()

    def __enter__(self) -> Actors:
        return self

    def __exit__(self, *_: object) -> None:
        if self.pids:
            self.kill()

    def _start(self, far: Any, near: Any) -> Actor:
        actor = Actor(self._fork([far], near), *near)
        far[1].close()
        far[2].close()
        return actor

    def _fork(self, ends: list[Any], *near: Any) -> int:
        others = [(actor._commands, actor._answers) for actor in self.both]
        return _fork([(*each, self.progress) for each in ends], [*others, *near])


def _pipes(number: int) -> tuple[Any, Any]:
    """What an end is started with, and what its player keeps."""
    (commands_out, commands), (answers, answers_in) = Pipe(duplex=False), Pipe(duplex=False)
    return (number, commands_out, answers_in), (commands, answers)


def _fork(ends: list[Any], to_close: list[Any]) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        for pipe in to_close:
            for each in pipe:
                each.close()
        faulthandler.enable()
        faulthandler.register(signal.SIGUSR2)
        rest = [threading.Thread(target=end.serve, args=each, daemon=True) for each in ends[1:]]
        for thread in rest:
            thread.start()
        end.serve(*ends[0])
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)
