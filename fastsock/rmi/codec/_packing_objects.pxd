# What other compiled modules may know of _packing_objects.pyx.
cimport cython
from fastsock.rmi.codec._packing_special cimport SpecialPacker


@cython.final
cdef class Outgoing:
    cdef readonly object description
    cdef readonly tuple fields
    cdef int kind
    cdef bint cached
    cdef Py_ssize_t number


cdef class ObjectPacker(SpecialPacker):
    cdef readonly object classes
    cdef readonly object references
    cdef bint trust_pickle, caches
    cdef public bint finds_classes
    cdef Py_ssize_t class_count, next_place
    cdef list announced, cached, filled
    cdef dict plans, places

    cdef int write_other(self, object value, object kind) except -1
    cdef int write_object(self, object value, Outgoing known) except -1
    cdef int _keep(self, object value, Py_ssize_t place) except -1
    cdef int write_instance(self, object value, Outgoing known) except -1
    cdef int write_filled(self, object value, Outgoing known) except -1
    cdef int write_made_of(self, object value, Outgoing known) except -1
    cdef int write_made(self, object value) except -1
    cdef int _forget_classes(self) except -1
    cdef int _announce(self, Outgoing known) except -1
    cdef int _describe(self) except -1
    cdef int write_exception(self, object value, object kind) except -1
    cdef int write_reduced(self, object value) except -1
    cdef object stand_in(self, object member)
    cdef bint travels(self, object kind) except -1
    cdef int write_state(self, object state) except -1
    cdef int write_cause(self, object value) except -1
    cdef int write_unknown(self, object value, object kind) except -1
    cdef object find_plan(self, object kind)
    cdef object find_of_library(self, object kind)
    cdef object find_of_import(self, object kind)
    cdef object _plan(self, object kind, object description)
