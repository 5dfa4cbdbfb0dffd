# The C types of _unpacking_objects.py.
cimport cython
from fastsock.rmi._kinds cimport BUILTIN, EXCEPTIONS
from fastsock.rmi._memory cimport load_u32, load_u64, new_instance, new_tuple, set_field
from fastsock.rmi._numbers cimport *
from fastsock.rmi._unpacking_special cimport SpecialUnpacker
from fastsock.rmi._unpacking_values cimport ValueUnpacker, read_items


@cython.final
cdef class Incoming:
    cdef readonly object description
    cdef readonly object cls
    cdef readonly object failure
    cdef readonly tuple fields
    cdef readonly object version
    cdef readonly int kind
    cdef readonly bint migrates
    cdef bint is_plain


@cython.final
cdef class Broken:
    cdef readonly object failure


cdef class ObjectUnpacker(SpecialUnpacker):
    cdef readonly object classes
    cdef readonly object references
    cdef bint trust_pickle
    cdef list incoming, cache

    cdef object read_other(self, int tag)
    @cython.locals(known=Incoming)
    cdef object read_object(self, Py_ssize_t number)
    @cython.locals(kind=int, place=Py_ssize_t, index=Py_ssize_t)
    cdef object read_other_object(self, Incoming known)
    cdef object read_filled(self, Incoming known)
    @cython.locals(place=Py_ssize_t, failures=Py_ssize_t, tag=int)
    cdef object read_new_cached(self)
    @cython.locals(place=Py_ssize_t)
    cdef object read_cached(self)
    cdef object read_exception(self)
    cdef object read_reference(self)
    cdef object read_pickle(self)
    @cython.locals(end=Py_ssize_t, size=Py_ssize_t)
    cdef int _begin_flagged(self, int flags) except -1
    cdef int _read_description(self) except -1
