# cython: language_level=3, freethreading_compatible=True
"""The unpacker of arrays and other memory, times, numbers and what else the libraries have."""
cimport cython
from fastsock.rmi.codec._format cimport *
from fastsock.rmi.codec._memory cimport load_double, load_i32, make_clock, make_date, make_datetime, new_instance, set_field
from fastsock.rmi.codec._type_table cimport PATHS, PLAIN, SIZES, later, load_numpy, plain_types

import sys

from fastsock.rmi.errors import BadFrame


cdef class SpecialUnpacker(ValueUnpacker):
    """Makes the types of the standard library and of numpy that have forms of their own, but for exceptions."""

    @cython.final
    cdef object read_special(self, int tag):
        """Forms that hold no other values."""
        cdef Py_ssize_t at
        if tag in (ARRAY, ARRAY_SEGMENT, ARRAY_DESCRIBED, ARRAY_DESCRIBED_SEGMENT):
            return self.number(self.read_array(tag))
        elif tag == BIG_INT:
            return int.from_bytes(self.take(self.read_length()), "little", signed=True)
        elif tag == COMPLEX:
            self.need(16)
            self.at += 16
            return complex(load_double(self.data, self.at - 16), load_double(self.data, self.at - 8))
        elif tag == ELLIPSIS:
            return Ellipsis
        elif tag == NOT_IMPLEMENTED:
            return NotImplemented
        elif tag == UTC:
            return later("datetime", "timezone").utc
        elif tag == DATE:
            self.need(4)
            self.at += 4
            return make_date(self.data, self.at - 4)
        elif tag == TIMEDELTA:
            self.need(12)
            at = self.at
            self.at = at + 12
            days, seconds = load_i32(self.data, at), load_i32(self.data, at + 4)
            return later("datetime", "timedelta")(days, seconds, load_i32(self.data, at + 8))
        elif tag == DECIMAL:
            return later("decimal", "Decimal")(self.take(self.read_length()).decode("ascii"))
        elif tag == UUID:
            made = new_instance(later("uuid", "UUID"))
            set_field(made, "int", int.from_bytes(self.take(16), "little"))
            set_field(made, "is_safe", later("uuid", "SafeUUID")({0: 0, 1: None, 255: -1}[self.take(1)[0]]))
            return made
        elif tag == TYPED_ARRAY:
            return self.read_typed_array()
        elif tag == DTYPE:
            return _unpack_header(self.take(self.read_length()))[0]
        elif tag == RECURSIVE:
            return self.read_recursive()
        self.enter()
        value = self.read_nested(tag)
        self.leave()
        return value

    @cython.final
    cdef object read_nested(self, int tag):
        """Forms that hold other values."""
        cdef Py_ssize_t at = self.at
        if tag == DATETIME:
            self.need(11)
            self.at = at + 11
            zone = self.read()
            return make_datetime(self.data, at, zone)
        elif tag == TIME:
            self.need(7)
            self.at = at + 7
            zone = self.read()
            return make_clock(self.data, at, zone)
        elif tag == TIMEZONE:
            return later("datetime", "timezone")(*self.read())
        elif tag == ZONE:
            return later("zoneinfo", "ZoneInfo")(self.read_str())
        elif tag == RANGE:
            return range(self.read(), self.read(), self.read())
        elif tag == SLICE:
            return slice(self.read(), self.read(), self.read())
        elif tag == FRACTION:
            return later("fractions", "Fraction")(self.read(), self.read())
        elif tag == PATH:
            return later("pathlib", PATHS[self.take(1)[0]])(self.read_str())
        elif tag == VIEW:
            return self.read_view()
        elif tag == SCALAR:
            return self.read_scalar()
        raise BadFrame(f"a value has the tag {tag:#04x}, which does not exist")

    @cython.final
    cdef int next_tag(self) except -1:
        """The tag of the next value, which is not read yet."""
        if self.at >= self.limit:
            self._short()
        return self.data[self.at]

    @cython.final
    cdef object read_str(self):
        value = self.read()
        if type(value) is not str:
            raise BadFrame(f"{type(value).__name__} stands where a string belongs")
        return value

    @cython.final
    cdef object read_recursive(self):
        cdef int tag = self.next_tag()
        if not (0xA0 < tag < 0xB0 or 0xC0 <= tag < 0xE0 or tag in (TUPLE, FROZENSET, OBJECT)):
            raise BadFrame(f"a value of the tag {tag:#04x} is said to hold itself")
        self.read()
        return self.read_again()

    @cython.final
    cdef object read_typed_array(self):
        from array import array

        code, size, order = self.take(3)
        made = array(chr(code))
        if made.itemsize != size or order > 1:
            raise BadFrame(f"an array.array of {chr(code)!r} has items of {size} bytes, here of {made.itemsize}")
        self.number(made)
        made.frombytes(self.read_memory())
        if order != (sys.byteorder == "big"):
            made.byteswap()
        return made

    @cython.final
    cdef object read_memory(self):
        """What `write_memory` wrote, without a number."""
        tag = self.take(1)[0]
        if tag == BYTES:
            return self.take(self.read_length())
        elif tag == BYTEARRAY:
            return bytearray(self.take(self.read_length()))
        elif tag == BYTES_SEGMENT:
            return self.take_segment(BYTES_OBJECT)
        elif tag == BYTEARRAY_SEGMENT:
            return self.take_segment(BYTEARRAY_OBJECT)
        raise BadFrame(f"the tag {tag:#04x} stands where memory belongs")

    @cython.final
    cdef object read_view(self):
        cdef Py_ssize_t place = self.take_place()
        readonly = self.take(1)[0]
        form = self.read_str()
        shape = [self.read_length() for _ in range(self.read_count(1))]
        memory = self.read_memory()
        if readonly != (type(memory) is bytes):
            raise BadFrame("a memoryview is said to be of memory of another kind")
        made = memoryview(memory)
        if form != "B" or len(shape) != 1:
            # a cast takes no empty dimension
            made = made.cast(form, shape) if made.nbytes or len(shape) > 1 else made.cast(form)
        if list(made.shape or ()) != shape:
            raise BadFrame(f"a memoryview of shape {shape} has {made.nbytes} bytes")
        return self.put_in_place(place, made)

    @cython.final
    cdef object read_array(self, int tag):
        cdef int code, count
        numpy = load_numpy()
        if tag in (ARRAY, ARRAY_SEGMENT):
            self.need(2)
            code = self.data[self.at]
            count = self.data[self.at + 1]
            self.at += 2
            fortran = code >= FORTRAN
            code &= 0x7F
            if code >= len(PLAIN):
                raise BadFrame(f"an array is of the type {code}, and there are {len(PLAIN)}")
            dtype = plain_types[code]
            size = SIZES[code]
            extents = []
            for _ in range(count):
                extent = self.read_length()
                extents.append(extent)
                size *= extent
            shape = tuple(extents)
        else:
            dtype, shape, fortran, size = _unpack_header(self.take(self.read_length()))
        order = "F" if fortran else "C"
        if tag in (ARRAY, ARRAY_DESCRIBED):
            if size > self.limit - self.at:
                raise BadFrame(f"an array of {size} bytes cannot be in the {self.limit - self.at} that are left")
            if not size:
                return numpy.empty(shape, dtype, order)
            memory = bytearray(self.take(size))
        else:
            memory = self.take_segment(MEMORY)
            held = memoryview(memory).nbytes
            if held != size:
                raise BadFrame(f"an array of {size} bytes has a segment of {held}")
        return numpy.ndarray(shape, dtype, memory, 0, None, order)

    @cython.final
    cdef object read_scalar(self):
        numpy = load_numpy()
        tag = self.take(1)[0]
        if tag in (ARRAY, ARRAY_DESCRIBED, ARRAY_SEGMENT, ARRAY_DESCRIBED_SEGMENT):
            return self.read_array(tag)[()]
        self.at -= 1
        value = self.read()
        if type(value) is str:
            return numpy.str_(value)
        if type(value) is bytes:
            return numpy.bytes_(value)
        raise BadFrame(f"a numpy scalar is made of {type(value).__name__}")


def _unpack_header(header):
    """`unpack_header` of what may be no header."""
    from fastsock.array_format import HEADER_BYTES, check_magic, extra_bytes, unpack_header

    check_magic(header[:4])
    if len(header) < HEADER_BYTES or len(header) != HEADER_BYTES + extra_bytes(header[:HEADER_BYTES]):
        raise BadFrame(f"an array's header of {len(header)} bytes tells another length")
    return unpack_header(header)
