# What other compiled modules may know of _unpacking_special.pyx.
from fastsock.rmi.codec._unpacking_values cimport ValueUnpacker


cdef class SpecialUnpacker(ValueUnpacker):
    cdef object read_special(self, int tag)
    cdef object read_nested(self, int tag)
    cdef int next_tag(self) except -1
    cdef object read_str(self)
    cdef object read_recursive(self)
    cdef object read_typed_array(self)
    cdef object read_memory(self)
    cdef object read_view(self)
    cdef object read_array(self, int tag)
    cdef object read_scalar(self)
