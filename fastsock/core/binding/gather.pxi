# Several buffers that are sent as one.
from cpython.mem cimport PyMem_Free, PyMem_Malloc


@cython.final
@cython.freelist(4)
cdef class Gather:
    """The buffers' memory, until this object goes."""

    cdef int take(self, buffers) except -1:
        """Raises what the buffers raise."""
        cdef Py_ssize_t most = len(buffers)
        self.views, self.vector = self.few_views, self.few
        if most > FEW:
            self.views = <Py_buffer *>PyMem_Malloc(most * sizeof(Py_buffer))
            self.vector = <iovec *>PyMem_Malloc(most * sizeof(iovec))
            if self.views == NULL or self.vector == NULL:
                raise MemoryError()
        for buffer in buffers:
            if self.count == most:  # a buffer's own code made the list longer
                break
            PyObject_GetBuffer(buffer, &self.views[self.count], PyBUF_SIMPLE)
            self.vector[self.count].iov_base = self.views[self.count].buf
            self.vector[self.count].iov_len = self.views[self.count].len
            self.count += 1
        self.parts = fs_parts_of(self.vector, self.count)
        return 0

    def __dealloc__(self):
        cdef int i
        for i in range(self.count):
            PyBuffer_Release(&self.views[i])
        if self.views != self.few_views:
            PyMem_Free(self.views)
            PyMem_Free(self.vector)


cdef object one_view(const fs_parts *parts):
    """What is left of them: of several a copy."""
    cdef Py_ssize_t i
    if parts.left == 0:
        return b""
    if parts.count == 1:
        return PyMemoryView_FromMemory(<char *>parts.next.iov_base, parts.left, PyBUF_READ)
    return b"".join([PyMemoryView_FromMemory(<char *>parts.next[i].iov_base, parts.next[i].iov_len, PyBUF_READ)
                     for i in range(parts.count)])
