# cython: language_level=3, freethreading_compatible=True
"""The packer of sets, arrays and other memory, times, numbers and what else the libraries have."""
cimport cython
from fastsock.rmi.codec._format cimport *
from fastsock.rmi.codec._memory cimport copy_in, is_utc, store_32, store_clock, store_date, store_double
from fastsock.rmi.codec._type_table cimport PATHS, load_numpy, plain_codes

import sys

from fastsock.rmi.errors import NotPackable


cdef class SpecialPacker(ValuePacker):
    """Packs the types of the standard library and of numpy that have forms of their own, but for exceptions."""

    @cython.final
    cdef int write_special(self, object value, object kind, int tag) except -1:
        if tag == ARRAY:
            self.write_numbered(value, tag)
        elif tag in (SET, FROZENSET):
            self.write_set(value, tag)
        elif tag in (BYTEARRAY, VIEW, TYPED_ARRAY):
            self.write_numbered(value, tag)
        elif tag == DATETIME:
            self.put(tag)
            store_date(self.data, self.at, value)
            store_clock(self.data, self.at + 4, value)
            self.at += 11
            self.write_inner(value.tzinfo)
        elif tag == DATE:
            self.put(tag)
            store_date(self.data, self.at, value)
            self.at += 4
        elif tag == TIME:
            self.put(tag)
            store_clock(self.data, self.at, value)
            self.at += 7
            self.write_inner(value.tzinfo)
        elif tag == TIMEDELTA:
            self.put(tag)
            store_32(self.data, self.at, value.days)
            store_32(self.data, self.at + 4, value.seconds)
            store_32(self.data, self.at + 8, value.microseconds)
            self.at += 12
        elif tag == TIMEZONE:
            if is_utc(value):
                self.put(UTC)
            else:
                self.put(tag)
                self.write_inner(value.__getinitargs__())
        elif tag == ZONE:
            if value.key is None:
                raise NotPackable("a ZoneInfo made from a file has no key by which another process could find it")
            self.put(tag)
            self.write_str(value.key)
        elif tag == COMPLEX:
            self.put(tag)
            store_double(self.data, self.at, value.real)
            store_double(self.data, self.at + 8, value.imag)
            self.at += 16
        elif tag == DECIMAL:
            text = str(value).encode("ascii")
            self.put(tag)
            self.put_bytes(text, len(text))
        elif tag == FRACTION:
            self.put(tag)
            self.write_int(value.numerator)
            self.ready()
            self.write_int(value.denominator)
        elif tag == UUID:
            self.put(tag)
            copy_in(self.data, self.at, value.int.to_bytes(16, "little"), 16)
            safe = value.is_safe.value
            self.data[self.at + 16] = 1 if safe is None else safe & 0xFF
            self.at += 17
        elif tag == PATH:
            self.put(tag)
            self.put(PATHS.index(kind.__name__))
            self.write_str(str(value))
        elif tag in (RANGE, SLICE):
            self.put(tag)
            self.write_inner(value.start)
            self.write_inner(value.stop)
            self.write_inner(value.step)
        elif tag in (ELLIPSIS, NOT_IMPLEMENTED):
            self.put(tag)
        elif tag == SCALAR:
            self.write_scalar(value, kind)
        elif tag == DTYPE:
            self.write_dtype(value)
        else:
            raise AssertionError(tag)

    @cython.final
    cdef int write_set(self, object values, int tag) except -1:
        cdef Py_ssize_t before
        if tag == SET:
            if not self.is_again(values):
                self.count += 1
                self.put_set(values, tag)
        elif not self.was_written(values):
            before = self.at
            self.put_set(values, tag)
            self.end_tuple(values, before)

    @cython.final
    cdef int put_set(self, object values, int tag) except -1:
        cdef Py_ssize_t count = len(values)
        self.put(tag)
        self.put_length(count)
        self.enter()
        for item in values:
            self.write(item)
            count -= 1
        if count:
            raise RuntimeError("a set changed while it was packed")
        self.leave()

    @cython.final
    cdef int write_inner(self, object value) except -1:
        """What a value of another form holds."""
        self.enter()
        self.write(value)
        self.leave()

    @cython.final
    cdef int write_numbered(self, object value, int tag) except -1:
        """One that holds memory, no other values."""
        if not self.is_again(value):
            self.count += 1
            if tag == ARRAY:
                self.write_array(value)
            elif tag == BYTEARRAY:
                self.write_memory(value, len(value), True)
            elif tag == TYPED_ARRAY:
                self.put(tag)
                self.put(ord(value.typecode))
                self.put(value.itemsize)
                self.put(sys.byteorder == "big")
                self.write_memory(value, len(value) * value.itemsize, False)
            else:
                self.write_view(value)

    @cython.final
    cdef int write_memory(self, object value, Py_ssize_t size, bint changes) except -1:
        if size < SEGMENT or not self.lends_memory:
            self.put(BYTEARRAY if changes else BYTES)
            self.put_bytes(value, size)
        else:
            self.put(BYTEARRAY_SEGMENT if changes else BYTES_SEGMENT)
            self.put_segment(memoryview(value).cast("B"), size, BYTEARRAY_OBJECT if changes else BYTES_OBJECT)

    @cython.final
    cdef int write_view(self, object value) except -1:
        if len(value.format.lstrip("@")) != 1 or value.ndim == 0 or value.format == "P":
            raise NotPackable(
                f"a memoryview of format {value.format!r} and {value.ndim} dimensions cannot be sent: "
                "send numpy.asarray(view), or view.tobytes()"
            )
        self.put(VIEW)
        self.put(value.readonly)
        self.write_str(value.format)
        self.ready()
        self.put_length(value.ndim)
        for extent in value.shape or ():
            self.ready()
            self.put_length(extent)
        self.ready()
        if value.c_contiguous:
            self.write_memory(value.cast("B") if value.nbytes else b"", value.nbytes, not value.readonly)
        else:
            self.write_memory(value.tobytes(), value.nbytes, not value.readonly)

    @cython.final
    cdef int write_array(self, object value) except -1:
        """The memory of a numpy array, after its type and shape."""
        cdef Py_ssize_t size
        cdef int code
        cdef bint lent
        flags = value.flags
        cdef bint fortran = False
        plain = value
        if not flags.c_contiguous:
            if flags.f_contiguous:
                plain = value.T
                fortran = True
            else:
                plain = load_numpy().ascontiguousarray(value)
        shape = value.shape
        size = value.nbytes
        lent = size >= SEGMENT and self.lends_memory
        code = plain_codes.get(value.dtype, NEW)
        if code >= 0:
            self.put(ARRAY_SEGMENT if lent else ARRAY)
            self.put(code | FORTRAN if fortran else code)
            self.put(len(shape))
            for extent in shape:
                self.ready()
                self.put_length(extent)
        else:
            header = _header_of(value.dtype, shape, fortran)
            self.put(ARRAY_DESCRIBED_SEGMENT if lent else ARRAY_DESCRIBED)
            self.put_bytes(header, len(header))
            if size:
                plain = plain.reshape(-1).view("u1")
        if lent:
            self.put_segment(memoryview(plain).cast("B"), size, MEMORY)
        elif size:
            if self.room - self.at < size:
                self.grow(size)
            copy_in(self.data, self.at, plain, size)
            self.at += size

    @cython.final
    cdef int write_scalar(self, object value, object kind) except -1:
        numpy = load_numpy()
        self.put(SCALAR)
        if kind is numpy.str_:
            self.write_str(str(value))
        elif kind is numpy.bytes_:
            self.write_bytes(bytes(value))
        else:
            self.write_array(numpy.asarray(value))

    @cython.final
    cdef int write_dtype(self, object value) except -1:
        header = _header_of(value, (0,), False)
        self.put(DTYPE)
        self.put_bytes(header, len(header))


def _header_of(dtype, shape, fortran):
    from fastsock.array_format import check_sendable, pack_header

    if dtype.hasobject:
        raise NotPackable(
            f"an array of dtype {dtype} holds Python objects: send array.tolist(), or convert it by array.astype()"
        )
    try:
        check_sendable(dtype)
        return pack_header(dtype, shape, fortran)
    except TypeError as error:
        raise NotPackable(str(error)) from None
