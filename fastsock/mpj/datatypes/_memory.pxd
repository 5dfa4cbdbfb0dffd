# What the hot path of calls takes from _memory without a look at Python's dictionaries.
from libc.stdint cimport int64_t, uint32_t, uintptr_t
from libc.string cimport strchr

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


cdef class TypeMap:
    # In bytes. Dense: the data begin at the item's address and follow each other without gaps, over any number of items.
    cdef public Py_ssize_t size, extent, lb, true_lb, true_extent
    cdef public bint dense
    # What the kernels of a team know of it, once they were asked: their type, -1 for none, and a bit for each operation.
    cdef bint asked
    cdef int kernel_type
    cdef uint32_t operations


cdef class Simple:
    cdef readonly uintptr_t address
    cdef readonly Py_ssize_t count
    cdef readonly object datatype
    cdef readonly object owner


cpdef buffer acquire(source, bint readonly, bint want_format)
cpdef Simple simple(message, bint readonly, Py_ssize_t blocks=*)

# ---- the bytes of a message argument ----

cdef extern from *:
    """
    #define PLAIN_FORMATS "BbHhIiLlQqfdg?"  /* and after them Zf and Zd */
    """
    const char *PLAIN_FORMATS

cdef enum:
    LETTERS_MOST = 17  # formats of plain items; the last: bytes of which no more is known


cdef inline int letter_of(const char *format) noexcept:
    """The place of a format among those of plain items, or -1. Any datatype of their kind describes their bytes."""
    cdef const char *found
    if format == NULL:
        return LETTERS_MOST - 1
    if format[0] == c'Z':
        if format[1] == 0 or format[2] != 0:
            return -1
        return 14 if format[1] == c'f' else 15 if format[1] == c'd' else -1
    if format[0] == 0 or format[1] != 0:
        return -1
    found = strchr(PLAIN_FORMATS, format[0])
    return -1 if found == NULL else <int>(found - PLAIN_FORMATS)


cdef struct Span:
    Py_buffer view  # held: to be released. `buf`, `len` and `itemsize` are those of the message's items
    bint held
    int letter      # of a plain array, as letter_of() says; -1 where a datatype was named


cdef inline void hold_nothing(Py_buffer *view) noexcept:
    """Memory of no bytes, of nobody."""
    view.obj = NULL
    view.buf = NULL
    view.format = NULL
    view.len = view.ndim = view.readonly = 0


cdef bint hold(object where, bint writable, int flags, Py_buffer *view) except -1
# The Datatype that a handle or a code names; None for anything else.
cdef object type_named(object named)
# As operator.index(), of a number that is not negative; -1 for anything else.
cdef Py_ssize_t whole_number(object value) noexcept
# Holds contiguous memory for items of a datatype; of None, those that the memory's own format tells. Their size, or 0:
# the general way is to look at it, and nothing is held. of_nothing: of no items, so there may be no memory.
cdef Py_ssize_t hold_items(object where, bint writable, object datatype, bint of_nothing, Span *span) except -1
# Any way to write a message argument whose items follow each other without gaps. None where the general way is to look
# at it, and then nothing is held. Else the Datatype that was named, or True for the memory's own. A count given with a
# buffer of several blocks is that of each.
cdef object read_span(object argument, Span *span, bint writable, int blocks)

# Items with gaps, from `origin` on, to so many contiguous bytes and back; `runs` as pack() takes them.
cdef void pack_items(unsigned char *packed, void *origin, const Py_buffer *runs, int64_t extent, int64_t size) noexcept nogil
cdef void unpack_items(unsigned char *packed, void *origin, const Py_buffer *runs, int64_t extent, int64_t size) noexcept nogil
