"""A rank that executes tasks until it is sent home."""

from __future__ import annotations

import os
import sys
import threading

from ..constants import ANY_TAG
from ..messages.status import Status
from . import script, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .setup import Setup

local = threading.local()  # `comm` of workers that are threads
_comm: Any = None  # of this worker


def comm_workers() -> Any:
    """The communicator of the workers. Raises RuntimeError outside them."""
    found = getattr(local, "comm", None) or _comm
    if found is None:
        raise RuntimeError("get_comm_workers() is for calls that a worker of mpi4py.futures executes")
    return found


def serve(between: Any, workers: Any) -> None:
    """Execute the tasks of the rank at the other end of an intercommunicator."""
    global _comm
    before, _comm = _comm, workers
    local.comm = workers  # where ranks are threads
    status = Status()
    try:
        while True:
            between.probe(0, ANY_TAG, status)
            executor, kind = wire.read(status.tag)
            try:
                message = between.recv(None, 0, status.tag)
                if kind == wire.STOP:
                    return
                if kind == wire.SETUP:
                    set_up(message)
                    answer: tuple[bool, Any] = True, None
                else:
                    function, arguments, named = message
                    answer = True, function(*arguments, **named)
                    del function, arguments, named
            except BaseException as error:
                answer = False, wire.failure(error)
            message = None
            _reply(between, answer, executor)
            del answer
    finally:
        _comm = before
        del local.comm


def _reply(between: Any, answer: tuple[bool, Any], executor: int) -> None:
    try:
        between.send(answer, 0, executor)
        return
    except BaseException as error:
        if answer[0]:  # the result cannot be sent
            answer = False, wire.failure(error)
    try:
        between.send(answer, 0, executor)
    except BaseException:
        unsent, text = answer[1]
        between.send((False, (RuntimeError(f"{type(unsent).__name__}: {unsent}"), text)), 0, executor)


def set_up(setup: Setup) -> None:
    """Make this worker ready for an executor's tasks."""
    os.environ.update(setup.environ)
    sys.path.extend(entry for entry in setup.path if entry not in sys.path)
    if setup.directory is not None:
        os.chdir(setup.directory)
    if setup.script is not None:
        script.take(setup.script, setup.names)
    setup.initialize()
