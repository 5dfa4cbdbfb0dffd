"""A check in a process of its own, for a limited time: one that a path cannot pass may hang."""

from __future__ import annotations

import os
import select
import signal
import traceback

from .outcomes import Check
from .pairs import PairMaker

SECONDS = 5.0  # a check that passes takes less than one


def passes(check: Check, maker: PairMaker, seconds: float = SECONDS) -> bool:
    """Whether the check passes within that time. The processes that it starts end with it.

    `maker.fresh`: no forked process can take the path, so it runs here, as long as it takes.
    """
    if maker.fresh:
        return _holds(check, maker)
    verdict, answer = os.pipe()
    pid = os.fork()
    if not pid:
        _run(check, maker, answer)
    os.close(answer)
    try:
        os.setpgid(pid, pid)  # as it does itself: whoever comes first
        return bool(select.select([verdict], [], [], seconds)[0]) and os.read(verdict, 1) == b"+"
    finally:
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(verdict)


def _run(check: Check, maker: PairMaker, answer: int) -> None:
    try:
        os.setpgid(0, 0)
        if _holds(check, maker):
            os.write(answer, b"+")
    finally:
        os.write(answer, b"-")
        os._exit(0)


def _holds(check: Check, maker: PairMaker) -> bool:
    try:
        check(maker)
    except Exception:
        traceback.print_exc()
        return False
    return True
