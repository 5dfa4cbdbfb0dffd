# Items with gaps, to contiguous bytes and back.

cdef extern from "strided.h" nogil:
    struct fs_run:
        int64_t offset
        int64_t length
    void fs_pack(unsigned char *packed, const unsigned char *origin, const fs_run *runs, int64_t count,
                 int64_t extent, int64_t start, int64_t size)
    void fs_unpack(const unsigned char *packed, unsigned char *origin, const fs_run *runs, int64_t count,
                   int64_t extent, int64_t start, int64_t size)

cdef Py_ssize_t LONG_COPY = 32 * 1024   # from here the interpreter's lock is given up for a copy


def pack(uintptr_t origin, runs, int64_t extent, int64_t start, target):
    """Gathers bytes of items with gaps into the contiguous buffer `target`, whose length says how many.

    `origin` is the address of the first item, `runs` an int64 array of (offset, length) pairs. The caller answers for
    the memory.
    """
    cdef Py_buffer wide, narrow
    PyObject_GetBuffer(runs, &wide, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(target, &narrow, PyBUF_WRITABLE)
        try:
            if narrow.len < LONG_COPY:
                fs_pack(<unsigned char *>narrow.buf, <const unsigned char *>origin, <const fs_run *>wide.buf,
                        wide.len // 16, extent, start, narrow.len)
            else:
                with nogil:
                    fs_pack(<unsigned char *>narrow.buf, <const unsigned char *>origin, <const fs_run *>wide.buf,
                            wide.len // 16, extent, start, narrow.len)
        finally:
            PyBuffer_Release(&narrow)
    finally:
        PyBuffer_Release(&wide)


def unpack(source, uintptr_t origin, runs, int64_t extent, int64_t start):
    """Scatters the contiguous bytes of `source` over items with gaps: the opposite of `pack`."""
    cdef Py_buffer wide, narrow
    PyObject_GetBuffer(runs, &wide, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(source, &narrow, PyBUF_SIMPLE)
        try:
            if narrow.len < LONG_COPY:
                fs_unpack(<const unsigned char *>narrow.buf, <unsigned char *>origin, <const fs_run *>wide.buf,
                          wide.len // 16, extent, start, narrow.len)
            else:
                with nogil:
                    fs_unpack(<const unsigned char *>narrow.buf, <unsigned char *>origin, <const fs_run *>wide.buf,
                              wide.len // 16, extent, start, narrow.len)
        finally:
            PyBuffer_Release(&narrow)
    finally:
        PyBuffer_Release(&wide)


cdef void pack_items(unsigned char *packed, void *origin, const Py_buffer *runs, int64_t extent, int64_t size) noexcept nogil:
    fs_pack(packed, <const unsigned char *>origin, <const fs_run *>runs.buf, runs.len // 16, extent, 0, size)


cdef void unpack_items(unsigned char *packed, void *origin, const Py_buffer *runs, int64_t extent, int64_t size) noexcept nogil:
    fs_unpack(packed, <unsigned char *>origin, <const fs_run *>runs.buf, runs.len // 16, extent, 0, size)
