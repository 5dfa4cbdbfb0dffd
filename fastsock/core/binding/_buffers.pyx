# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
# cython: binding=False, embedsignature=True, embedsignature.format=clinic
"""The memory of programs' buffers, while the core has it."""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.mem cimport PyMem_Free, PyMem_Malloc

from .system cimport fs_parts_of


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


cdef class Buffer:
    """An exported buffer, released with this object."""

    def __cinit__(self, exporter, bint writable):
        PyObject_GetBuffer(exporter, &self.raw, PyBUF_WRITABLE if writable else PyBUF_SIMPLE)

    def __dealloc__(self):
        PyBuffer_Release(&self.raw)
