from libc.stdint cimport uint32_t


cdef class Memory:
    cdef void *start
    cdef readonly Py_ssize_t nbytes
    cdef readonly object file  # an OwnedDescriptor
    cdef object __weakref__


cdef class Exporter:
    cdef Memory memory
    cdef readonly Py_ssize_t nbytes, offset
    cdef readonly Py_ssize_t exports           # that live
    cdef readonly Py_ssize_t writable_exports  # of these
    cdef readonly object kind                  # of the exports that live: a dtype; None for bytes
    cdef public bint closed                    # to new exports; refusal() has the reason
    cdef public bint readonly                  # as far as new exports go
    cdef uint32_t process
    cdef bint going                            # with all that it knows: nobody is told of the last export
    cdef object __weakref__

    cdef bint allows(self, object kind, bint writable) except -1
    cpdef bint is_kind(self, kind) except -1
    cdef int begin(self, object kind, Py_buffer *buffer, object owner, int flags, bint readonly) except -1
    cdef bint end(self, bint wrote)
