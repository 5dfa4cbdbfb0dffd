# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
# cython: binding=False, embedsignature=True, embedsignature.format=clinic
"""The memory of connections: made, mapped, used again. And what the channels of one end share."""
cimport cython
from libc.errno cimport EPROTO, ESTALE
from libc.stdint cimport uint32_t, uint64_t

from ._core cimport checked
from .stream cimport (
    fs_end_free, fs_end_show_importer, fs_segment_bytes, fs_segment_create, fs_segment_drop, fs_segment_make,
    fs_segment_map, fs_sysv_attach, fs_sysv_format,
)

import errno as _errno
import posix as _os

from ._core import ProtocolViolation


def create_segment(uint32_t ring_bytes):
    """Returns the descriptor of a new sealed memory segment; raises OSError (ENOMEM, EMFILE, EINVAL)."""
    cdef int memory = fs_segment_create(ring_bytes)
    if memory < 0:
        raise OSError(-memory, _os.strerror(-memory))
    return memory


def segment_bytes(uint32_t ring_bytes):
    """The memory that a segment takes with rings of that size, 0 where there is no such size."""
    return fs_segment_bytes(ring_bytes)


def format_system_v(int id, uint32_t ring_bytes, uint64_t token):
    """Makes fresh System V memory of segment_bytes(ring_bytes) a segment with that token; raises OSError."""
    checked(fs_sysv_format(id, ring_bytes, token))


@cython.final
cdef class Segment:
    """The mapping of a segment's memory, which can serve one connection after the other of the same two processes.

    Raises OSError, or ProtocolViolation when `memory`, a descriptor that is not taken over, holds no sound segment.
    """
    def __init__(self, int memory):
        cdef int error = 0
        self.segment = fs_segment_map(memory, &error)
        if self.segment == NULL:
            if error == -EPROTO:
                raise ProtocolViolation(_errno.EPROTO, "shm path: the memory offered is not a fastsock segment")
            raise OSError(-error, _os.strerror(-error))

    @staticmethod
    def make(uint32_t ring_bytes):
        """A new one, and the descriptor of its memory, for the other end. Raises as create_segment() does."""
        cdef Segment self = Segment.__new__(Segment)
        cdef int memory = 0
        self.segment = fs_segment_make(ring_bytes, &memory)
        if self.segment == NULL:
            raise OSError(-memory, _os.strerror(-memory))
        return self, memory

    @staticmethod
    def of_system_v(int id, uint64_t token):
        """The segment in System V memory that has this number and token. Raises as the class does."""
        cdef Segment self = Segment.__new__(Segment)
        cdef int error = 0
        self.segment = fs_sysv_attach(id, token, &error)
        if self.segment == NULL:
            if error == -EPROTO or error == -ESTALE:
                raise ProtocolViolation(_errno.EPROTO, f"System V memory {id} is not the segment of this pair of ranks: "
                                        "both must be in one IPC namespace")
            raise OSError(-error, _os.strerror(-error))
        return self

    def __dealloc__(self):
        if self.segment != NULL:
            fs_segment_drop(self.segment)


@cython.final
cdef class End:
    """One end of a connection; the channels of a socket and its duplicates share it."""

    def __del__(self):
        # Never closed. Now, and not at the end: a collection of garbage may clear `closed` itself before that.
        self.hide_importer()
        self.importer = 0
        self.report_closed()

    def __dealloc__(self):
        if self.end != NULL:
            fs_end_free(self.end)

    cdef void hide_importer(self) noexcept:
        if self.shown:
            self.shown = False
            fs_end_show_importer(self.end, 0)

    cdef int report_closed(self) except -1:
        closed, self.closed = self.closed, None
        if closed is not None:
            closed()
        return 0
