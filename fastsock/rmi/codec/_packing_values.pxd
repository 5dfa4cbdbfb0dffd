# What other compiled modules may know of _packing_values.pyx.
from libc.stdint cimport int64_t
from fastsock.rmi.codec._memo cimport Memo
from fastsock.rmi.codec._memory cimport word_of


cdef class ValuePacker


cdef class Writer:
    cdef int write_to(self, ValuePacker packer) except -1


cdef class ValuePacker:
    # For C: after close() the frame is the first `at` bytes of `data`, then `segments`.
    cdef unsigned char *data
    cdef Py_ssize_t at
    cdef readonly list segments
    cdef bint lends_memory, detects_early
    cdef Py_ssize_t depth, room, first, level, count
    cdef bytearray scratch
    cdef object whole
    cdef list words, made
    cdef Memo *memo

    cdef int _new_scratch(self, Py_ssize_t size) except -1
    cdef int _forget_numbers(self) except -1
    cdef int grow(self, Py_ssize_t more) except -1
    cdef void put(self, int tag) noexcept
    cdef void put_length(self, Py_ssize_t length) noexcept
    cdef int put_bytes(self, object source, Py_ssize_t size) except -1
    cdef int put_segment(self, object source, Py_ssize_t size, unsigned long long kind) except -1
    cdef int ready(self) except -1
    cdef int enter(self) except -1
    cdef void leave(self) noexcept
    cdef bint is_memorable(self, object value) noexcept
    cdef bint was_written(self, object value) except -1
    cdef bint is_again(self, object value) except -1
    cdef int remember(self, object value) except -1
    cdef int remember_open(self, object value) except -1
    cdef int end_tuple(self, object value, Py_ssize_t before) except -1
    cdef int write(self, object value) except -1
    cdef int put_float(self, double value) except -1
    cdef int write_late(self, object value, object kind) except -1
    cdef int write_int(self, object value) except -1
    cdef void put_int(self, int64_t number) noexcept
    cdef int write_str(self, object value) except -1
    cdef void put_str(self, Py_ssize_t size) noexcept
    cdef int write_list(self, object values) except -1
    cdef int write_tuple(self, object values) except -1
    cdef int put_tuple(self, tuple values, Py_ssize_t count) except -1
    cdef int put_tuple_of(self, Py_ssize_t count) except -1
    cdef int put_list(self, list values) except -1
    cdef int put_dict(self, dict values) except -1
    cdef int write_dict(self, object values) except -1
    cdef int write_fields(self, object value, Py_ssize_t number, tuple fields) except -1
    cdef void put_class(self, Py_ssize_t number) noexcept
    cdef int write_bytes(self, object value) except -1
    cdef int write_other(self, object value, object kind) except -1


cdef inline bint put_word(ValuePacker packer, object value) except -1:
    cdef int overflow = 0
    cdef int64_t word = word_of(value, &overflow)
    if overflow == 0:
        packer.put_int(word)
    return overflow == 0
