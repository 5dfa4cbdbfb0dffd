"""Starting threads where that may fail."""

from __future__ import annotations

import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def start_thread(function: Callable[..., object], *arguments: object, name: str) -> bool:
    """Has a thread of its own call the function. False: there can be no more threads.

    A process has no more threads when it has as many as it may, when memory is short, and when the interpreter is
    ending: from Python 3.12 on functions of `atexit` run after that. Before, start() would wait for ever.
    """
    if sys.is_finalizing():
        return False
    try:
        threading.Thread(target=function, args=arguments, name=name, daemon=True).start()
    except (RuntimeError, MemoryError):
        return False
    return True
