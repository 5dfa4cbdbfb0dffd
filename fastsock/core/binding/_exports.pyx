# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
# cython: binding=False, embedsignature=True, embedsignature.format=clinic
"""Memory that goes from process to process, and who looks at it."""
cimport cython
from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_FillInfo
from libc.stdint cimport uint64_t
from posix.unistd cimport close as close_descriptor

from ._core cimport checked
from ._system cimport OwnedDescriptor
from .registered cimport (
    fs_memory_check, fs_memory_fill, fs_memory_make, fs_memory_map, fs_memory_unmap, fs_region_is_within,
)
from .system cimport fs_generation

import errno as _errno


@cython.final
cdef class Memory:
    """Sealed memory, mapped. It is unmapped, and its descriptor closed, when the last reference is gone."""

    @staticmethod
    def make(Py_ssize_t nbytes):
        """New zeroes, which all have pages at once. Raises OSError (ENOMEM, EMFILE, EINVAL)."""
        cdef int memory = checked(fs_memory_make(nbytes))
        cdef int error
        try:
            self = map_memory(memory, nbytes)
        except BaseException:
            close_descriptor(memory)
            raise
        with nogil:
            error = fs_memory_fill(memory, self.start, nbytes)
        checked(error)
        return self

    @staticmethod
    def of_peer(int memory, uint64_t nbytes):
        """What a peer passed. The descriptor is taken over, unless it raises OSError: EPROTO where it is not sealed or
        has another size."""
        checked(fs_memory_check(memory, nbytes))
        return map_memory(memory, nbytes)

    def fileno(self):
        """The descriptor, for the other processes. Raises OSError where the program closed it."""
        if not self.file.is_ours():
            raise OSError(_errno.EBADF, "the program has closed a descriptor of fastsock")
        return self.file.number

    @property
    def address(self):
        """Where it lies."""
        return <uint64_t>self.start

    def __dealloc__(self):
        if self.start != NULL:
            fs_memory_unmap(self.start, self.nbytes)

    def __del__(self):
        if self.file is not None:
            self.file.close()


cdef Memory map_memory(int memory, uint64_t nbytes):
    cdef Memory self = Memory.__new__(Memory)
    cdef int error = 0
    file = OwnedDescriptor(memory)
    with nogil:
        self.start = fs_memory_map(memory, nbytes, &error)
    checked(error if self.start == NULL else 0)
    self.nbytes = nbytes
    self.file = file
    return self


@cython.no_gc_clear  # the memory stays until the last view has gone
cdef class Exporter:
    """Gives memory to the buffer protocol, and counts who has it: one type at a time.

    A subclass says in refusal(kind, writable) why an export is refused: an exception, or None where it is not any more.
    """
    def __del__(self):
        self.going = True

    def refusal(self, kind, bint writable):
        return BufferError("this memory cannot be had in that way now")

    def unreferenced(self):
        """The last export is gone."""

    @cython.critical_section
    def set_memory(self, Memory memory, Py_ssize_t offset, Py_ssize_t nbytes):
        """Only while nothing is exported."""
        if self.exports:
            raise BufferError("exported")
        if memory is not None and not fs_region_is_within(memory.nbytes, offset, nbytes):
            raise ValueError("the region does not lie within the memory")
        self.memory = memory
        self.offset = offset
        self.nbytes = nbytes
        self.process = fs_generation()

    def get_memory(self):
        return self.memory

    def is_inherited(self):
        """Whether a process has it that this one was forked from."""
        return self.process != fs_generation()

    @cython.critical_section
    def close_if_unexported(self, bint readonly_ones_stay=False):
        """Whether nothing was exported (or nothing writable). Then nothing is any more, until it is opened again (or
        only for reading)."""
        if self.closed or (self.writable_exports if readonly_ones_stay else self.exports):
            return False
        if readonly_ones_stay:
            self.readonly = True
        else:
            self.closed = True
        return True

    cdef bint allows(self, object kind, bint writable) except -1:
        if self.closed or self.memory is None or self.process != fs_generation() or writable and self.readonly:
            return False
        return self.exports == 0 or self.is_kind(kind)

    cpdef bint is_kind(self, kind) except -1:
        """Whether the exports that live have that type."""
        if kind is None or self.kind is None:  # for numpy None is a type, float64
            return kind is self.kind
        return kind == self.kind

    @cython.critical_section
    cdef int begin(self, object kind, Py_buffer *buffer, object owner, int flags, bint readonly) except -1:
        cdef bint writable = flags & PyBUF_WRITABLE
        if writable and readonly:
            raise BufferError("the view is read-only")
        while not self.allows(kind, writable):
            error = self.refusal(kind, writable)
            if error is not None:
                raise error
        readonly = readonly or self.readonly
        PyBuffer_FillInfo(buffer, owner, <char *>self.memory.start + self.offset, self.nbytes, readonly, flags)
        self.kind = kind
        self.going = False  # somebody's finalizer has brought it back
        self.exports += 1
        self.writable_exports += not readonly
        return 0

    @cython.critical_section
    cdef bint end(self, bint wrote):
        """Whether somebody is to be told."""
        self.writable_exports -= wrote
        self.exports -= 1
        return self.exports == 0 and not self.going

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        self.begin(None, buffer, self, flags, False)

    def __releasebuffer__(self, Py_buffer *buffer):
        if self.end(not buffer.readonly):
            self.unreferenced()


@cython.final
@cython.no_gc_clear  # the end of a view needs the exporter
cdef class TypedExport:
    """The memory of an exporter, as items of one type."""
    cdef Exporter exporter
    cdef object kind
    cdef bint readonly

    def __init__(self, Exporter exporter not None, kind, bint readonly):
        self.exporter = exporter
        self.kind = kind
        self.readonly = readonly

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        self.exporter.begin(self.kind, buffer, self, flags, self.readonly)

    def __releasebuffer__(self, Py_buffer *buffer):
        if self.exporter.end(not buffer.readonly):
            self.exporter.unreferenced()
