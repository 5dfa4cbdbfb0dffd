cdef class OwnedDescriptor:
    cdef readonly int number
    cdef unsigned long device, file
    cdef str process

    cdef bint is_same(self) noexcept  # as is_ours()
    cpdef close(self)
