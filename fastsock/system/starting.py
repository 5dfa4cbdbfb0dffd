"""Starting threads: where that may fail, and where no signal may come to them.

The kernel gives a signal to any thread that does not block it, and Python runs its handler in the main thread alone.
Where another thread took the signal, the main thread's wait goes on. So a thread of fastsock blocks signals while it
runs fastsock's own code. The program's code must not run so: a process that it starts would have them blocked from
its beginning.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal makes enumerations of its numbers, which is slow
import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Set

_NEVER = ("SIGKILL", "SIGSTOP")
_OF_A_FAULT = ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGABRT", "SIGSYS")  # of the very thread
_SIGNALS = frozenset(_signal.valid_signals()) - {getattr(_signal, name) for name in (*_NEVER, *_OF_A_FAULT)}


def start_thread(function: Callable[..., object], *arguments: object, name: str, for_program: bool = False) -> bool:
    """Has a thread of its own call the function. False: there can be no more threads.

    A process has no more threads when it has as many as it may, when memory is short, and when the interpreter is
    ending: from Python 3.12 on functions of `atexit` run after that. Before, start() would wait for ever.

    for_program: code of the program runs there.
    """
    if sys.is_finalizing():
        return False
    thread = threading.Thread(target=function, args=arguments, name=name, daemon=True)
    try:
        if for_program:
            thread.start()
        else:
            start_without_signals(thread)
    except (RuntimeError, MemoryError):
        return False
    return True


def start_without_signals(thread: threading.Thread) -> None:
    """Starts a thread that blocks signals from its first moment on. Raises as its start()."""
    before = block_signals()
    try:
        thread.start()
    finally:
        block_as(before)


def block_signals() -> Set[int]:
    """This thread takes none from now on. Returns those that it has blocked before."""
    return _signal.pthread_sigmask(_signal.SIG_BLOCK, _SIGNALS)  # type: ignore[no-any-return]


def block_as(blocked: Set[int]) -> None:
    """This thread blocks these from now on, and no others."""
    _signal.pthread_sigmask(_signal.SIG_SETMASK, blocked)


def blocked_by_program() -> Set[int]:
    """What a thread that runs code of the program blocks: as this one, unless it is one of fastsock."""
    blocked: Set[int] = _signal.pthread_sigmask(_signal.SIG_BLOCK, ())
    return _AT_IMPORT if blocked >= _SIGNALS else blocked


_AT_IMPORT: Set[int] = _signal.pthread_sigmask(_signal.SIG_BLOCK, ())
