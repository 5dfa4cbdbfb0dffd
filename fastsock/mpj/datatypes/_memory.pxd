# What the hot path of calls takes from _memory without a look at Python's dictionaries.
from libc.stdint cimport uintptr_t

cdef extern from "Python.h":
    ctypedef struct PyObject
    ctypedef struct Py_buffer:
        PyObject *obj
        void *buf
        Py_ssize_t len
        Py_ssize_t itemsize
        bint readonly
        int ndim
        char *format


cdef class buffer:
    cdef Py_buffer view
    cdef bytes _format
    cdef bint device      # a device's memory: the processor may reach it for messages, but not byte by byte
    cdef object __weakref__
    cdef int _check(self) except -1
    cdef Py_ssize_t _index(self, item) except -1
    cdef _slice(self, item)


cdef class Simple:
    cdef readonly uintptr_t address
    cdef readonly Py_ssize_t count
    cdef readonly object datatype
    cdef readonly object owner


cpdef buffer acquire(source, bint readonly, bint want_format)
cpdef Simple simple(message, bint readonly, Py_ssize_t blocks=*)
# The number of bytes of dense items; -1 where the type is not dense.
cdef Py_ssize_t dense_bytes(object datatype, Py_ssize_t count) except -2
