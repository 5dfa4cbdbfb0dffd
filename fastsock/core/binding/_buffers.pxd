from .system cimport fs_parts, iovec


cdef enum:
    FEW = 4  # buffers, whose places are in the object


# Several buffers that are sent as one. take(): their memory, until the object goes.
cdef class Gather:
    cdef fs_parts parts  # what is left to be sent
    cdef Py_buffer few_views[FEW]
    cdef iovec few[FEW]
    cdef Py_buffer *views
    cdef iovec *vector
    cdef int count

    cdef int take(self, buffers) except -1


# One buffer, until the object goes.
cdef class Buffer:
    cdef Py_buffer raw
