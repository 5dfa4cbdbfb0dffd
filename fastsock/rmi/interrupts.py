"""Ctrl-C in an event loop, and the exceptions of signal handlers.

These belong to the main thread, whatever it does for a call when it is interrupted.

Python runs the handler of a signal in the main thread, between any two steps of what runs there: a method that was
called back, an unpack function, the wait for an answer. What the handler raises is no error of these.
"""

from __future__ import annotations

import asyncio
import functools
import signal
import threading
from collections.abc import Coroutine
from contextlib import suppress
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


class Presses:
    """While it lasts, Ctrl-C does nothing but end next(). A program that has a handler of its own is left to it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pressed = asyncio.Event()
        self._before: Any = None

    def __enter__(self) -> Presses:
        if threading.get_ident() == threading.main_thread().ident:
            handler = signal.getsignal(signal.SIGINT)
            if _is_pythons(handler):
                with suppress(NotImplementedError):  # not every loop can do that
                    self._loop.add_signal_handler(signal.SIGINT, self._pressed.set)
                    self._before = handler
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            self._loop.remove_signal_handler(signal.SIGINT)
            signal.signal(signal.SIGINT, self._before)

    async def next(self) -> None:
        """Until it is pressed."""
        await self._pressed.wait()
        self._pressed.clear()


def _is_pythons(handler: Any) -> bool:
    """Whether it is Python's own handler of Ctrl-C, or that of asyncio.run()."""
    if isinstance(handler, functools.partial):
        handler = handler.func
        return getattr(handler, "__func__", None) is getattr(getattr(asyncio, "Runner", None), "_on_sigint", handler)
    return handler is signal.default_int_handler


async def either(first: asyncio.Future[Any], other: Coroutine[Any, Any, None]) -> bool:
    """Waits for one of two. Whether the first is done. The other one is cancelled."""
    task = asyncio.ensure_future(other)
    try:
        await asyncio.wait((first, task), return_when=asyncio.FIRST_COMPLETED)
        return first.done()
    finally:
        task.cancel()
