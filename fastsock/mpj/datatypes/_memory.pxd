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


cdef extern from "strided.h" nogil:
    enum: FS_LOOPS
    enum: FS_LAYOUT_FINE, FS_LAYOUT_FULL, FS_LAYOUT_HUGE
    struct fs_run:
        int64_t offset
        int64_t length
    struct fs_piece:
        int64_t offset
        int64_t count
        int64_t step
        const fs_layout *layout
    struct fs_layout:
        int64_t size
        int64_t offset
        int64_t length
        const fs_run *runs
        int loops


cdef class Contents:
    cdef public tuple integers, counts, types


cdef class TypeRecord:
    # In bytes. Explicit: its bounds were set, or those of a part of it; then they are not padded. Dense: the data begin at
    # the item's address and follow each other without gaps, over any number of items.
    cdef public int64_t size, extent, lb, true_lb, true_extent, alignment
    cdef public bint explicit, dense
    cdef public int64_t elements   # the number of basic elements
    cdef public object basic       # the only basic type in it, where there is one
    cdef public int combiner
    cdef public Contents contents  # None of a basic type
    cdef public str name
    # Of a basic type: "i", "u", "f", "c", "b" (logical), "S" (character), "V" (bytes), else empty; its code in Python; and
    # its size in the external32 representation.
    cdef public str kind, code
    cdef public int wire
    cdef public object constant
    cdef public str constant_name
    cdef public bint predefined
    cdef fs_layout layout
    cdef fs_run *own_runs
    cdef fs_piece *own_pieces
    cdef object held               # the types to whose layouts it points
    cdef object attributes_, known_, parts_, runs_
    cdef long number_
    # What the kernels of a team know of it, once they were asked: their type, -1 for none, and a bit for each operation.
    cdef bint asked
    cdef int kernel_type
    cdef uint32_t operations
    cdef object __weakref__


cdef class Simple:
    cdef readonly uintptr_t address
    cdef readonly Py_ssize_t count
    cdef readonly object datatype
    cdef readonly object owner


cpdef buffer acquire(source, bint readonly, bint want_format)
# The caller answers for the memory.
cdef buffer memory_at(void *address, Py_ssize_t length, bint readonly)
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
    # Of items with gaps the type, which is held too, and `view.buf` is where the first one begins; else NULL. `view.len` is
    # the bytes of data then.
    PyObject *type


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
# Any way to write a message argument. None where the general way is to look at it, and then nothing is held. Else the
# Datatype that was named, or True for the memory's own. A count given with a buffer of several blocks is that of each.
# gaps: also items that do not follow each other.
cdef object read_span(object argument, Span *span, bint writable, int blocks, bint gaps=*)
cdef void release_span(Span *span) noexcept
# The data of items with gaps become a copy without, in the place of the memory that the span held.
cdef int pack_span(Span *span) except -1
# Bytes of data from `start` on, of items that begin at `origin`, and back. The caller answers for the memory.
cdef int gather(TypeRecord type_, const void *origin, int64_t start, void *target, Py_ssize_t size) except -1
cdef int scatter(TypeRecord type_, const void *source, Py_ssize_t size, void *origin, int64_t start) except -1
# Whether the data of so many items, at an offset into memory of a length, lie in it; their number of bytes.
cdef bint lies_within(TypeRecord type_, int64_t count, int64_t offset, Py_ssize_t length, Py_ssize_t *size) noexcept
# Memory for data without gaps, and its way back; of NULL nothing.
cdef void *take_room(Py_ssize_t size) except NULL
cdef void give_room(void *room) noexcept
