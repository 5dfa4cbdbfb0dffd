# cython: language_level=3, freethreading_compatible=True
"""What both ends note of a call while it is under way, and of the process that they are in."""
from fastsock.rmi.wire._locks cimport order

from contextvars import ContextVar

current = ContextVar("fastsock.rmi.request", default=None)
"""The request that this thread or task runs, or None."""

WAITS = object()
"""What a request gives that waits for its object in no thread. Then `resume` goes on with it, perhaps already."""


cdef class Call:
    """A call on its way, and its answer."""

    def __init__(self, number, method):
        self.number = number
        self.method = method
        self.done = False
        self.failed = False
        self.value = None
        self.awaited = False  # by a thread, that runs what is called back meanwhile
        self.wake = None
        self.inbox = None  # requests that the waiting thread is to run
        self.on_done = None
        self.deadline = 0.0  # when its caller waits no more; 0: for ever
        self.lasting = 0.0  # when the stream that it gives must be over
        self.chain = None  # the calls on whose behalf it is made (chains.py)
        self.apart = False  # a thread runs what is in the inbox, because nobody waits

    cpdef bint calls_when_done(self, object function) except -1:
        """The receiver will call it with this. Whether the answer is there already: then perhaps nobody calls it."""
        self.on_done = function
        order()
        return self.done


cdef class Entry:
    """An object that can be called from elsewhere, as far as each call of it asks.

    flags: not 0 where a call of it is more than a call of the function. count: of its methods.
    """

    def __init__(self, flags, functions, count):
        self.flags = flags
        self.functions = functions
        self.count = count


cdef class Request:
    """A call by the other end, to be run here."""

    def __init__(self, connection, kind, flags, number, exported, method, arguments, keywords, deadline, behalf):
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
        self.behind = None  # later requests of the same thread
        self.task = None
        self.chain = None  # the calls on whose behalf it is made (chains.py), and itself where it holds something
        self.stop = None  # what ends it early
        self.outer = None  # the request that its thread runs too: a call of that waits for this one
        self.resume = None  # goes on with it, in another thread; None: where it waits, its thread waits
        self.waits = None  # its place among those that wait for an object (serial.py)
        self.rows = None  # of a batch: how far it has come


cdef class Rows:
    """How far a batch has come. Another thread goes on with it, where one of its calls waited for an object."""

    def __init__(self, batch):
        self.batch = batch
        self.found = []  # True and a value, or False and an error's parts, for each call
        self.waiting = None  # the call that waits

    def resume(self, _):
        """The call may go on."""
        self.batch.resume(self.batch)


cdef class _Process:
    """How often this process was forked since the module was loaded. A connection belongs to one process."""

    def __init__(self):
        self.forks = 0


process = _Process()
