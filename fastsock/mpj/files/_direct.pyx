# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""Open files, natively: their pointers, and the calls that programs make most, straight to the system.

A method of NativeFileCalls does a call where its arguments are simple. All other calls go the general way, by super(),
which also finds the words for errors.
"""
cimport cython
from libc.errno cimport EOVERFLOW
from libc.stdint cimport INT64_MAX, int64_t

from fastsock.mpj._slots cimport record_of
from fastsock.mpj.datatypes._memory cimport Span, buffer, read_span, release_span, whole_number
from fastsock.mpj.files._transfer cimport Places
from fastsock.mpj.messages._status cimport fill_status

import posix as _os

from ..constants import ANY_SOURCE, ANY_TAG
from .calls import EXPLICIT as _EXPLICIT, INDIVIDUAL as _INDIVIDUAL, JOINT as _JOINT

cdef extern from "files/pointer.h" nogil:
    int64_t fs_file_pointer_read(fs_file_pointer *pointer)
    int64_t fs_file_pointer_take(fs_file_pointer *pointer, int64_t count)
    void fs_file_pointer_set(fs_file_pointer *pointer, int64_t place)

cdef int NO_SOURCE = ANY_SOURCE, NO_TAG = ANY_TAG
cdef int EXPLICIT = _EXPLICIT, INDIVIDUAL = _INDIVIDUAL, JOINT = _JOINT


cdef class Seen:
    """What a view says of each access: where its data lie, the bytes of an etype, and whether they are converted."""

    def __init__(self, Places places not None, int64_t unit, bint converts):
        self.places, self.unit, self.converts = places, unit, converts


cdef class Pointer:
    """A place that several move, in etypes: a number in `memory`, where others may write, too. Raises OSError."""

    def __init__(self, memory, Py_ssize_t number):
        self.memory = buffer.frombuffer(memory)
        if not 0 <= number < self.memory.view.len // <Py_ssize_t>sizeof(fs_file_pointer):
            raise ValueError(f"pointer {number} is not in {self.memory.view.len} bytes")
        self.number = <fs_file_pointer *>self.memory.view.buf + number

    def take(self, int64_t count):
        """Moves it by so many; returns where it was."""
        return checked(fs_file_pointer_take(self.number, count))

    def read(self):
        """Returns where it is."""
        return checked(fs_file_pointer_read(self.number))

    def set(self, int64_t place):
        """Moves it there."""
        fs_file_pointer_set(self.number, place)


cdef int64_t checked(int64_t result) except -1:
    if result < 0:
        raise OSError(-result, _os.strerror(-result))
    return result


cdef class Direct:
    """What the calls on an open file look at.

    `descriptor`: -1 once it is closed. `how`: as the core's transfers have it. `pointer`: the one that the members share,
    where they share memory, else None. `refused`: the modes of opening with which there is something to refuse to reads and
    to writes.
    """

    def __init__(self, engine, int descriptor, int how, int amode, pointer, refused, view):
        self.engine, self.descriptor, self.how = engine, descriptor, how
        self.pointer = pointer if isinstance(pointer, Pointer) else None
        self.refused_reads, self.refused_writes = [amode & modes for modes in refused]
        self.current = view

    @property
    def view(self):
        """The view, which never changes: another takes its place."""
        return self.seen()

    @view.setter
    def view(self, Seen view not None):
        with cython.critical_section(self):
            self.current = view

    cdef Seen seen(self):
        cdef Seen view
        with cython.critical_section(self):
            view = self.current
        return view

    @property
    def position(self):
        """The member's own pointer, in etypes."""
        with cython.critical_section(self):
            return self.place

    def refuses(self, bint writing):
        """Whether its mode has something to refuse to an access."""
        return bool(self.refused_writes if writing else self.refused_reads)

    def take(self, int64_t count):
        """Moves the own pointer by so many; returns where it was."""
        cdef int64_t before
        with cython.critical_section(self):
            before = self.place if count <= INT64_MAX - self.place else -EOVERFLOW
            if before >= 0:
                self.place = before + count
        return checked(before)

    def move(self, int64_t before, int64_t after):
        """Moves it from one place to another; whether it was there."""
        return self.replace(before, after)

    cdef bint replace(self, int64_t before, int64_t after):
        cdef bint there
        with cython.critical_section(self):
            there = self.place == before
            if there:
                self.place = after
        return there


cdef inline bint allows(Direct native, bint writing) except -1:
    """Whether nothing is to be said of the file before an access."""
    return native.descriptor >= 0 and not (
        (native.refused_writes if writing else native.refused_reads) or native.atomic or native.engine.closed
    )


@cython.cdivision(True)
cdef bint carried(object self, bint writing, int where, object offset, object buf, object status) except -1:
    """Whether it made an access."""
    cdef object record = record_of(self)
    cdef Direct native = record.direct
    cdef Seen view
    cdef Span span
    cdef int64_t begin = 0, count, moved
    if native is None or not allows(native, writing):
        return False
    if where == EXPLICIT:
        begin = whole_number(offset)
        if begin < 0:
            return False
    elif where == JOINT and native.pointer is None:
        return False
    view = native.seen()
    if view.converts or read_span(buf, &span, not writing, 0) is None:
        return False
    try:
        count = span.view.len // view.unit
        if span.type != NULL or count * view.unit != span.view.len:
            return False
        if where == JOINT:
            begin = checked(fs_file_pointer_take(native.pointer.number, count))
        elif where == INDIVIDUAL:
            begin = native.take(count)
        if begin > INT64_MAX // view.unit:
            raise OSError(EOVERFLOW, _os.strerror(EOVERFLOW))
        if writing:
            moved = view.places.c_write(native.descriptor, begin * view.unit, span.view.buf, span.view.len, native.how)
        else:
            moved = view.places.c_read(native.descriptor, begin * view.unit, span.view.buf, span.view.len, native.how)
        checked(moved)
    except OSError as error:
        raise record.failed(error) from error
    finally:
        release_span(&span)
    if where == INDIVIDUAL and not writing and moved < count * view.unit:
        native.replace(begin + count, begin + moved // view.unit)  # unless somebody moved it since
    if status is not None:
        fill_status(status, NO_SOURCE, NO_TAG, moved)
    return True


class NativeFileCalls:
    """Reads and writes of simple arguments, where the file's bytes are those in memory."""

    __slots__ = ()

    def Read_at(self, offset, buf, status=None):
        """Read at an offset, which counts etypes of the view. The status tells how much there was.

        Raises MPI.Exception: ERR_ACCESS where the file is open with MODE_WRONLY, ERR_TYPE for a part of an etype,
        ERR_ARG for a negative offset, ERR_IO and others as the system refuses it.
        """
        if not carried(self, False, EXPLICIT, offset, buf, status):
            super().Read_at(offset, buf, status)

    def Write_at(self, offset, buf, status=None):
        """Write at an offset, which counts etypes of the view.

        Raises MPI.Exception: ERR_READ_ONLY where the file is open with MODE_RDONLY, ERR_NO_SPACE where the disk is
        full, else as `Read_at`.
        """
        if not carried(self, True, EXPLICIT, offset, buf, status):
            super().Write_at(offset, buf, status)

    def Read(self, buf, status=None):
        """Read at the own pointer, and move it behind what was read. Raises as `Read_at`."""
        if not carried(self, False, INDIVIDUAL, None, buf, status):
            super().Read(buf, status)

    def Write(self, buf, status=None):
        """Write at the own pointer, and move it behind what was written. Raises as `Write_at`."""
        if not carried(self, True, INDIVIDUAL, None, buf, status):
            super().Write(buf, status)

    def Read_shared(self, buf, status=None):
        """Read at the shared pointer, and move it by all that is asked for. Raises as `Read_at`."""
        if not carried(self, False, JOINT, None, buf, status):
            super().Read_shared(buf, status)

    def Write_shared(self, buf, status=None):
        """Write at the shared pointer, and move it behind that. Raises as `Write_at`."""
        if not carried(self, True, JOINT, None, buf, status):
            super().Write_shared(buf, status)
