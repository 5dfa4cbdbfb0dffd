# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""Pickles of small objects of Python's own types, written and read natively: None, bool, int, float, str, bytes, and
tuples, lists and dicts of such. Nothing of the program is called on the way. All else goes through pickle: subclasses,
long integers, large objects, and objects that refer to a list or dict twice: at the receiver it must be one object again.

Such a pickle begins with a string that is taken off the stack at once. By it a reader knows that only these opcodes
follow. A list, dict or tuple is a mark, its items and an opcode that ends it, so another thread may change it meanwhile.
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object, Py_ssize_t *size) except NULL
    object PyUnicode_DecodeUTF8(const char *, Py_ssize_t size, const char *errors)
    object PyBytes_FromStringAndSize(const char *, Py_ssize_t size)
    long long PyLong_AsLongLongAndOverflow(object, int *overflow) except? -1
    double PyFloat_AS_DOUBLE(object)
    int PyDict_Next(object, Py_ssize_t *place, PyObject **key, PyObject **value)
    int PyBUF_SIMPLE
    int PyObject_GetBuffer(object, Py_buffer *, int) except -1
    void PyBuffer_Release(Py_buffer *)

cdef extern from "<endian.h>":
    uint32_t htole32(uint32_t) noexcept
    uint32_t le32toh(uint32_t) noexcept
    uint64_t htole64(uint64_t) noexcept
    uint64_t le64toh(uint64_t) noexcept
    uint64_t htobe64(uint64_t) noexcept
    uint64_t be64toh(uint64_t) noexcept

cdef enum:
    PLAIN_CONTAINERS = 24   # lists and dicts in it
    PLAIN_DEEPEST = 8
    PLAIN_HEAD = 12

# PROTO 4, SHORT_BINBYTES, POP
cdef const char *PLAIN_MAGIC = b"\x80\x04C\x07fsk-pln0"

# The opcodes, by their names in pickle.
cdef enum:
    MARK = 0x28  # (
    TUPLE = 0x74  # t
    LIST = 0x6C  # l
    DICT = 0x64  # d
    NONE = 0x4E  # N
    NEWTRUE = 0x88
    NEWFALSE = 0x89
    BININT = 0x4A  # J
    LONG1 = 0x8A
    BINFLOAT = 0x47  # G
    BINUNICODE = 0x58  # X
    BINBYTES = 0x42  # B
    STOP = 0x2E  # .

cdef struct Plain:
    char *at
    char *end
    int containers
    void *seen[PLAIN_CONTAINERS]


cdef inline bint put(Plain *plain, unsigned char opcode, const void *data, uint32_t length) noexcept:
    if plain.end - plain.at < 1 + <Py_ssize_t>length:
        return False
    plain.at[0] = <char>opcode
    memcpy(plain.at + 1, data, length)
    plain.at += 1 + length
    return True


cdef inline bint put_text(Plain *plain, unsigned char opcode, const char *text, Py_ssize_t length) noexcept:
    cdef uint32_t size = htole32(<uint32_t>length)
    if length > PLAIN_MOST or plain.end - plain.at < 1 + <Py_ssize_t>sizeof(size) + length:
        return False
    plain.at[0] = <char>opcode
    memcpy(plain.at + 1, &size, sizeof(size))
    memcpy(plain.at + 1 + sizeof(size), text, length)
    plain.at += 1 + sizeof(size) + length
    return True


cdef inline bint put_number(Plain *plain, long long number) noexcept:
    cdef uint32_t word = htole32(<uint32_t>number)
    cdef char[9] long_one
    cdef uint64_t whole
    if number == <int32_t>number:
        return put(plain, BININT, &word, sizeof(word))
    whole = htole64(<uint64_t>number)
    long_one[0] = sizeof(whole)
    memcpy(long_one + 1, &whole, sizeof(whole))
    return put(plain, LONG1, long_one, sizeof(long_one))


cdef bint put_items(Plain *plain, dict obj, int depth) except -1:
    """Of a dict; whether they were written."""
    cdef PyObject *key
    cdef PyObject *value
    cdef Py_ssize_t place = 0
    with cython.critical_section(obj):
        while PyDict_Next(obj, &place, &key, &value):
            own_key, own_value = <object>key, <object>value  # a section within may let others change the dict
            if not put_object(plain, own_key, depth) or not put_object(plain, own_value, depth):
                return False
    return True


cdef bint put_object(Plain *plain, object obj, int depth) except -1:
    """Whether it was written."""
    cdef Py_ssize_t length = 0
    cdef long long number
    cdef double real
    cdef uint64_t bits
    cdef int overflow = 0, i
    cdef const char *text
    kind = type(obj)
    if kind is str:
        try:
            text = PyUnicode_AsUTF8AndSize(obj, &length)
        except UnicodeEncodeError:  # half of a surrogate pair
            return False
        return put_text(plain, BINUNICODE, text, length)
    if kind is int:
        number = PyLong_AsLongLongAndOverflow(obj, &overflow)
        return not overflow and put_number(plain, number)
    if kind is float:
        real = PyFloat_AS_DOUBLE(obj)
        memcpy(&bits, &real, sizeof(bits))
        bits = htobe64(bits)
        return put(plain, BINFLOAT, &bits, sizeof(bits))
    if obj is None:
        return put(plain, NONE, NULL, 0)
    if kind is bool:
        return put(plain, NEWTRUE if obj is True else NEWFALSE, NULL, 0)
    if kind is bytes:
        return put_text(plain, BINBYTES, PyBytes_AS_STRING(obj), PyBytes_GET_SIZE(obj))
    if depth == PLAIN_DEEPEST or not put(plain, MARK, NULL, 0):
        return False
    if kind is tuple:
        for each in <tuple>obj:
            if not put_object(plain, each, depth + 1):
                return False
        return put(plain, TUPLE, NULL, 0)
    if kind is not list and kind is not dict:
        return False
    for i in range(plain.containers):
        if plain.seen[i] == <void *>obj:
            return False
    if plain.containers == PLAIN_CONTAINERS:
        return False
    plain.seen[plain.containers] = <void *>obj
    plain.containers += 1
    if kind is list:
        for each in <list>obj:
            if not put_object(plain, each, depth + 1):
                return False
        return put(plain, LIST, NULL, 0)
    return put_items(plain, obj, depth + 1) and put(plain, DICT, NULL, 0)


cdef Py_ssize_t plain_message(object obj, char *memory) except -1:
    """Writes the message for an object; its length, or 0 where it is to be pickled."""
    cdef Plain plain
    memcpy(memory, PLAIN_MAGIC, PLAIN_HEAD)
    plain.at = memory + PLAIN_HEAD
    plain.end = memory + PLAIN_MOST
    plain.containers = 0
    return plain.at - memory if put_object(&plain, obj, 0) and put(&plain, STOP, NULL, 0) else 0


cdef bint is_plain(const char *data, Py_ssize_t length) noexcept:
    return length > PLAIN_HEAD and memcmp(data, PLAIN_MAGIC, PLAIN_HEAD) == 0


cdef int take(Plain *plain, void *data, Py_ssize_t length) except -1:
    if plain.end - plain.at < length:
        raise ValueError("a message with an object is damaged: it ends too soon")
    memcpy(data, plain.at, length)
    plain.at += length
    return 0


cdef object take_object(Plain *plain, int depth):
    cdef unsigned char opcode, length
    cdef uint32_t count
    cdef uint64_t bits
    cdef double real
    take(plain, &opcode, 1)
    if opcode == BININT:
        take(plain, &count, sizeof(count))
        return <int32_t>le32toh(count)
    if opcode == BINFLOAT:
        take(plain, &bits, sizeof(bits))
        bits = be64toh(bits)
        memcpy(&real, &bits, sizeof(real))
        return real
    if opcode == NONE:
        return None
    if opcode == NEWTRUE:
        return True
    if opcode == NEWFALSE:
        return False
    if opcode == BINUNICODE or opcode == BINBYTES:
        take(plain, &count, sizeof(count))
        count = le32toh(count)
        if <Py_ssize_t>count > plain.end - plain.at:
            raise ValueError("a message with an object is damaged: it names more than it has")
        plain.at += count
        if opcode == BINUNICODE:
            return PyUnicode_DecodeUTF8(plain.at - count, count, NULL)
        return PyBytes_FromStringAndSize(plain.at - count, count)
    if opcode == MARK and depth < PLAIN_DEEPEST:
        return take_items(plain, depth + 1)
    if opcode == LONG1:
        take(plain, &length, 1)
        if length == sizeof(bits):
            take(plain, &bits, sizeof(bits))
            return <int64_t>le64toh(bits)
    raise ValueError("a message with an object is damaged: an opcode has no place in it")


cdef object take_items(Plain *plain, int depth):
    """A list, tuple or dict, behind its mark."""
    cdef unsigned char opcode
    cdef Py_ssize_t place
    cdef dict mapping
    cdef list items = []
    while plain.at < plain.end:
        opcode = <unsigned char>plain.at[0]
        if opcode != TUPLE and opcode != LIST and opcode != DICT:
            items.append(take_object(plain, depth))
            continue
        plain.at += 1
        if opcode == LIST:
            return items
        if opcode == TUPLE:
            return tuple(items)
        if len(items) % 2 != 0:
            break
        mapping = {}
        for place in range(0, len(items), 2):
            mapping[items[place]] = items[place + 1]
        return mapping
    raise ValueError("a message with an object is damaged: its items do not end well")


cdef object plain_object(char *data, Py_ssize_t length):
    """The object of such a message."""
    cdef Plain plain
    cdef unsigned char opcode
    plain.at = data + PLAIN_HEAD
    plain.end = data + length
    found = take_object(&plain, 0)
    take(&plain, &opcode, 1)
    if opcode != STOP or plain.at != plain.end:
        raise ValueError("a message with an object is damaged: it goes on after its end")
    return found


def load_plain(data):
    """The object of such a message; None for any other message: then the second value is False."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if not is_plain(<char *>view.buf, view.len):
            return None, False
        return plain_object(<char *>view.buf, view.len), True
    finally:
        PyBuffer_Release(&view)


def dump_plain(obj):
    """The message for an object; empty where it is to be pickled."""
    cdef char[PLAIN_MOST] memory
    return PyBytes_FromStringAndSize(memory, plain_message(obj, memory))
