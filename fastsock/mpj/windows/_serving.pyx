# cython: language_level=3, freethreading_compatible=True
"""Who serves: whichever thread of the rank waits in a call of the window, else one thread that does nothing else.

A request that has arrived is found by any thread that waits for messages. One in a call of the window serves it at once.
Any other, which is in the middle of something else of the program's, leaves it to the thread of the window.

What the engine calls is compiled: no signal handler of the program runs in the middle of it, and takes a request along.
"""
from cpython.exc cimport PyErr_CheckSignals

import _thread
import threading
from collections import deque

from fastsock.system.forkable import new_lock


cdef class Serving:
    """Calls steps with the requests of the engine that they wait for: one at a time, in the order of their ends.

    A step calls `begin` first. One that was interrupted before is called again, by another thread.
    """

    cdef object engine, turn, ready, bell, helpers, interrupts, thread
    cdef bint serving, stopped, rung, begun

    def __init__(self, engine, str name):
        self.engine = engine
        self.turn = new_lock()
        self.ready = deque()
        self.bell = engine.user_request()
        self.helpers = set()
        self.interrupts = {}  # by thread: what a signal handler of the program raised while it served
        # it must not keep a program from its end: then the engine closes, which ends every wait
        self.thread = threading.Thread(target=self.run, name=name, daemon=True)

    def start(self):
        """Starts the thread."""
        self.thread.start()

    def stop(self):
        """Ends it. No step is called any more."""
        self.stopped = True
        self.ring()
        self.thread.join()

    def help(self):
        """The calling thread may serve while it waits, until `leave`."""
        self.helpers.add(_thread.get_ident())

    def leave(self):
        """The calling thread does not serve any more. Raises what interrupted it while it did."""
        thread = _thread.get_ident()
        self.helpers.discard(thread)
        error = self.interrupts.pop(thread, None)
        if error is not None:
            raise error

    def begin(self):
        """The step that is called has begun."""
        self.begun = True

    def when_done(self, request, step):
        """Has a step called once a request has ended."""
        request.callback = Ended(self, step)

    cdef int ended(self, step, request) except -1:
        cdef bint helps = False
        self.ready.append((step, request))
        try:
            with self.turn:
                if self.serving:
                    return 0
                self.serving = helps = _thread.get_ident() in self.helpers
            if helps:
                self.serve()
            else:
                self.ring()
        except BaseException as error:
            self.interrupted(error)
        return 0

    cdef int interrupted(self, error) except -1:
        """A signal handler of the program raised while this thread was at work here: another one goes on with it."""
        self.serving = False
        self.ring()
        if isinstance(error, KeyboardInterrupt):
            _thread.interrupt_main()  # once more, where it ends the program's call
        else:
            self.interrupts[_thread.get_ident()] = error
        return 0

    cdef int serve(self) except -1:
        """Calls the steps that are ready."""
        while True:
            PyErr_CheckSignals()
            with self.turn:
                if not self.ready or self.stopped:
                    self.serving = False
                    return 0
                step, request = self.ready.popleft()
            self.begun = False
            try:
                step(request)
            except:
                if not self.begun:
                    self.ready.appendleft((step, request))
                raise

    cdef int ring(self) except -1:
        with self.turn:
            rings = not self.rung
            self.rung = True
            bell = self.bell
        if rings and not self.engine.closed:
            bell.complete()
        return 0

    def run(self):
        """What the thread does."""
        cdef bint serves = False
        self.help()
        while True:
            try:
                self.bell.wait()
            except Exception:  # the engine is closed
                return
            if self.stopped:
                return
            with self.turn:
                self.bell = self.engine.user_request()
                self.rung = False
                serves = not self.serving and len(self.ready) > 0
                if serves:
                    self.serving = True
            if serves:
                self.serve()


cdef class Ended:
    """What the engine calls when a request has ended."""

    cdef Serving serving
    cdef object step

    def __init__(self, Serving serving, step):
        self.serving, self.step = serving, step

    def __call__(self, request):
        self.serving.ended(self.step, request)
