# What other compiled modules may know of _packing_special.pyx.
from fastsock.rmi.codec._packing_values cimport ValuePacker


cdef class SpecialPacker(ValuePacker):
    cdef int write_special(self, object value, object kind, int tag) except -1
    cdef int write_set(self, object values, int tag) except -1
    cdef int put_set(self, object values, int tag) except -1
    cdef int write_inner(self, object value) except -1
    cdef int write_numbered(self, object value, int tag) except -1
    cdef int write_memory(self, object value, Py_ssize_t size, bint changes) except -1
    cdef int write_view(self, object value) except -1
    cdef int write_array(self, object value) except -1
    cdef int write_scalar(self, object value, object kind) except -1
    cdef int write_dtype(self, object value) except -1
