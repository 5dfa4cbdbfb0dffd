# cython: language_level=3, freethreading_compatible=True
"""The packer of plain values: None, bool, int, float, str, bytes, tuple, list, dict; identities within a frame."""
cimport cython
from cpython.tuple cimport PyTuple_GET_SIZE as tuple_size
from fastsock.rmi.codec._format cimport *
from fastsock.rmi.codec._memo cimport free_memo, memo_clear, memo_get, memo_set, new_memo
from fastsock.rmi.codec._memory cimport (
    copy_in, copy_utf8, is_shared, move_up, store_16, store_32, store_64, store_double, utf8_size,
)
from fastsock.rmi.codec._type_table cimport UNCOUNTED

from fastsock.rmi.codec._type_table import name_of
from fastsock.rmi.errors import LimitExceeded, NotPackable


cdef class Writer:
    """What packs itself as one value, without the parts of that being made first."""

    cdef int write_to(self, ValuePacker packer) except -1:
        """Packs it. Each part finds its bytes free by `write` or `ready`."""
        raise NotImplementedError


cdef class ValuePacker:
    """Packs the values that calls are made of, into a scratch that is kept. The classes above add the other types."""

    def __init__(self, depth, lends_memory, detects_early):
        self.depth = depth
        self.lends_memory = lends_memory
        self.detects_early = detects_early
        self._new_scratch(SCRATCH)
        self.at = 0
        self.first = 0
        self.level = 0
        self.segments = []
        self.words = []
        self.memo = new_memo()  # what this frame holds, to its number
        self.count = 0
        self.made = []  # for this frame alone

    def __dealloc__(self):
        free_memo(self.memo)

    @cython.final
    cdef int _new_scratch(self, Py_ssize_t size) except -1:
        self.scratch = bytearray(size)
        self.whole = memoryview(self.scratch)
        self.data = self.scratch
        self.room = size

    @cython.final
    cdef int _forget_numbers(self) except -1:
        memo_clear(self.memo)
        if self.made:
            self.made.clear()
        self.count = 0

    @cython.final
    cdef int grow(self, Py_ssize_t more) except -1:
        """Room for at least so many bytes more."""
        used = self.scratch
        self._new_scratch(max(2 * self.room, self.at + more + SPARE))
        self.scratch[: self.at] = used[: self.at]

    # What all forms are made of

    @cython.final
    cdef void put(self, int tag) noexcept:
        """One byte. Each value finds SPARE bytes free."""
        self.data[self.at] = tag
        self.at += 1

    @cython.final
    cdef void put_length(self, Py_ssize_t length) noexcept:
        if length < 253:
            self.data[self.at] = length
            self.at += 1
        elif length <= 0xFFFF:
            self.data[self.at] = 253
            store_16(self.data, self.at + 1, length)
            self.at += 3
        elif length <= 0xFFFFFFFF:
            self.data[self.at] = 254
            store_32(self.data, self.at + 1, length)
            self.at += 5
        else:
            self.data[self.at] = 255
            store_64(self.data, self.at + 1, length)
            self.at += 9

    @cython.final
    cdef int put_bytes(self, object source, Py_ssize_t size) except -1:
        """A length and the memory of a contiguous buffer."""
        if self.room - self.at < size + SPARE:
            self.grow(size + SPARE)
        self.put_length(size)
        copy_in(self.data, self.at, source, size)
        self.at += size

    @cython.final
    cdef int put_segment(self, object source, Py_ssize_t size, unsigned long long kind) except -1:
        self.segments.append(source)
        self.words.append(kind << SIZE_BITS | size)

    @cython.final
    cdef int ready(self) except -1:
        if self.room - self.at < SPARE:
            self.grow(SPARE)

    @cython.final
    cdef int enter(self) except -1:
        self.level += 1
        if self.level > self.depth:
            raise LimitExceeded(
                f"the value is nested more than {self.depth} deep: send its parts apart, or raise depth"
            )

    @cython.final
    cdef void leave(self) noexcept:
        self.level -= 1

    @cython.final
    cdef bint is_memorable(self, object value) noexcept:
        """Whether the value can be met again."""
        return is_shared(value, self.level)

    @cython.final
    cdef bint was_written(self, object value) except -1:
        """Whether it is in the frame already: then its number is written."""
        cdef Py_ssize_t number = memo_get(self.memo, value)
        if number == NEW:
            return False
        if number == OPEN:
            raise NotPackable(f"{name_of(type(value))} holds itself through what its pack() gave: leave that out there")
        self.data[self.first] |= REPEATS
        self.put(AGAIN)
        self.put_length(number)
        return True

    @cython.final
    cdef bint is_again(self, object value) except -1:
        """Whether it is in the frame already. If not, it has the next number now."""
        if self.is_memorable(value):
            if self.was_written(value):
                return True
            self.remember(value)
        return False

    @cython.final
    cdef int remember(self, object value) except -1:
        memo_set(self.memo, value, self.count)

    @cython.final
    cdef int remember_open(self, object value) except -1:
        memo_set(self.memo, value, OPEN)

    @cython.final
    cdef int end_tuple(self, object value, Py_ssize_t before) except -1:
        """Number a tuple or frozenset that is packed. One that holds itself was packed within, and has a number."""
        cdef Py_ssize_t number = memo_get(self.memo, value)
        if number == NEW:
            self.remember(value)
        else:
            self.ready()
            move_up(self.data, before, self.at)
            self.data[before] = RECURSIVE
            self.data[self.first] |= REPEATS
            self.at += 1
            self.put_length(number)
        self.count += 1

    # The exact type decides, in the order that bench/rmi_types.py counted over the project's own programs and
    # examples, in per cent of all values: int 30, tuple 22, str 20, ndarray 17, dict 7, bytes 2, float, list and None 1
    # each. Most of those tuples are the messages of other libraries, so str comes before them. An array is found by
    # the one look-up that all other types share: that is nothing beside its memory.

    @cython.final
    cdef int write(self, object value) except -1:
        """A value of any type."""
        if self.room - self.at < SPARE:
            self.grow(SPARE)
        kind = type(value)
        if not self.detects_early:
            self.write_late(value, kind)
        elif kind is int:
            self.write_int(value)
        elif kind is str:
            self.write_str(value)
        elif kind is tuple:
            self.write_tuple(value)
        elif kind is dict:
            self.write_dict(value)
        elif kind is bytes:
            self.write_bytes(value)
        elif kind is float:
            self.put_float(value)
        elif kind is list:
            self.write_list(value)
        elif value is None:
            self.put(NONE)
        elif value is True:
            self.put(TRUE)
        elif value is False:
            self.put(FALSE)
        else:
            self.write_other(value, kind)

    @cython.final
    cdef int put_float(self, double value) except -1:
        self.data[self.at] = FLOAT
        store_double(self.data, self.at + 1, value)
        self.at += 9

    @cython.final
    cdef int write_late(self, object value, object kind) except -1:
        """What `write` does, asking as one would without a count: each type in turn, subclasses too."""
        for asked in UNCOUNTED:
            if isinstance(value, asked) and kind is asked:
                break
        self.detects_early = True
        try:
            self.write(value)
        finally:
            self.detects_early = False

    @cython.final
    cdef int write_int(self, object value) except -1:
        cdef Py_ssize_t size
        if not put_word(self, value):
            size = value.bit_length() // 8 + 1
            self.put(BIG_INT)
            self.put_bytes(value.to_bytes(size, "little", signed=True), size)

    @cython.final
    cdef void put_int(self, int64_t number) noexcept:
        if -16 <= number < 64:
            self.data[self.at] = number & 0xFF
            self.at += 1
        elif -0x8000 <= number <= 0x7FFF:
            self.data[self.at] = INT16
            store_16(self.data, self.at + 1, number)
            self.at += 3
        elif -0x80000000 <= number <= 0x7FFFFFFF:
            self.data[self.at] = INT32
            store_32(self.data, self.at + 1, number)
            self.at += 5
        else:
            self.data[self.at] = INT64
            store_64(self.data, self.at + 1, number)
            self.at += 9

    @cython.final
    cdef int write_str(self, object value) except -1:
        cdef Py_ssize_t size = utf8_size(value)
        if 0 <= size < STR_SEGMENT_FROM:
            if self.room - self.at < size + SPARE:
                self.grow(size + SPARE)
            self.put_str(size)
            copy_utf8(self.data, self.at, value, size)
            self.at += size
        elif size < 0 and len(value) < STR_SEGMENT_FROM // 4:  # a character has four bytes at most
            encoded = value.encode("utf-8", "surrogatepass")
            size = len(encoded)
            if self.room - self.at < size + SPARE:
                self.grow(size + SPARE)
            self.put_str(size)
            copy_in(self.data, self.at, encoded, size)
            self.at += size
        elif not self.is_again(value):
            encoded = value.encode("utf-8", "surrogatepass")
            self.count += 1
            self.put(STR_SEGMENT)
            self.put_segment(encoded, len(encoded), BYTES_OBJECT)

    @cython.final
    cdef void put_str(self, Py_ssize_t size) noexcept:
        if size < 32:
            self.data[self.at] = 0x80 + size
            self.at += 1
        else:
            self.put(STR)
            self.put_length(size)

    # Until is_memorable() has counted the references, a container has the type of any value: a conversion adds one.

    @cython.final
    cdef int write_list(self, object values) except -1:
        if not self.is_again(values):
            self.count += 1
            self.put_list(values)

    @cython.final
    cdef int put_list(self, list values) except -1:
        cdef Py_ssize_t count = len(values)
        if count < 16:
            self.put(0xB0 + count)
        else:
            self.put(LIST)
            self.put_length(count)
        self.enter()
        for item in values:
            self.write(item)
            count -= 1
        if count:
            raise RuntimeError("a list changed while it was packed")
        self.leave()

    @cython.final
    cdef int write_tuple(self, object values) except -1:
        cdef Py_ssize_t before
        cdef Py_ssize_t count = tuple_size(values)
        if not count:
            self.put(0xA0)
        elif not self.is_memorable(values):
            self.put_tuple(values, count)
            self.count += 1
        elif not self.was_written(values):
            before = self.at
            self.put_tuple(values, count)
            self.end_tuple(values, before)

    @cython.final
    cdef int put_tuple(self, tuple values, Py_ssize_t count) except -1:
        self.put_tuple_of(count)
        self.enter()
        for item in values:
            self.write(item)
        self.leave()

    @cython.final
    cdef int put_tuple_of(self, Py_ssize_t count) except -1:
        """The beginning of a tuple of so many items."""
        if count < 16:
            self.put(0xA0 + count)
        else:
            self.put(TUPLE)
            self.put_length(count)

    @cython.final
    cdef int write_dict(self, object values) except -1:
        if not self.is_again(values):
            self.count += 1
            self.put_dict(values)

    @cython.final
    cdef int put_dict(self, dict values) except -1:
        cdef Py_ssize_t count = len(values)
        if count < 16:
            self.put(0xE0 + count)
        else:
            self.put(DICT)
            self.put_length(count)
        self.enter()
        for key, item in values.items():
            self.write(key)
            self.write(item)
            count -= 1
        if count:
            raise RuntimeError("a dict changed while it was packed")
        self.leave()

    @cython.final
    cdef int write_fields(self, object value, Py_ssize_t number, tuple fields) except -1:
        """An instance of a registered class, which has that number here."""
        if not self.is_again(value):
            self.count += 1
            self.put_class(number)
            self.enter()
            for name in fields:
                item = getattr(value, name, self)  # no field holds its own packer
                if item is self:
                    raise NotPackable(f"{name_of(type(value))}.{name} is not set: set it before the instance is sent")
                self.write(item)
            self.leave()

    @cython.final
    cdef void put_class(self, Py_ssize_t number) noexcept:
        if number < 32:
            self.put(0xC0 + number)
        else:
            self.put(OBJECT)
            self.put_length(number)

    @cython.final
    cdef int write_bytes(self, object value) except -1:
        cdef Py_ssize_t size = len(value)
        if size < SEGMENT or not self.lends_memory:
            self.put(BYTES)
            self.put_bytes(value, size)
        elif not self.is_again(value):
            self.count += 1
            self.put(BYTES_SEGMENT)
            self.put_segment(value, size, BYTES_OBJECT)

    cdef int write_other(self, object value, object kind) except -1:
        """A value of any other type. The classes above know those."""
        raise NotPackable(name_of(kind))
