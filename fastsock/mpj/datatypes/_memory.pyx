# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""Memory: any contiguous buffer by address and length, the constants that stand for buffers, copies with gaps.

Another thread may release a buffer at any time, so its memory is read within a critical section of it.
"""
cimport cython
from cpython.number cimport PyIndex_Check
from libc.stdint cimport int64_t, uint32_t, uintptr_t

from fastsock.mpj._slots cimport find_slots, is_constant, new_handle, record_of, refer

# Cython's own declaration of Py_buffer takes `obj` for an object, but it may be NULL: _memory.pxd has another.
cdef extern from "Python.h":
    enum: PyBUF_SIMPLE
    enum: PyBUF_WRITABLE
    enum: PyBUF_FORMAT
    enum: PyBUF_ANY_CONTIGUOUS
    int PyObject_CheckBuffer(object)
    int PyObject_GetBuffer(object, Py_buffer *, int) except -1
    void PyBuffer_Release(Py_buffer *)
    int PyBuffer_FillInfo(Py_buffer *, PyObject *, void *, Py_ssize_t, bint, int) except -1

cdef extern from *:
    """
    #include <stddef.h>
    enum { LONG_DOUBLE_SIZE_ = sizeof(long double), LONG_DOUBLE_ALIGNMENT_ = _Alignof(long double),
           WCHAR_SIZE_ = sizeof(wchar_t) };
    """
    enum: LONG_DOUBLE_SIZE_
    enum: LONG_DOUBLE_ALIGNMENT_
    enum: WCHAR_SIZE_

# What a Python function counts by sys.getrefcount() differs from version to version.
cdef extern from *:
    """
    #if PY_VERSION_HEX >= 0x030E0000
    #define is_held_once(object) PyUnstable_Object_IsUniquelyReferenced(object)
    #elif defined(Py_GIL_DISABLED)
    #define is_held_once(object) ((void)(object), 0) /* other threads count for themselves */
    #else
    #define is_held_once(object) (Py_REFCNT(object) == 1)
    #endif
    """
    bint is_held_once(PyObject *)

LONG_DOUBLE_SIZE = LONG_DOUBLE_SIZE_
LONG_DOUBLE_ALIGNMENT = LONG_DOUBLE_ALIGNMENT_
WCHAR_SIZE = WCHAR_SIZE_

include "_buffer.pxi"
include "_foreign.pxi"
include "_typemap.pxi"
include "_types.pxi"
include "_spans.pxi"
include "_arguments.pxi"
include "_gaps.pxi"
include "_places.pxi"


def take_first(list kept):
    """Takes the first off the list `kept`: that one, and whether nobody else holds it. Raises IndexError."""
    first = kept.pop(0)
    return first, bool(is_held_once(<PyObject *>first))
