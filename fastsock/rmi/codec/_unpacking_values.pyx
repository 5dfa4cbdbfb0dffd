# cython: language_level=3, freethreading_compatible=True
"""The unpacker of plain values: None, bool, int, float, str, bytes, tuple, list, dict, set."""
cimport cython
from libc.stdint cimport uint64_t
from fastsock.rmi.codec._format cimport *
from fastsock.rmi.codec._memory cimport (
    free_keys, load_double, load_i16, load_i32, load_i64, load_u16, load_u32, load_u64, new_keys, text_at,
)

from fastsock.rmi.errors import BadFrame, LimitExceeded


cdef class ValueUnpacker:
    """Makes the values that calls are made of. The classes above add the other forms."""

    def __init__(self, depth):
        self.depth = depth
        self.data = b""
        self.at = 0
        self.limit = 0
        self.level = 0
        self.segments = ()
        self.next_segment = 0
        self.keys = new_keys()
        self.numbers = False  # whether values of this frame are numbered
        self.numbered = []
        self.failure = None
        self.failures = 0

    def __dealloc__(self):
        free_keys(self.keys)

    @cython.final
    cdef int _short(self) except -1:
        raise BadFrame("a value goes on beyond the end of its frame")

    @cython.final
    cdef int need(self, Py_ssize_t size) except -1:
        """Raises BadFrame unless so many bytes are left."""
        if self.limit - self.at < size:
            self._short()

    @cython.final
    cdef bytes take(self, Py_ssize_t size):
        self.need(size)
        cdef Py_ssize_t at = self.at
        self.at = at + size
        return self.data[at : at + size]

    @cython.final
    cdef Py_ssize_t read_length(self) except -1:
        """A length. It is at most what a frame can hold."""
        cdef int length
        cdef uint64_t word
        if self.at >= self.limit:
            self._short()
        length = self.data[self.at]
        self.at += 1
        if length < 253:
            return length
        if length == 253:
            self.need(2)
            self.at += 2
            return load_u16(self.data, self.at - 2)
        if length == 254:
            self.need(4)
            self.at += 4
            return load_u32(self.data, self.at - 4)
        self.need(8)
        self.at += 8
        word = load_u64(self.data, self.at - 8)
        if word >> SIZE_BITS:
            raise BadFrame(f"a length is {word}, more than a frame can hold")
        return word

    @cython.final
    cdef Py_ssize_t read_count(self, Py_ssize_t each) except -1:
        """How many items follow that take at least `each` bytes."""
        cdef Py_ssize_t count = self.read_length()
        if count > (self.limit - self.at) // each:
            raise BadFrame(f"{count} items cannot be in the {self.limit - self.at} bytes that are left of a frame")
        return count

    @cython.final
    cdef int enter(self) except -1:
        self.level += 1
        if self.level > self.depth:
            raise LimitExceeded(f"a value of the peer is nested more than {self.depth} deep: raise depth at this end")

    @cython.final
    cdef void leave(self) noexcept:
        self.level -= 1

    @cython.final
    cdef int fail(self, object error) except -1:
        """The frame is sound, but this value cannot be made. The rest is still read: classes and cache stay in step."""
        self.failures += 1
        if self.failure is None:
            self.failure = error

    @cython.final
    cdef object take_segment(self, int kind):
        if self.next_segment >= len(self.segments):
            raise BadFrame("a value is said to lie in a segment that the frame does not have")
        segment = self.segments[self.next_segment]
        self.next_segment += 1
        if kind == BYTES_OBJECT:
            return segment if type(segment) is bytes else bytes(segment)
        if kind == BYTEARRAY_OBJECT:
            return segment if type(segment) is bytearray else bytearray(segment)
        return segment

    @cython.final
    cdef object read(self):
        """A value of any type."""
        cdef int tag
        cdef Py_ssize_t at = self.at
        if at >= self.limit:
            self._short()
        tag = self.data[at]
        self.at = at + 1
        if tag < 0x40:
            return tag
        if tag < 0x80:
            return self.read_tagged(tag)
        if tag < 0xA0:
            return self.read_text(tag & 0x1F)
        if tag < 0xB0:
            return self.read_tuple(tag & 0x0F)
        if tag < 0xC0:
            return self.read_list(tag & 0x0F)
        if tag < 0xE0:
            return self.read_object(tag & 0x1F)
        if tag < 0xF0:
            return self.read_dict(tag & 0x0F)
        return tag - 0x100

    @cython.final
    cdef object read_tagged(self, int tag):
        if tag == NONE:
            return None
        elif tag == FALSE:
            return False
        elif tag == TRUE:
            return True
        elif tag == INT16:
            self.need(2)
            self.at += 2
            return load_i16(self.data, self.at - 2)
        elif tag == INT32:
            self.need(4)
            self.at += 4
            return load_i32(self.data, self.at - 4)
        elif tag == INT64:
            self.need(8)
            self.at += 8
            return load_i64(self.data, self.at - 8)
        elif tag == FLOAT:
            self.need(8)
            self.at += 8
            return load_double(self.data, self.at - 8)
        elif tag == STR:
            return self.read_text(self.read_length())
        elif tag == LIST:
            return self.read_list(self.read_count(1))
        elif tag == DICT:
            return self.read_dict(self.read_count(2))
        elif tag == TUPLE:
            return self.read_tuple(self.read_count(1))
        elif tag == OBJECT:
            return self.read_object(self.read_length())
        elif tag == BYTES:
            return self.take(self.read_length())
        elif tag == AGAIN:
            return self.read_again()
        elif tag == BYTES_SEGMENT:
            return self.number(self.take_segment(BYTES_OBJECT))
        elif tag == STR_SEGMENT:
            return self.number(self.take_segment(BYTES_OBJECT).decode("utf-8", "surrogatepass"))
        elif tag == BYTEARRAY:
            return self.number(bytearray(self.take(self.read_length())))
        elif tag == BYTEARRAY_SEGMENT:
            return self.number(self.take_segment(BYTEARRAY_OBJECT))
        elif tag == SET:
            return self.read_set(self.read_count(1))
        elif tag == FROZENSET:
            return self.read_frozenset(self.read_count(1))
        else:
            return self.read_other(tag)

    @cython.final
    cdef object number(self, object value):
        if self.numbers:
            self.numbered.append(value)
        return value

    @cython.final
    cdef Py_ssize_t take_place(self) except? -1:
        """The number of a value that is made later, but comes before its parts."""
        if self.numbers:
            self.numbered.append(None)
        return len(self.numbered) - 1

    @cython.final
    cdef object put_in_place(self, Py_ssize_t place, object value):
        if self.numbers:
            self.numbered[place] = value
        return value

    @cython.final
    cdef object read_text(self, Py_ssize_t size):
        cdef Py_ssize_t at = self.at
        if self.limit - at < size:
            self._short()
        self.at = at + size
        return text_at(self.data, at, size)

    @cython.final
    cdef object read_again(self):
        cdef Py_ssize_t number = self.read_length()
        if number >= len(self.numbered):
            raise BadFrame(f"value {number} is said to have come before, and only {len(self.numbered)} have")
        return self.numbered[number]

    @cython.final
    cdef object read_tuple(self, Py_ssize_t count):
        if not count:
            return ()
        if count > self.limit - self.at:
            self._short()
        self.enter()
        values = read_items(self, count)
        self.leave()
        return self.number(values)

    @cython.final
    cdef object read_list(self, Py_ssize_t count):
        cdef list values = []
        if self.numbers:
            self.numbered.append(values)
        self.enter()
        for _ in range(count):
            values.append(self.read())
        self.leave()
        return values

    @cython.final
    cdef object read_dict(self, Py_ssize_t count):
        cdef dict values = {}
        if self.numbers:
            self.numbered.append(values)
        self.enter()
        for _ in range(count):
            key = read_key(self)
            item = self.read()
            values[key] = item
        self.leave()
        if len(values) != count and not self.failures:
            raise BadFrame("a dict has the same key twice")
        return values

    @cython.final
    cdef object read_set(self, Py_ssize_t count):
        cdef set values = set()
        if self.numbers:
            self.numbered.append(values)
        self.enter()
        for _ in range(count):
            values.add(self.read())
        self.leave()
        if len(values) != count and not self.failures:
            raise BadFrame("a set has the same item twice")
        return values

    @cython.final
    cdef object read_frozenset(self, Py_ssize_t count):
        cdef list items = []
        self.enter()
        for _ in range(count):
            items.append(self.read())
        self.leave()
        values = frozenset(items)
        self.number(values)
        if len(values) != count and not self.failures:
            raise BadFrame("a frozenset has the same item twice")
        return values

    cdef object read_object(self, Py_ssize_t number):
        """An instance of the class of that number. The classes above know how."""
        raise BadFrame(f"class {number} was never described")

    cdef object read_other(self, int tag):
        """A value of any other form. The classes above know those."""
        raise BadFrame(f"a value has the tag {tag:#04x}, which does not exist")
