# cython: language_level=3, freethreading_compatible=True
"""A window is its memory to whoever asks for a buffer. Before Python 3.12 only a compiled class can be one."""

cdef extern from "Python.h":
    int PyObject_GetBuffer(object, Py_buffer *, int) except -1


cdef class Exported:
    """Exports the buffer that `tomemory` returns."""

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyObject_GetBuffer(self.tomemory(), view, flags)
