"""Exceptions of signal handlers. They belong to the main thread, whatever it does for a call when it is interrupted.

Python runs the handler of a signal in the main thread, between any two steps of what runs there: a method that was
called back, an unpack function, the wait for an answer. What the handler raises is no error of these.
"""

from __future__ import annotations

import threading
from types import FrameType
from typing import Any

TAKES_MORE = 0x04  # of a code's flags: *arguments


def interrupted(error: BaseException) -> bool:
    """Whether a signal handler raised the error, in this thread.

    A handler is known by its arguments: one is the frame that it interrupts. Python's own handler of Ctrl-C is known by
    what it raises. One that is not written in Python, or has set its arguments anew, is not known.
    """
    if threading.get_ident() != threading.main_thread().ident:
        return False
    if isinstance(error, KeyboardInterrupt):
        return True
    trace = error.__traceback__
    while trace is not None:
        if _is_handler(trace.tb_frame):
            return True
        trace = trace.tb_next
    return False


def _is_handler(frame: FrameType) -> bool:
    caller = frame.f_back
    if caller is None:
        return False
    code, known = frame.f_code, frame.f_locals
    given: list[Any] = [known.get(name) for name in code.co_varnames[: code.co_argcount]]
    if code.co_flags & TAKES_MORE:
        given += known.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount]) or ()
    return any(each is caller for each in given)
