# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=False
"""Memory: any contiguous buffer by address and length, the constants that stand for buffers, copies with gaps."""
cimport cython
from cpython.bytearray cimport PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromObject
from cpython.number cimport PyIndex_Check
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memmove, memset

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

cdef extern from "strided.h" nogil:
    struct fs_run:
        int64_t offset
        int64_t length
    void fs_pack(unsigned char *packed, const unsigned char *origin, const fs_run *runs, int64_t count,
                 int64_t extent, int64_t start, int64_t size)
    void fs_unpack(const unsigned char *packed, unsigned char *origin, const fs_run *runs, int64_t count,
                   int64_t extent, int64_t start, int64_t size)

cdef extern from "<sys/uio.h>" nogil:
    struct iovec:
        void *iov_base
        size_t iov_len
    Py_ssize_t process_vm_readv(int, const iovec *, unsigned long, const iovec *, unsigned long, unsigned long)

cdef extern from "<unistd.h>" nogil:
    int getpid()

# Of dlpack.h.
ctypedef struct Device:
    int32_t kind
    int32_t number

ctypedef struct Number:
    uint8_t code
    uint8_t bits
    uint16_t lanes

ctypedef struct Tensor:
    void *data
    Device device
    int32_t ndim
    Number dtype
    int64_t *shape
    int64_t *strides
    uint64_t byte_offset

ctypedef struct Versioned:
    uint32_t major
    uint32_t minor
    void *manager
    void *deleter
    uint64_t flags
    Tensor tensor

cdef uint64_t TENSOR_READ_ONLY = 1

cdef extern from *:
    """
    #include <stddef.h>
    enum { LONG_DOUBLE_SIZE_ = sizeof(long double), LONG_DOUBLE_ALIGNMENT_ = _Alignof(long double),
           WCHAR_SIZE_ = sizeof(wchar_t) };
    """
    enum: LONG_DOUBLE_SIZE_
    enum: LONG_DOUBLE_ALIGNMENT_
    enum: WCHAR_SIZE_

LONG_DOUBLE_SIZE = LONG_DOUBLE_SIZE_
LONG_DOUBLE_ALIGNMENT = LONG_DOUBLE_ALIGNMENT_
WCHAR_SIZE = WCHAR_SIZE_

cdef Py_ssize_t LONG_COPY = 32 * 1024   # from here the interpreter's lock is given up for a copy
PUBLIC = "fastsock.mpj.MPI"


@cython.final
cdef class buffer:
    """Buffer."""

    def __cinit__(self, *args):
        if args:
            _fill(self, args[0], PyBUF_SIMPLE)
        else:
            PyBuffer_FillInfo(&self.view, NULL, NULL, 0, 0, PyBUF_SIMPLE)

    def __init__(self, obj=None, /):
        pass

    def __dealloc__(self):
        PyBuffer_Release(&self.view)

    @staticmethod
    def allocate(nbytes, clear=False):
        """Buffer allocation."""
        cdef Py_ssize_t size = nbytes
        if size < 0:
            raise ValueError("expecting non-negative size")
        owner = bytearray(size) if clear else PyByteArray_FromStringAndSize(NULL, size)
        return _new(owner, PyBUF_WRITABLE)

    @staticmethod
    def frombuffer(obj, readonly=False):
        """Buffer from buffer-like object."""
        cdef buffer self = _new(obj, PyBUF_SIMPLE if readonly else PyBUF_WRITABLE)
        self.view.readonly = bool(readonly)
        return self

    @staticmethod
    def fromaddress(address, nbytes, readonly=False):
        """Buffer from address and size in bytes."""
        cdef Py_ssize_t size = nbytes
        cdef uintptr_t place = address
        if size < 0:
            raise ValueError("expecting non-negative buffer length")
        if size > 0 and place == 0:
            raise ValueError("expecting non-NULL address")
        return _part(None, <void *>place, size, readonly)

    @property
    def address(self):
        """Buffer address."""
        return <uintptr_t>self.view.buf

    @property
    def obj(self):
        """Object exposing buffer."""
        if self.view.obj == NULL:
            return None
        return <object>self.view.obj

    @property
    def nbytes(self):
        """Buffer size (in bytes)."""
        return self.view.len

    @property
    def readonly(self):
        """Buffer is read-only."""
        return bool(self.view.readonly)

    @property
    def format(self):
        """Format of each element."""
        return "B" if self.view.format == NULL else self.view.format.decode()

    @property
    def itemsize(self):
        """Size (in bytes) of each element."""
        return self.view.itemsize

    def cast(self, format, shape=...):
        """Cast to a `memoryview` with new format or shape."""
        self._check()
        view = PyMemoryView_FromObject(self)
        return view.cast(format) if shape is ... else view.cast(format, shape)

    def tobytes(self, order=None):
        """Return the data in the buffer as a byte string."""
        self._check()
        return PyBytes_FromStringAndSize(<char *>self.view.buf, self.view.len)

    def toreadonly(self):
        """Return a readonly version of the buffer object."""
        cdef buffer other
        if self.view.obj == NULL or not PyObject_CheckBuffer(<object>self.view.obj):
            return _part(self, self.view.buf, self.view.len, True)
        other = _new(<object>self.view.obj, PyBUF_SIMPLE)
        other.view.buf = self.view.buf
        other.view.len = self.view.len
        other.view.readonly = True
        return other

    def release(self):
        """Release the underlying buffer exposed by the buffer object."""
        PyBuffer_Release(&self.view)
        PyBuffer_FillInfo(&self.view, NULL, NULL, 0, 0, PyBUF_SIMPLE)
        self._format = None
        self.device = False

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, <PyObject *>self, self.view.buf, self.view.len, self.view.readonly, flags)

    def __len__(self):
        """Return the number of bytes."""
        return self.view.len

    def __getitem__(self, item):
        """Return a byte as an integer, or a part that shares the memory."""
        cdef Py_ssize_t start, length
        self._check()
        cdef unsigned char *bytes_ = <unsigned char *>self.view.buf
        if PyIndex_Check(item):
            return bytes_[self._index(item)]
        start, length = self._slice(item)
        return _part(self, bytes_ + start, length, self.view.readonly)

    def __setitem__(self, item, value):
        """Set a byte, or the bytes of a part."""
        self._check()
        if self.view.readonly:
            raise TypeError("buffer is read-only")
        cdef unsigned char *bytes_ = <unsigned char *>self.view.buf
        cdef Py_ssize_t start, length
        cdef buffer source
        if PyIndex_Check(item):
            bytes_[self._index(item)] = value
            return
        start, length = self._slice(item)
        if PyIndex_Check(value) and not PyObject_CheckBuffer(value):
            memset(bytes_ + start, <unsigned char>value, length)
            return
        source = _new(value, PyBUF_ANY_CONTIGUOUS)
        if source.view.len != length:
            raise ValueError("slice length does not match buffer")
        memmove(bytes_ + start, source.view.buf, length)

    cdef int _check(self) except -1:
        if self.device:
            raise BufferError("buffer is not CPU-accessible")
        return 0

    cdef Py_ssize_t _index(self, item) except -1:
        cdef Py_ssize_t index = item
        if index < 0:
            index += self.view.len
        if index < 0 or index >= self.view.len:
            raise IndexError("index out of range")
        return index

    cdef _slice(self, item):
        if not isinstance(item, slice):
            raise TypeError("index must be integer or slice")
        start, stop, step = item.indices(self.view.len)
        if step != 1:
            raise IndexError("slice with step not supported")
        return start, max(stop - start, 0)


memory = buffer


cdef buffer _new(object source, int flags):
    cdef buffer self = buffer.__new__(buffer)
    _fill(self, source, flags)
    return self


cdef int _fill(buffer self, object source, int flags) except -1:
    """Makes `self` the memory of an object; one that speaks no buffer protocol may speak another (see foreign.py)."""
    if PyObject_CheckBuffer(source):
        return PyObject_GetBuffer(source, &self.view, flags)
    from .foreign import buffer_of
    cdef buffer found = buffer_of(source, (flags & PyBUF_WRITABLE) != PyBUF_WRITABLE)
    if found is None:
        return PyObject_GetBuffer(source, &self.view, flags)   # raises
    self.view = found.view
    self.view.obj = <PyObject *>found
    Py_INCREF(found)
    self.device = found.device
    return 0


# `owner` is kept alive and must not count its exports: this goes past its own way of exporting.
cdef buffer _part(object owner, void *address, Py_ssize_t length, bint readonly):
    cdef buffer self = buffer.__new__(buffer)
    PyBuffer_FillInfo(&self.view, NULL if owner is None else <PyObject *>owner, address, length, readonly, PyBUF_SIMPLE)
    return self


cpdef buffer acquire(source, bint readonly, bint want_format):
    """Returns a `buffer` of any contiguous object; raises TypeError or BufferError where that cannot be had."""
    cdef int flags = PyBUF_ANY_CONTIGUOUS
    if type(source) is buffer:
        if (<buffer>source).view.readonly and not readonly:
            raise BufferError("Object is not writable")
        return source
    if not readonly:
        flags |= PyBUF_WRITABLE
    if want_format:
        flags |= PyBUF_FORMAT
    return _new(source, flags)


def format_of(buffer memory not None):
    """Returns what is known of a buffer's elements, as the buffer protocol writes it; empty where nothing is."""
    return "" if memory.view.format == NULL else memory.view.format.decode()


def part(buffer whole not None, Py_ssize_t offset, Py_ssize_t length):
    """Returns `length` bytes of a buffer from `offset` on, which both the caller has checked."""
    return _part(whole, <char *>whole.view.buf + offset, length, whole.view.readonly)


def describe(source, str format, Py_ssize_t itemsize, address, Py_ssize_t nbytes, bint readonly, bint device):
    """Returns a buffer of foreign memory whose elements are known; it keeps `source` alive."""
    cdef uintptr_t place = address
    cdef buffer self = _part(source, <void *>place, nbytes, readonly)
    if format:
        self._format = format.encode()
        self.view.format = self._format
        self.view.itemsize = itemsize
    self.device = device
    return self


def tensor(capsule, bint versioned):
    """Returns what a capsule of DLPack tells, or None where it is none that may be used.

    (address, shape, strides or None, (code, bits, lanes), whether it is read-only, major version or None)
    """
    cdef const char *name = b"dltensor_versioned" if versioned else b"dltensor"
    cdef Versioned *whole
    cdef Tensor *found
    cdef bint readonly = False
    major = None
    if not PyCapsule_IsValid(capsule, name):
        return None
    if versioned:
        whole = <Versioned *>PyCapsule_GetPointer(capsule, name)
        major = whole.major
        if major < 1:
            return 0, (), None, (0, 8, 1), False, major
        readonly = (whole.flags & TENSOR_READ_ONLY) != 0
        found = &whole.tensor
    else:
        found = <Tensor *>PyCapsule_GetPointer(capsule, name)
    if found.ndim < 0:
        raise BufferError("dlpack: number of dimensions is negative")
    if found.ndim > 0 and found.shape == NULL:
        raise BufferError("dlpack: shape is NULL")
    shape = tuple([found.shape[i] for i in range(found.ndim)])
    strides = None if found.strides == NULL else tuple([found.strides[i] for i in range(found.ndim)])
    kind = found.dtype.code, found.dtype.bits, found.dtype.lanes
    return <uintptr_t>found.data + found.byte_offset, shape, strides, kind, readonly, major


def is_readable(uintptr_t address, Py_ssize_t nbytes):
    """Returns whether the processor can read the first and the last byte of this memory."""
    cdef char byte = 0
    cdef iovec here, there
    here.iov_base = &byte
    here.iov_len = there.iov_len = 1
    if nbytes <= 0:
        return True
    for place in (address, address + nbytes - 1):
        there.iov_base = <void *><uintptr_t>place
        if process_vm_readv(getpid(), &here, 1, &there, 1, 0) != 1:
            return False
    return True


def is_buffer(source):
    """Returns whether an object exports the buffer protocol."""
    return PyObject_CheckBuffer(source)


cdef class Simple:
    """`count` items of a datatype, one after another from `address` on; `owner` is the buffer of that memory."""

    def __init__(self, uintptr_t address, Py_ssize_t count, datatype, owner):
        self.address = address
        self.count = count
        self.datatype = datatype
        self.owner = owner


# What buffers.py is asked where the arguments are not of the usual kind.
cdef object _Datatype = None
cdef dict _codes = {}
cdef dict _formats = {}
cdef object _general = None
cdef object _outgoing = None
cdef object _landing = None


def configure(datatype_class, dict codes, dict formats, general, outgoing_packed, landing_packed):
    """Tells this module what it cannot import: the class Datatype, types by code, the rules for rarer arguments."""
    global _Datatype, _codes, _formats, _general, _outgoing, _landing
    _Datatype, _codes, _formats = datatype_class, codes, formats
    _general, _outgoing, _landing = general, outgoing_packed, landing_packed


cdef list _by_letter = [None] * 128


cdef object _of_format(const char *format):
    cdef unsigned char letter = format[0]
    if letter == 0 or format[1] != 0 or letter >= 128:
        return _formats.get(format.decode())
    found = _by_letter[letter]
    if found is None:
        found = _by_letter[letter] = _formats.get(format.decode())
    return found


cpdef Simple simple(message, bint readonly, Py_ssize_t blocks=0):
    """Reads a message argument; buffers.py has the rules. The usual ones are read here: a buffer, or [buf(, n), type]."""
    cdef object where = message, datatype = None
    cdef Py_ssize_t count = -1, size, length
    cdef Py_ssize_t parts
    cdef buffer memory
    if type(message) is list or type(message) is tuple:
        parts = len(message)
        if parts < 2 or parts > 3:
            return _general(message, readonly, blocks)
        where = message[0]
        datatype = message[parts - 1]
        if type(datatype) is str:
            datatype = _codes.get(datatype)
        if type(datatype) is not _Datatype:
            return _general(message, readonly, blocks)
        if parts == 3:
            if type(message[1]) is not int:
                return _general(message, readonly, blocks)
            count = message[1]
            if count < 0:
                return _general(message, readonly, blocks)
    if not PyObject_CheckBuffer(where) or where is BOTTOM:
        return _general(message, readonly, blocks)
    memory = acquire(where, readonly, datatype is None)
    if datatype is None:
        if memory.view.format == NULL:
            datatype = _formats[""]
        else:
            datatype = _of_format(memory.view.format)
            if datatype is None:
                return _general(message, readonly, blocks)
    record = datatype.ob
    size = record.size
    if size <= 0 or not record.dense:
        return _general(message, readonly, blocks)
    length = memory.view.len
    if count < 0:
        count = length // size
        if count * size != length:
            return _general(message, readonly, blocks)
        if blocks > 1:
            if count % blocks:
                return _general(message, readonly, blocks)
            count //= blocks
    elif count > length // size // (blocks if blocks > 1 else 1):
        return _general(message, readonly, blocks)
    cdef Simple found = Simple.__new__(Simple)
    found.address = <uintptr_t>memory.view.buf
    found.count = count
    found.datatype = datatype
    found.owner = memory
    return found


cdef Py_ssize_t dense_bytes(object datatype, Py_ssize_t count) except -2:
    record = datatype.ob
    if not record.dense:
        return -1
    return <Py_ssize_t>record.size * count


def outgoing(uintptr_t address, Py_ssize_t count, datatype):
    """Returns the data of items as contiguous bytes to send: the memory itself where the type is dense."""
    cdef Py_ssize_t size = dense_bytes(datatype, count)
    if size > 0:
        return _part(None, <void *>address, size, False)
    return _outgoing(address, count, datatype)


def landing(uintptr_t address, Py_ssize_t count, datatype):
    """Returns contiguous bytes to receive into, and what to call with the number of bytes that arrived there.

    That is None where the type is dense: then the bytes are the memory itself.
    """
    cdef Py_ssize_t size = dense_bytes(datatype, count)
    if size > 0:
        return _part(None, <void *>address, size, False), None
    return _landing(address, count, datatype)


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


cdef class _Place:
    """A constant that stands for a buffer."""

    cdef uintptr_t _address(self):
        return 0

    cdef str _name(self):
        return ""

    def __bool__(self):
        """Return bool(self)."""
        return self._address() != 0

    def __int__(self):
        """Return int(self)."""
        return self._address()

    def __hash__(self):
        """Return hash(self)."""
        return hash(int(self))

    def __eq__(self, other):
        """Return self==value."""
        if type(other) is type(self):
            return True
        if not PyIndex_Check(other):
            return NotImplemented
        return self._address() == int(other)

    def __ne__(self, other):
        """Return self!=value."""
        if type(other) is type(self):
            return False
        if not PyIndex_Check(other):
            return NotImplemented
        return self._address() != int(other)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, NULL, <void *>self._address(), 0, 0, flags)

    def __repr__(self):
        """Return repr(self)."""
        return self._name()

    def __reduce__(self):
        """Pickle by name."""
        return self._name()


@cython.final
cdef class BottomType(_Place):
    """Type of `BOTTOM`."""

    cdef str _name(self):
        return "BOTTOM"

    def __index__(self):
        """Return the address."""
        return 0


@cython.final
cdef class InPlaceType(_Place):
    """Type of `IN_PLACE`."""

    cdef uintptr_t _address(self):
        return 1

    cdef str _name(self):
        return "IN_PLACE"


@cython.final
cdef class BufferAutomaticType(_Place):
    """Type of `BUFFER_AUTOMATIC`."""

    cdef uintptr_t _address(self):
        return 2

    cdef str _name(self):
        return "BUFFER_AUTOMATIC"


BOTTOM = BottomType()
IN_PLACE = InPlaceType()
BUFFER_AUTOMATIC = BufferAutomaticType()
