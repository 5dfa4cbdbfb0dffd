# The class of buffers: any contiguous memory by address and length.
from cpython.bytearray cimport PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.string cimport memmove, memset


@cython.final
cdef class buffer:
    """Contiguous memory of any object, by address and length in bytes; mpi4py's class of this name."""

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
        """Return new memory of so many bytes; `clear`: zeros. Raises ValueError where the number is negative."""
        cdef Py_ssize_t size = nbytes
        if size < 0:
            raise ValueError("expecting non-negative size")
        owner = bytearray(size) if clear else PyByteArray_FromStringAndSize(NULL, size)
        return _new(owner, PyBUF_WRITABLE)

    @staticmethod
    def frombuffer(obj, readonly=False):
        """Return the memory of an object. Raises TypeError or BufferError where it cannot be had."""
        cdef buffer self = _new(obj, PyBUF_SIMPLE if readonly else PyBUF_WRITABLE)
        self.view.readonly = bool(readonly)
        return self

    @staticmethod
    def fromaddress(address, nbytes, readonly=False):
        """Return the memory at an address, of so many bytes. Raises ValueError for a negative length, or for NULL."""
        cdef Py_ssize_t size = nbytes
        cdef uintptr_t place = address
        if size < 0:
            raise ValueError("expecting non-negative buffer length")
        if size > 0 and place == 0:
            raise ValueError("expecting non-NULL address")
        return _part(None, <void *>place, size, readonly)

    @property
    def address(self):
        """The address."""
        with cython.critical_section(self):
            return <uintptr_t>self.view.buf

    @property
    def obj(self):
        """The object that has the memory."""
        with cython.critical_section(self):
            if self.view.obj == NULL:
                return None
            return <object>self.view.obj

    @property
    def nbytes(self):
        """The length in bytes."""
        return self.view.len

    @property
    def readonly(self):
        """Whether the memory is read-only."""
        return bool(self.view.readonly)

    @property
    def format(self):
        """The format of an element, as the buffer protocol writes it."""
        with cython.critical_section(self):
            return "B" if self.view.format == NULL else self.view.format.decode()

    @property
    def itemsize(self):
        """The length of an element in bytes."""
        return self.view.itemsize

    def cast(self, format, shape=...):
        """Return a `memoryview` of another format or shape."""
        self._check()
        view = PyMemoryView_FromObject(self)
        return view.cast(format) if shape is ... else view.cast(format, shape)

    @cython.critical_section
    def tobytes(self, order=None):
        """Return a copy of the bytes."""
        self._check()
        return PyBytes_FromStringAndSize(<char *>self.view.buf, self.view.len)

    @cython.critical_section
    def toreadonly(self):
        """Return the same memory, read-only."""
        cdef buffer other
        if self.view.obj == NULL or not PyObject_CheckBuffer(<object>self.view.obj):
            return _part(self, self.view.buf, self.view.len, True)
        other = _new(<object>self.view.obj, PyBUF_SIMPLE)
        other.view.buf = self.view.buf
        other.view.len = self.view.len
        other.view.readonly = True
        return other

    @cython.critical_section
    def release(self):
        """Let go of the memory."""
        PyBuffer_Release(&self.view)
        PyBuffer_FillInfo(&self.view, NULL, NULL, 0, 0, PyBUF_SIMPLE)
        self._format = None
        self.device = False

    def __getbuffer__(self, Py_buffer *view, int flags):
        with cython.critical_section(self):
            PyBuffer_FillInfo(view, <PyObject *>self, self.view.buf, self.view.len, self.view.readonly, flags)

    def __len__(self):
        """Return the number of bytes."""
        return self.view.len

    def __getitem__(self, item):
        """Return a byte as an integer, or a part that shares the memory."""
        cdef Py_ssize_t start, length
        self._check()
        with cython.critical_section(self):
            if PyIndex_Check(item):
                start = self._index(item)
                return (<unsigned char *>self.view.buf)[start]
            start, length = self._slice(item)
            return _part(self, <char *>self.view.buf + start, length, self.view.readonly)

    def __setitem__(self, item, value):
        """Set a byte, or the bytes of a part."""
        self._check()
        if self.view.readonly:
            raise TypeError("buffer is read-only")
        cdef Py_ssize_t start, length
        cdef unsigned char byte = 0
        cdef buffer source = None
        # what may run code of the program comes first
        if PyIndex_Check(item) or PyIndex_Check(value) and not PyObject_CheckBuffer(value):
            byte = value
        else:
            source = _new(value, PyBUF_ANY_CONTIGUOUS)
        with cython.critical_section(self):
            if PyIndex_Check(item):
                start, length = self._index(item), 1
            else:
                start, length = self._slice(item)
            if source is None:
                memset(<char *>self.view.buf + start, byte, length)
            elif source.view.len != length:
                raise ValueError("slice length does not match buffer")
            else:
                memmove(<char *>self.view.buf + start, source.view.buf, length)

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
        if max(start, stop) > self.view.len:  # released while the slice told its ends
            raise IndexError("index out of range")
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
    from .foreign import buffer_of  # circle: the other half of this module, in Python: it makes memory of what is here
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


cdef buffer memory_at(void *address, Py_ssize_t length, bint readonly):
    return _part(None, address, length, readonly)


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
    try:
        return _new(source, flags)
    except ValueError as error:  # numpy's, where others raise BufferError
        if not PyObject_CheckBuffer(source):
            raise
        raise BufferError(str(error)) from error


def is_buffer(source):
    """Returns whether an object exports the buffer protocol."""
    return PyObject_CheckBuffer(source)


def format_of(buffer memory not None):
    """Returns what is known of a buffer's elements, as the buffer protocol writes it; empty where nothing is."""
    with cython.critical_section(memory):
        return "" if memory.view.format == NULL else memory.view.format.decode()


def part(buffer whole not None, Py_ssize_t offset, Py_ssize_t length):
    """Returns `length` bytes of a buffer from `offset` on. The caller has checked both."""
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
