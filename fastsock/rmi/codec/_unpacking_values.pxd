# What other compiled modules may know of _unpacking_values.pyx.
from cpython.mem cimport PyMem_Calloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from fastsock.rmi.codec._memory cimport CODEC_KEYS, known_key


cdef class ValueUnpacker:
    cdef const unsigned char *data
    cdef Py_ssize_t at, limit, level, depth, next_segment, failures
    cdef bint numbers
    cdef PyObject **keys
    cdef object segments, failure
    cdef list numbered

    cdef int _short(self) except -1
    cdef int need(self, Py_ssize_t size) except -1
    cdef bytes take(self, Py_ssize_t size)
    cdef Py_ssize_t read_length(self) except -1
    cdef Py_ssize_t read_count(self, Py_ssize_t each) except -1
    cdef int enter(self) except -1
    cdef void leave(self) noexcept
    cdef int fail(self, object error) except -1
    cdef object take_segment(self, int kind)
    cdef object read(self)
    cdef object read_tagged(self, int tag)
    cdef object number(self, object value)
    cdef Py_ssize_t take_place(self) except? -1
    cdef object put_in_place(self, Py_ssize_t place, object value)
    cdef object read_text(self, Py_ssize_t size)
    cdef object read_again(self)
    cdef object read_tuple(self, Py_ssize_t count)
    cdef object read_list(self, Py_ssize_t count)
    cdef object read_dict(self, Py_ssize_t count)
    cdef object read_set(self, Py_ssize_t count)
    cdef object read_frozenset(self, Py_ssize_t count)
    cdef object read_object(self, Py_ssize_t number)
    cdef object read_other(self, int tag)


cdef inline tuple read_items(ValueUnpacker unpacker, Py_ssize_t count):
    cdef Py_ssize_t index
    cdef tuple values = PyTuple_New(count)
    for index in range(count):
        item = unpacker.read()
        Py_INCREF(item)
        PyTuple_SET_ITEM(values, index, item)
    return values


cdef inline object read_key(ValueUnpacker unpacker):
    cdef Py_ssize_t at = unpacker.at, size
    if at < unpacker.limit:
        size = unpacker.data[at] - 0x80
        if 2 <= size < 32 and size < unpacker.limit - at:
            if unpacker.keys == NULL:
                unpacker.keys = <PyObject **>PyMem_Calloc(CODEC_KEYS, sizeof(PyObject *))
                if unpacker.keys == NULL:
                    raise MemoryError
            unpacker.at = at + 1 + size
            return known_key(unpacker.keys, unpacker.data + at + 1, size)
    return unpacker.read()
