# Buffers that go from process to process: their memory, who looks at it, the book of loans, what is said of them.
from cpython.buffer cimport PyBuffer_FillInfo

PARCEL_BYTES = FS_PARCEL_BYTES
MEMO_BYTES = FS_MEMO_BYTES
LEDGER_SLOTS = FS_LEDGER_SLOTS
LEDGER_BYTES = fs_ledger_bytes()
LOAN_RETURNED = FS_LOAN_RETURNED
PARCEL_COPY, PARCEL_HAND, PARCEL_LEND = FS_PARCEL_COPY, FS_PARCEL_HAND, FS_PARCEL_LEND
MEMO_HELLO, MEMO_MEMORY, MEMO_FORGET = FS_MEMO_HELLO, FS_MEMO_MEMORY, FS_MEMO_FORGET


@cython.final
cdef class Memory:
    """Sealed memory, mapped. It is unmapped, and its descriptor closed, when the last reference is gone."""
    cdef void *start
    cdef readonly Py_ssize_t nbytes
    cdef readonly object file  # a Hidden
    cdef object __weakref__

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
    file = Hidden(memory)
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
    cdef Memory memory
    cdef readonly Py_ssize_t nbytes, offset
    cdef readonly Py_ssize_t exports           # that live
    cdef readonly Py_ssize_t writable_exports  # of these
    cdef readonly object kind                  # of the exports that live: a dtype; None for bytes
    cdef public bint closed                    # to new exports; refusal() has the reason
    cdef public bint readonly                  # as far as new exports go
    cdef uint32_t process
    cdef bint going                            # with all that it knows: nobody is told of the last export
    cdef object __weakref__

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


@cython.final
cdef class Ledger:
    """The book of the loans between two processes. A loan has a slot, and a serial that tells it from others there."""
    cdef Memory memory

    def __init__(self, Memory memory not None):
        if memory.nbytes != <Py_ssize_t>fs_ledger_bytes():
            raise ValueError("no ledger has such a size")
        self.memory = memory

    cdef fs_ledger *at(self, uint32_t slot) except NULL:
        if slot >= FS_LEDGER_SLOTS:
            raise ValueError("no loan has such a slot")
        return <fs_ledger *>self.memory.start

    def send(self, uint32_t slot, uint64_t serial, uint32_t connection):
        """The owner lends."""
        fs_ledger_send(self.at(slot), slot, serial, connection)

    def state(self, uint32_t slot, uint64_t serial):
        """A state: LOAN_RETURNED or another; -1 where the other process wrote what this loan cannot have."""
        return fs_ledger_state(self.at(slot), slot, serial)

    def news(self):
        """Changes with each return."""
        return fs_ledger_news(self.at(0))

    def wait(self, uint32_t seen, double seconds):
        """Until news() is not `seen`, or the seconds are over. Signals are heard."""
        cdef fs_ledger *ledger = self.at(0)
        cdef uint64_t limit = <uint64_t>(seconds * 1e9)
        with nogil:
            fs_ledger_wait(ledger, seen, limit)
        PyErr_CheckSignals()

    def decline(self, uint32_t connection):
        """Gives back what came over that connection and was not taken; how many."""
        return fs_ledger_decline(self.at(0), connection)


def pack_parcel(uint32_t kind, uint64_t length, uint64_t offset=0, uint64_t desk=0, uint64_t link=0, uint32_t number=0,
               uint32_t slot=0, uint64_t serial=0):
    """The bytes that say in the stream that a buffer comes."""
    cdef unsigned char bytes_[FS_PARCEL_BYTES]
    cdef fs_parcel parcel
    parcel.kind, parcel.length, parcel.offset, parcel.desk, parcel.link = kind, length, offset, desk, link
    parcel.number, parcel.slot, parcel.serial = number, slot, serial
    fs_parcel_put(bytes_, &parcel)
    return PyBytes_FromStringAndSize(<char *>bytes_, FS_PARCEL_BYTES)


def unpack_parcel(bytes data not None):
    """(kind, length, offset, desk, link, number, slot, serial). Raises ValueError: what is wrong with it."""
    cdef fs_parcel parcel
    cdef const char *wrong
    if len(data) != FS_PARCEL_BYTES:
        raise ValueError("these bytes are no buffer")
    wrong = fs_parcel_take(<const unsigned char *>PyBytes_AS_STRING(data), &parcel)
    if wrong != NULL:
        raise ValueError(wrong.decode())
    return (parcel.kind, parcel.length, parcel.offset, parcel.desk, parcel.link, parcel.number, parcel.slot, parcel.serial)


def pack_memo(uint32_t kind, uint64_t link, uint64_t size=0, uint32_t number=0):
    """The bytes of a memo beside the stream."""
    cdef unsigned char bytes_[FS_MEMO_BYTES]
    cdef fs_memo memo
    memo.kind, memo.link, memo.size, memo.number = kind, link, size, number
    fs_memo_put(bytes_, &memo)
    return PyBytes_FromStringAndSize(<char *>bytes_, FS_MEMO_BYTES)


def unpack_memo(bytes data not None):
    """(kind, link, size, number). Raises ValueError: what is wrong with it."""
    cdef fs_memo memo
    cdef const char *wrong = fs_memo_take(<const unsigned char *>PyBytes_AS_STRING(data), len(data), &memo)
    if wrong != NULL:
        raise ValueError(wrong.decode())
    return memo.kind, memo.link, memo.size, memo.number
