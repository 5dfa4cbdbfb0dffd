# Items with gaps, to contiguous bytes and back.

cdef extern from "strided.h" nogil:
    void fs_layout_block(fs_layout *layout, int64_t length)
    int fs_layout_runs(fs_layout *layout, fs_run *runs, int64_t count)
    int fs_layout_pieces(fs_layout *layout, const fs_piece *pieces, int64_t count)
    int fs_layout_repeat(fs_layout *layout, int64_t count, int64_t stride)
    int fs_layout_is_block(const fs_layout *layout)
    void fs_pack(unsigned char *packed, const unsigned char *origin, const fs_layout *layout, int64_t extent,
                 int64_t start, int64_t size)
    void fs_unpack(const unsigned char *packed, unsigned char *origin, const fs_layout *layout, int64_t extent,
                   int64_t start, int64_t size)

cdef Py_ssize_t LONG_COPY = 32 * 1024   # from here the interpreter's lock is given up for a copy


cdef int gather(TypeRecord type_, const void *origin, int64_t start, void *target, Py_ssize_t size) except -1:
    if size < LONG_COPY:
        fs_pack(<unsigned char *>target, <const unsigned char *>origin, &type_.layout, type_.extent, start, size)
    else:
        with nogil:
            fs_pack(<unsigned char *>target, <const unsigned char *>origin, &type_.layout, type_.extent, start, size)
    return 0


cdef int scatter(TypeRecord type_, const void *source, Py_ssize_t size, void *origin, int64_t start) except -1:
    if size < LONG_COPY:
        fs_unpack(<const unsigned char *>source, <unsigned char *>origin, &type_.layout, type_.extent, start, size)
    else:
        with nogil:
            fs_unpack(<const unsigned char *>source, <unsigned char *>origin, &type_.layout, type_.extent, start, size)
    return 0


def pack_into(target, TypeRecord type_ not None, uintptr_t address, *, int64_t start=0):
    """Gathers data of the items at `address` into contiguous `target`: so many bytes as it has, from `start` on.

    The caller answers for the memory at `address`.
    """
    cdef Py_buffer narrow
    PyObject_GetBuffer(target, &narrow, PyBUF_WRITABLE)
    try:
        gather(type_, <const void *>address, start, narrow.buf, narrow.len)
    finally:
        PyBuffer_Release(&narrow)


def unpack_from(source, TypeRecord type_ not None, uintptr_t address, *, int64_t start=0):
    """Scatters contiguous `source` over the items at `address`; the opposite of `pack_into`."""
    cdef Py_buffer narrow
    PyObject_GetBuffer(source, &narrow, PyBUF_SIMPLE)
    try:
        scatter(type_, narrow.buf, narrow.len, <void *>address, start)
    finally:
        PyBuffer_Release(&narrow)


def span(TypeRecord type_ not None, int64_t count):
    """Returns the lowest and highest offset that the data of `count` items have from the address of the first."""
    cdef int64_t low = 0, high = 0
    if count > 0 and type_.size and not reach(type_, count, &low, &high):
        raise OverflowError(f"{count} items reach further than 64 bits tell")
    return low, high


# ---- memory for data without gaps ----

cdef extern from *:
    """
    #include <stdlib.h>

    /* Few calls need such memory at a time, and large new memory costs more than the copy: some is kept. */
    enum { FS_ROOMS = 2, FS_ROOM_HEAD = 64, FS_ROOM_MOST = 4 << 20 };
    static size_t *fs_rooms[FS_ROOMS]; /* each begins with its size */

    static void *fs_take_room(size_t size)
    {
        for (int i = 0; i < FS_ROOMS; i++) {
            size_t *room = __atomic_exchange_n(&fs_rooms[i], NULL, __ATOMIC_ACQ_REL);
            if (room && *room >= size) return (char *)room + FS_ROOM_HEAD;
            free(room);
        }
        if (size > SIZE_MAX - FS_ROOM_HEAD) return NULL;
        size_t *room = malloc(size + FS_ROOM_HEAD);
        if (!room) return NULL;
        *room = size;
        return (char *)room + FS_ROOM_HEAD;
    }

    static void fs_give_room(void *memory)
    {
        if (!memory) return;
        size_t *room = (size_t *)((char *)memory - FS_ROOM_HEAD);
        for (int i = 0; i < FS_ROOMS && *room <= FS_ROOM_MOST; i++) {
            size_t *none = NULL;
            if (__atomic_compare_exchange_n(&fs_rooms[i], &none, room, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) return;
        }
        free(room);
    }
    """
    void *fs_take_room(size_t size) noexcept
    void fs_give_room(void *room) noexcept


cdef void *take_room(Py_ssize_t size) except NULL:
    cdef void *room = fs_take_room(size)
    if room == NULL:
        raise MemoryError()
    return room


cdef void give_room(void *room) noexcept:
    fs_give_room(room)


@cython.final
@cython.freelist(8)
cdef class Room:
    """Keeps such memory for a view."""
    cdef void *memory

    def __dealloc__(self):
        fs_give_room(self.memory)


# ---- as message arguments ----

cdef bint reach(TypeRecord type_, int64_t count, int64_t *low, int64_t *high) noexcept:
    """The offsets between which the data of so many items lie, and whether numbers can tell them."""
    cdef int over = 0
    cdef int64_t more = fs_times(count - 1, type_.extent, &over)
    low[0] = fs_plus(type_.true_lb, min(more, 0), &over)
    high[0] = fs_plus(fs_plus(type_.true_lb, type_.true_extent, &over), max(more, 0), &over)
    return not over


cdef bint lies_within(TypeRecord type_, int64_t count, int64_t offset, Py_ssize_t length, Py_ssize_t *size) noexcept:
    cdef int64_t low = 0, high = 0
    cdef int over = 0
    size[0] = fs_times(count, type_.size, &over)
    if over or not 0 <= offset <= length or count < 0:
        return False
    if size[0] == 0:
        return True
    return reach(type_, count, &low, &high) and low >= -offset and high <= length - offset


@cython.cdivision(True)
cdef bint hold_gaps(object where, bint writable, TypeRecord type_, bint counted, int64_t count, int64_t displacement,
                    int blocks, Span *span) except -1:
    """Holds the memory of items with gaps, all of whose data must lie in it. Whether it does."""
    cdef int64_t offset = 0, extent = type_.extent
    cdef Py_ssize_t size = 0
    cdef int over = 0
    cdef bint fits
    span.held, span.letter = False, -1
    if type_.size <= 0 or extent <= 0 and (displacement or not counted) or not hold(where, writable, 0, &span.view):
        return False
    offset = fs_times(displacement, extent, &over)
    fits = not over and offset <= span.view.len
    if fits and not counted:
        count = (span.view.len - offset) // extent
        fits = count * extent == span.view.len - offset and count % blocks == 0
    elif fits:
        count = fs_times(count, blocks, &over)
        fits = not over
    if not fits or count <= 0 or not lies_within(type_, count, offset, span.view.len, &size):
        PyBuffer_Release(&span.view)
        return False
    Py_INCREF(type_)
    span.type = <PyObject *>type_
    span.view.buf = <char *>span.view.buf + offset
    span.view.len, span.view.itemsize = size, type_.size
    span.held = True
    return True


cdef void release_span(Span *span) noexcept:
    if span.held:
        span.held = False
        PyBuffer_Release(&span.view)
        if span.type != NULL:
            Py_DECREF(<object>span.type)
            span.type = NULL


cdef int pack_span(Span *span) except -1:
    cdef Room room = Room.__new__(Room)
    cdef Py_ssize_t itemsize = span.view.itemsize, size = span.view.len
    room.memory = take_room(size)
    gather(<TypeRecord>span.type, span.view.buf, 0, room.memory, size)
    release_span(span)
    PyBuffer_FillInfo(&span.view, <PyObject *>room, room.memory, size, True, PyBUF_SIMPLE)
    span.view.itemsize = itemsize
    span.held = True
    return 0
