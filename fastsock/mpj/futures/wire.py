"""The messages between master and workers. The tag of each says its executor and its kind."""

from __future__ import annotations

import traceback

SETUP, TASK, STOP = range(3)
KINDS = 3
MOST = 1 << 24  # numbers of executors, used again after so many


class RemoteTraceback(Exception):
    """The cause of an exception that a call raised in a worker: its traceback there, as text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


def failure(error: BaseException) -> tuple[BaseException, str]:
    """The form in which an exception is sent: without frames, which would keep their memory."""
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    error.__traceback__ = error.__cause__ = error.__context__ = None
    return error, text


def raised(sent: tuple[BaseException, str]) -> BaseException:
    """The exception as the master's future has it."""
    error, text = sent
    error.__cause__ = RemoteTraceback(text)
    return error


def tag(executor: int, kind: int) -> int:
    """The tag of a message to a worker."""
    return executor * KINDS + kind


def read(tag: int) -> tuple[int, int]:
    """The executor's number and the kind that a tag tells."""
    return divmod(tag, KINDS)
