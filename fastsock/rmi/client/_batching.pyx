# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""Calls that go together: what a batch notes of each, and how the results come to their places."""
cimport cython
from cpython.object cimport PyObject
from fastsock.rmi.codec._packing_values cimport ValuePacker, Writer
from fastsock.rmi.wire._connection cimport Method
from fastsock.rmi.wire._vectorcall cimport accept_vectorcall, given_by_name, given_by_place

from fastsock.rmi.objects.proxy import method_named


@cython.final
cdef class Later:
    """The result of a call of a batch."""

    cdef Method _method
    cdef bint _done
    cdef object _arguments, _keywords, _value, _error

    def __init__(self, method):
        self._method = method
        self._arguments = None
        self._keywords = None
        self._done = False
        self._value = None
        self._error = None

    cdef object _what(self):
        return f"{self._method.target.name}.{self._method.name}"

    def __repr__(self):
        return f"<result of {self._what()}: {'ready' if self._done else 'not sent yet'}>"

    def done(self):
        """Whether the batch has come back."""
        return self._done

    def result(self):
        """The value. Raises what the call raised, RuntimeError before the end of the block."""
        if not self._done:
            raise RuntimeError(f"{self._what()} is in a batch: its result is there after the block")
        if self._error is not None:
            raise self._error
        return self._value


cdef inline Later new_later(Method method):
    cdef Later made = Later.__new__(Later)
    made._method = method
    return made


@cython.final
cdef class Recording:
    """A method of a batch: a call of it is noted."""

    cdef Recorder _recorder
    cdef Method _method
    cdef void *_vectorcall

    def __init__(self, recorder, method):
        self._recorder = recorder
        self._method = method
        self._vectorcall = <void *>call_recording

    def __call__(self, *arguments, **keywords):
        return self._note(arguments, keywords)

    cdef Later _note(self, object arguments, object keywords):
        cdef Later later = new_later(self._method)
        later._arguments = arguments
        if keywords:
            later._keywords = keywords
        self._recorder.results.append(later)
        return later


cdef object call_recording(object recording, PyObject **given, size_t flagged, PyObject *names):
    return (<Recording>recording)._note(given_by_place(given, flagged), given_by_name(given, flagged, names))


cdef int accept_calls() except -1:
    cdef Recording made = Recording.__new__(Recording)
    accept_vectorcall(made, <char *>&made._vectorcall - <char *><void *>made)
    return 0


@cython.final
cdef class Calls:
    """What the block of a batch calls. A method is made at its first use."""

    cdef dict __dict__
    cdef object _proxy
    cdef Recorder _recorder

    def __init__(self, proxy, recorder):
        self._proxy = proxy
        self._recorder = recorder

    def __getattr__(self, name):
        found = None if name.startswith("_") else method_named(self._proxy, name)
        if found is None:
            raise AttributeError(f"{self._proxy!r} exposes no method {name!r}")
        made = Recording(self._recorder, found)
        setattr(self, name, made)
        return made


def recording_of(calls, Method method):
    """A method of the batch's own proxy, to be called in its block. Raises TypeError where it is another one's."""
    cdef Calls noted
    if not isinstance(calls, Calls):
        raise TypeError(f"{calls!r} is not what the block of a batch calls")
    noted = calls
    if method.target is not noted._proxy._rmi_target:
        raise TypeError(f"{method!r} is not of the object of this batch, {noted._proxy!r}")
    return Recording(noted._recorder, method)


cdef class Recorder(Writer):
    """The calls of a batch, in their order. object_number: of the object that they are made on, when they are sent."""

    cdef public unsigned int object_number
    cdef public list results

    def __init__(self):
        self.object_number = 0
        self.results = []

    cdef int write_to(self, ValuePacker packer) except -1:
        """A tuple: object, method, arguments, keywords of each call. The calls keep nothing of it."""
        cdef Later later
        packer.put_tuple_of(4 * len(self.results))
        packer.enter()
        for each in self.results:
            later = each
            packer.ready()
            packer.put_int(self.object_number)
            packer.put_int(later._method.number)
            packer.write(later._arguments)
            packer.write(later._keywords)
            later._arguments = None
            later._keywords = None
        packer.leave()
        packer.count += 1

    def settle(self, values, error_of):
        """The batch has come back: a value for each call behind True, or the parts of an error behind False."""
        cdef list found
        cdef Py_ssize_t at
        cdef Later later
        if type(values) is not list or len(values) != 2 * len(self.results):
            raise ValueError(f"{len(self.results)} calls of a batch had another number of results")
        found = values
        at = 0
        for each in self.results:
            later = each
            if found[at] is True:
                later._value = found[at + 1]
            else:
                later._error = error_of(*found[at + 1])
            later._done = True
            at += 2


accept_calls()
