# cython: language_level=3, annotation_typing=False, freethreading_compatible=True
"""What both ends note of a call while it is under way, and of the process that they are in."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

try:
    import cython
except ModuleNotFoundError:
    from fastsock.rmi import _interpreted as cython

if not cython.compiled:
    from fastsock.rmi._interpreted import order

current: ContextVar[Any] = ContextVar("fastsock.rmi.request", default=None)
"""The request that this thread or task runs, or None."""

WAITS = object()
"""What a request gives that waits for its object in no thread. Then `resume` goes on with it, perhaps already."""


class Call:
    """A call on its way, and its answer."""

    def __init__(self, number: int, method: Any) -> None:
        self.number = number
        self.method = method
        self.done = False
        self.failed = False
        self.value: Any = None
        self.awaited = False  # by a thread, that runs what is called back meanwhile
        self.wake: Any = None
        self.inbox: Any = None  # requests that the waiting thread is to run
        self.on_done: Any = None
        self.deadline = 0.0  # when its caller waits no more; 0: for ever
        self.lasting = 0.0  # when the stream that it gives must be over
        self.chain: Any = None  # the calls on whose behalf it is made (chains.py)
        self.apart = False  # a thread runs what is in the inbox, because nobody waits

    def calls_when_done(self, function: Any) -> bool:
        """The receiver will call it with this. Whether the answer is there already: then perhaps nobody calls it."""
        self.on_done = function
        order()
        return self.done


class Entry:
    """An object that can be called from elsewhere, as far as each call of it asks.

    flags: not 0 where a call of it is more than a call of the function. count: of its methods.
    """

    def __init__(self, flags: int, functions: list[Any], count: int) -> None:
        self.flags = flags
        self.functions = functions
        self.count = count


class Request:
    """A call by the other end, to be run here."""

    def __init__(
        self, connection: Any, kind: int, flags: int, number: int, exported: Any, method: int, arguments: Any,
        keywords: Any, deadline: float, behalf: int,
    ) -> None:  # fmt: skip
        self.connection = connection
        self.kind = kind
        self.flags = flags
        self.number = number
        self.exported = exported
        self.method = method
        self.arguments = arguments
        self.keywords = keywords
        self.deadline = deadline
        self.behalf = behalf
        self.cancelled = False
        self.behind: Any = None  # later requests of the same thread
        self.task: Any = None
        self.chain: Any = None  # the calls on whose behalf it is made (chains.py), and itself where it holds something
        self.stop: Any = None  # what ends it early
        self.outer: Any = None  # the request that its thread runs too: a call of that waits for this one
        self.resume: Any = None  # goes on with it, in another thread; None: where it waits, its thread waits
        self.waits: Any = None  # its place among those that wait for an object (serial.py)
        self.rows: Any = None  # of a batch: how far it has come


class Rows:
    """How far a batch has come. Another thread goes on with it, where one of its calls waited for an object."""

    def __init__(self, batch: Request) -> None:
        self.batch = batch
        self.found: list[Any] = []  # True and a value, or False and an error's parts, for each call
        self.waiting: Any = None  # the call that waits

    def resume(self, _: Request) -> None:
        """The call may go on."""
        self.batch.resume(self.batch)


class _Process:
    """How often this process was forked since the module was loaded. A connection belongs to one process."""

    def __init__(self) -> None:
        self.forks = 0


process = _Process()
