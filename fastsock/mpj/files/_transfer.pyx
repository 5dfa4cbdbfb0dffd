# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""Data between memory and the places in a file that a datatype names. Places and starts are bytes.

Raises OSError.
"""
from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EINTR, errno as last_error
from libc.stdint cimport int64_t, uintptr_t

from fastsock.mpj.datatypes._memory cimport TypeRecord, buffer, fs_layout

import posix as _os

cdef extern from "<sys/vfs.h>" nogil:
    struct statfs_result "statfs":
        long f_type
    int fstatfs(int file, statfs_result *result)

cdef extern from "files/transfer.h" nogil:
    enum: FS_FILE_READS, FS_FILE_LOCKED, FS_FILE_CLAIMS
    int fs_layout_reach(const fs_layout *layout, fs_reach *reach)
    int64_t fs_layout_place(const fs_layout *layout, int64_t extent, int64_t start)
    int64_t fs_layout_below(const fs_layout *layout, int64_t extent, int64_t offset)
    int fs_file_view_is_ordered(const fs_file_view *view)
    int64_t fs_file_read(int file, const fs_file_view *view, int64_t start, void *data, int64_t length, int how)
    int64_t fs_file_write(int file, const fs_file_view *view, int64_t start, const void *data, int64_t length, int how)
    void fs_file_take(const fs_file_view *view, int64_t start, void *data, int64_t length, const void *part, int64_t at)
    void fs_file_put(const fs_file_view *view, int64_t start, const void *data, int64_t length, void *part, int64_t at)

cdef extern from "files/locks.h" nogil:
    enum: FS_FILE_UNLOCK, FS_FILE_SHARED, FS_FILE_ALONE, FS_FILE_WHOLE
    int fs_file_lock(int file, int64_t start, int64_t length, int kind)
    int fs_file_hold_to_change(int file, int64_t start, int64_t length, int locked)
    void fs_file_let_go(int file, int64_t start, int64_t length, int held)
    void fs_file_forget_claims(int file)

READS, LOCKED, CLAIMS = FS_FILE_READS, FS_FILE_LOCKED, FS_FILE_CLAIMS
WHOLE = FS_FILE_WHOLE
UNLOCK, SHARED, ALONE = FS_FILE_UNLOCK, FS_FILE_SHARED, FS_FILE_ALONE


cdef int64_t checked(int64_t result) except -1:
    if result < 0:
        raise OSError(-result, _os.strerror(-result))
    return result


cdef class Places:
    """Where the items of a datatype lie in a file: the first one's origin is `start`.

    Raises ValueError where the datatype has data that lie before others, or in the same place.
    """

    def __init__(self, TypeRecord type_ not None, int64_t start):
        self.type, self.start = type_, start
        self.view.start, self.view.extent, self.view.layout = start, type_.extent, &type_.layout
        if type_.size and not fs_layout_reach(&type_.layout, &self.view.reach):
            raise ValueError("its data do not follow each other")
        if start + self.view.reach.first < 0:
            raise ValueError("its data begin before the file does")
        self.ordered = fs_file_view_is_ordered(&self.view)

    def place(self, int64_t start):
        """Returns the place of a byte of data."""
        if self.type.size == 0:
            return self.start
        return self.start + fs_layout_place(&self.type.layout, self.type.extent, start)

    def below(self, int64_t place):
        """Returns how many bytes of data lie before a place. The items are ordered among each other."""
        cdef int64_t found
        if self.type.size == 0:
            return 0
        with nogil:
            found = fs_layout_below(&self.type.layout, self.type.extent, place - self.view.start)
        return found

    cdef int64_t c_read(self, int file, int64_t start, void *data, int64_t nbytes, int how) noexcept:
        cdef int64_t result
        if self.type.size == 0:
            return 0
        with nogil:
            result = fs_file_read(file, &self.view, start, data, nbytes, how)
        return result

    cdef int64_t c_write(self, int file, int64_t start, const void *data, int64_t nbytes, int how) noexcept:
        cdef int64_t result
        if self.type.size == 0:
            return 0
        with nogil:
            result = fs_file_write(file, &self.view, start, data, nbytes, how)
        return result

    def read(self, int file, int64_t start, uintptr_t address, int64_t nbytes, int how):
        """Reads the bytes of data from `start` on; returns how many there are before the end of the file."""
        return checked(self.c_read(file, start, <void *>address, nbytes, how))

    def write(self, int file, int64_t start, uintptr_t address, int64_t nbytes, int how):
        """Writes the bytes of data from `start` on; returns their number."""
        return checked(self.c_write(file, start, <const void *>address, nbytes, how))

    def take(self, int64_t start, uintptr_t address, int64_t nbytes, buffer part not None, int64_t place):
        """Copies data out of a part of the file, which lies in memory from the byte at `place` on."""
        with nogil:
            fs_file_take(&self.view, start, <void *>address, nbytes, part.view.buf, place)

    def put(self, int64_t start, uintptr_t address, int64_t nbytes, buffer part not None, int64_t place):
        """Copies data into such a part."""
        with nogil:
            fs_file_put(&self.view, start, <const void *>address, nbytes, part.view.buf, place)


def lock(int file, int64_t start, int64_t length, int kind):
    """Takes or gives back the lock of a part of a file. A signal handler of the program may run, and raise."""
    cdef int result
    while True:
        with nogil:
            result = fs_file_lock(file, start, length, kind)
        if result != -EINTR:
            return checked(result)
        PyErr_CheckSignals()


def hold_to_change(int file, int64_t start, int64_t length):
    """Waits until a part of a file may be written; with WHOLE in the answer also what lies between. This thread lets go."""
    cdef int held
    with nogil:
        held = fs_file_hold_to_change(file, start, length, False)
    return held


def let_go(int file, int64_t start, int64_t length, int held):
    """Gives back what `hold_to_change` answered."""
    with nogil:
        fs_file_let_go(file, start, length, held)


def forget_claims(int file):
    """Gives back what short writes have claimed: others change parts faster then."""
    with nogil:
        fs_file_forget_claims(file)


def file_system(int file):
    """Returns the number of the kind of file system that a file is on."""
    cdef statfs_result found
    if fstatfs(file, &found) != 0:
        checked(-last_error)
    return found.f_type & 0xFFFFFFFF
