"""Ranks as threads of this process: the program runs once in each, with a ``__main__`` of its own.

The modules that it imports are shared, and so are ``sys.argv``, the working directory and the environment.
"""

from __future__ import annotations

import builtins
import io
import os
import signal
import sys
import threading
from types import ModuleType

from ...system.patience import wait_for
from ...xxdev.job import by_thread, threads
from ...xxdev.job.base import leave, print_line
from .output import Writer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any, NoReturn

    from ...xxdev.job import Job

_TIMED_OUT = 124


class _Mains(ModuleType):
    """`sys.modules["__main__"]`: for each rank its own, so that what it pickles by name is found again."""

    def __init__(self, mains: list[ModuleType]) -> None:
        super().__init__("__main__")
        object.__setattr__(self, "_mains", mains)

    def __getattribute__(self, name: str) -> Any:
        return getattr(_own(object.__getattribute__(self, "_mains")), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(_own(object.__getattribute__(self, "_mains")), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(_own(object.__getattribute__(self, "_mains")), name)


def _own(mains: list[ModuleType]) -> ModuleType:
    return mains[_rank()]


class _Bytes(io.RawIOBase):
    """A standard stream of all ranks: no line is torn by another rank's."""

    def __init__(self, plain: Any, number: int, writer: Writer, lock: threading.Lock) -> None:
        self._plain, self._number, self._writer, self._lock = plain, number, writer, lock

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return int(self._plain.fileno())

    def isatty(self) -> bool:
        return bool(self._plain.isatty())

    def write(self, data: Any) -> int:
        if data:
            with self._lock:
                self._writer.write(_rank(), self._number, bytes(data))
        return len(data)

    def flush(self) -> None:
        with self._lock:
            self._writer.flush(_rank(), self._number)


class _Text(io.TextIOBase):
    """The same for text."""

    def __init__(self, plain: Any, raw: _Bytes) -> None:
        self._plain = plain
        self.buffer = raw

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.buffer.fileno()

    def isatty(self) -> bool:
        return self.buffer.isatty()

    def flush(self) -> None:
        self.buffer.flush()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return str(self._plain.encoding)

    @property
    def errors(self) -> str:  # type: ignore[override]
        return str(self._plain.errors)

    def write(self, text: str) -> int:
        self.buffer.write(text.encode(self.encoding, self.errors))
        return len(text)


def _rank() -> int:
    job = getattr(by_thread, "job", None)
    return 0 if job is None else int(job.rank)


class Program:
    """What to run: compiled once, started as Python starts its main program."""

    def __init__(self, words: list[str]) -> None:
        first, rest = words[0], words[1:]
        self.package: str | None = None
        self.spec: Any = None
        self.file: str | None = None
        if first == "-c":
            self._search("")
            self.code = compile(rest.pop(0), "<string>", "exec", dont_inherit=True)
            sys.argv[:] = ["-c", *rest]
        elif first == "-m":
            self._search(os.getcwd())
            self._find_module(rest[0])
            sys.argv[:] = [str(self.file), *rest[1:]]
        elif os.path.isdir(first) or first.endswith((".zip", ".pyz")):
            self._search(first)
            self._find_module("__main__")
            sys.argv[:] = words
        else:
            self._search(os.path.dirname(os.path.realpath(first)))
            self.file = os.path.join(os.getcwd(), first)
            try:
                with io.open_code(self.file) as file:
                    self.code = compile(file.read(), self.file, "exec", dont_inherit=True)
            except OSError as error:
                sys.stderr.write(f"{sys.executable}: can't open file {self.file!r}: {error.strerror}\n")
                sys.exit(2)
            sys.argv[:] = words

    @staticmethod
    def _search(entry: str) -> None:
        if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
            sys.path[0] = entry

    def _find_module(self, name: str) -> None:
        import runpy

        launcher = sys.modules.pop("__main__")  # it is still running: keep it whole
        try:
            _, self.spec, self.code = runpy._get_module_details(name)  # type: ignore[attr-defined]
        except ImportError as error:
            sys.stderr.write(f"{sys.executable}: {error}\n")
            sys.exit(1)
        finally:
            sys.modules["__main__"] = launcher
        self.package, self.file = self.spec.parent, self.spec.origin

    def new_main(self) -> ModuleType:
        """A `__main__` that has not run yet."""
        main = ModuleType("__main__")
        main.__dict__.update(__builtins__=builtins, __annotations__={}, __spec__=self.spec, __package__=self.package)
        if self.file is not None:
            main.__file__ = self.file
        return main


def run(size: int, words: list[str], *, timeout: float | None, grace: float | None, tag: bool) -> NoReturn:
    """Run the program in `size` threads, then end this process as the first rank that failed, else with 0.

    `grace`: how long the others may go on then; None: to their end.
    """
    program = Program(words)
    mains = [program.new_main() for _ in range(size)]
    sys.modules["__main__"] = _Mains(mains)
    writer, lock = Writer(tag), threading.Lock()
    sys.stdout.flush()
    sys.stdout = _Text(sys.stdout, _Bytes(sys.stdout, 1, writer, lock))
    sys.stderr = _Text(sys.stderr, _Bytes(sys.stderr, 2, writer, lock))
    statuses: list[int] = []  # of the ranks that failed, in order
    ended = threading.Event()

    def rank(job: Job) -> None:
        try:
            _execute(program.code, mains[job.rank])
        except BaseException as error:
            status = _status(error)
            if status:
                statuses.append(status)
                how = f"exited with status {status}" if isinstance(error, SystemExit) else job_error(error)
                others = "; ending the others" if size > 1 and len(statuses) == 1 and grace is not None else ""
                if others or size == 1 or grace is None:
                    print_line(f"rank {job.rank} (a thread of pid {os.getpid()}) {how}{others}")
                if grace is None:
                    raise
                by_thread.job = job
                try:
                    threading.Timer(grace, leave, (statuses[0],)).start()
                except (RuntimeError, MemoryError):  # no more threads: the others have no time left
                    leave(statuses[0])
            raise

    def all_ranks() -> None:
        for number, error in enumerate(threads.run(size, rank)):
            if isinstance(error, (RuntimeError, MemoryError)) and not statuses:  # its thread could not start
                print_line(f"rank {number} (a thread of pid {os.getpid()}) {job_error(error)}")
                statuses.append(1)
        ended.set()

    try:  # an interrupt may come as soon as a rank runs
        threading.Thread(target=all_ranks, name="ranks", daemon=True).start()
        in_time = wait_for(ended.wait, timeout)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second one waits for nothing
        print_line("SIGINT: ending all ranks")
        writer.close()
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGINT)
    if not in_time:
        print_line(f"the job did not end within {timeout:g} s")
        writer.close()
        leave(_TIMED_OUT)
    writer.close()
    if statuses:
        leave(statuses[0])
    sys.stdout.flush()
    sys.exit(0)


def job_error(error: BaseException) -> str:
    """As the message about a failed rank has it."""
    return f"ended by an uncaught {type(error).__name__}: {str(error)[:200]}"


def _execute(code: CodeType, main: ModuleType) -> None:
    exec(code, main.__dict__)


def _status(error: BaseException) -> int:
    """The exit status that the error gives a program, after its traceback has been shown."""
    if isinstance(error, SystemExit):
        if error.code is None or isinstance(error.code, int):
            return (error.code or 0) & 0xFF
        sys.stderr.write(f"{error.code}\n")
        return 1
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    sys.excepthook(type(error), error.with_traceback(trace), trace)
    return 1
