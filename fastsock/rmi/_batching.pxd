# The C types of _batching.py.
cimport cython
from cpython.object cimport PyObject

from fastsock.rmi._connection cimport Method
from fastsock.rmi._packing_values cimport ValuePacker, Writer
from fastsock.rmi._vectorcall cimport accept_vectorcall, given_by_name, given_by_place


@cython.final
cdef class Later:
    cdef Method _method
    cdef bint _done
    cdef object _arguments, _keywords, _value, _error

    cdef object _what(self)


cdef inline Later new_later(Method method):
    cdef Later made = Later.__new__(Later)
    made._method = method
    return made


@cython.final
cdef class Recording:
    cdef Recorder _recorder
    cdef Method _method
    cdef void *_vectorcall

    @cython.locals(later=Later)
    cdef Later _note(self, object arguments, object keywords)


cdef inline object call_recording(object recording, PyObject **given, size_t flagged, PyObject *names):
    return (<Recording>recording)._note(given_by_place(given, flagged), given_by_name(given, flagged, names))


cdef inline void *vectorcall_of_recording() noexcept:
    return <void *>call_recording


cdef inline int accept_calls() except -1:
    cdef Recording made = Recording.__new__(Recording)
    accept_vectorcall(made, <char *>&made._vectorcall - <char *><void *>made)
    return 0


@cython.final
cdef class Calls:
    cdef dict __dict__
    cdef object _proxy
    cdef Recorder _recorder


@cython.locals(noted=Calls)
cpdef object recording_of(object calls, Method method)


cdef class Recorder(Writer):
    cdef public unsigned int object_number
    cdef public list results

    @cython.locals(later=Later)
    cdef int write_to(self, ValuePacker packer) except -1
    @cython.locals(found=list, at=Py_ssize_t, later=Later)
    cpdef object settle(self, object values, object error_of)
