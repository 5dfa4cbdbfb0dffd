# What other compiled modules may know of _unpacking_objects.pyx.
cimport cython
from fastsock.rmi.codec._unpacking_special cimport SpecialUnpacker


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
    cdef object read_object(self, Py_ssize_t number)
    cdef object read_other_object(self, Incoming known)
    cdef object read_filled(self, Incoming known)
    cdef object read_new_cached(self)
    cdef object read_cached(self)
    cdef object read_exception(self)
    cdef object read_reference(self)
    cdef object read_pickle(self)
    cdef int _begin_flagged(self, int flags) except -1
    cdef int _read_description(self) except -1
