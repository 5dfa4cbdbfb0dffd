# The C types of _batching.py.
cimport cython

from fastsock.rmi._connection cimport Method


@cython.final
@cython.freelist(128)
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

    @cython.locals(later=Later)
    cdef Later _note(self, tuple arguments, dict keywords)


@cython.final
cdef class Calls:
    cdef dict __dict__
    cdef object _proxy
    cdef Recorder _recorder


@cython.final
cdef class Recorder:
    cdef public list results

    @cython.locals(rows=list, later=Later)
    cpdef tuple rows(self, object number)
    @cython.locals(results=list, at=Py_ssize_t, later=Later)
    cpdef object settle(self, object values, object error_of)
