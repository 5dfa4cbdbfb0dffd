# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""Small objects of Python's own types as messages, without pickle: None, bool, int, float, str, bytes, and tuples, lists
and dicts of such. Nothing of the program is called on the way. All else is pickled: subclasses, long integers,
large objects, and objects that refer to a list or dict twice: at the receiver it must be one object again.

Another thread may change a list or dict meanwhile, where there is no lock of the interpreter: what is written tells how
many items it has, not how many there were.
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport uint32_t
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

cdef enum:
    PLAIN_CONTAINERS = 24   # lists and dicts in it
    PLAIN_DEEPEST = 8
    PLAIN_HEAD = 8

cdef const char *PLAIN_MAGIC = b"\x01fsk-pln"

cdef struct Plain:
    char *at
    char *end
    int containers
    void *seen[PLAIN_CONTAINERS]


cdef inline bint put(Plain *plain, char kind, const void *data, uint32_t length) noexcept:
    if plain.end - plain.at < 1 + <Py_ssize_t>length:
        return False
    plain.at[0] = kind
    memcpy(plain.at + 1, data, length)
    plain.at += 1 + length
    return True


cdef inline bint put_text(Plain *plain, char kind, const char *text, Py_ssize_t length) noexcept:
    cdef uint32_t size = <uint32_t>length
    if length > PLAIN_MOST or plain.end - plain.at < 1 + <Py_ssize_t>sizeof(size) + length:
        return False
    plain.at[0] = kind
    memcpy(plain.at + 1, &size, sizeof(size))
    memcpy(plain.at + 1 + sizeof(size), text, length)
    plain.at += 1 + sizeof(size) + length
    return True


cdef inline char *put_head(Plain *plain, char kind) noexcept:
    """Of items that follow; where their number is to be written, NULL where there is no room."""
    cdef uint32_t count = 0
    return plain.at - sizeof(count) if put(plain, kind, &count, sizeof(count)) else NULL


cdef bint put_items(Plain *plain, dict obj, int depth, uint32_t *count) except -1:
    """Of a dict; whether they were written."""
    cdef PyObject *key
    cdef PyObject *value
    cdef Py_ssize_t place = 0
    with cython.critical_section(obj):
        while PyDict_Next(obj, &place, &key, &value):
            own_key, own_value = <object>key, <object>value  # a section within may let others change the dict
            if not put_object(plain, own_key, depth) or not put_object(plain, own_value, depth):
                return False
            count[0] += 1
    return True


cdef bint put_object(Plain *plain, object obj, int depth) except -1:
    """Whether it was written."""
    cdef Py_ssize_t length = 0
    cdef long long number
    cdef double real
    cdef uint32_t count = 0
    cdef int overflow = 0, i
    cdef const char *text
    cdef char *where
    kind = type(obj)
    if kind is str:
        try:
            text = PyUnicode_AsUTF8AndSize(obj, &length)
        except UnicodeEncodeError:  # half of a surrogate pair
            return False
        return put_text(plain, c"s", text, length)
    if kind is int:
        number = PyLong_AsLongLongAndOverflow(obj, &overflow)
        return not overflow and put(plain, c"i", &number, sizeof(number))
    if kind is float:
        real = PyFloat_AS_DOUBLE(obj)
        return put(plain, c"f", &real, sizeof(real))
    if obj is None:
        return put(plain, c"N", NULL, 0)
    if kind is bool:
        return put(plain, c"T" if obj is True else c"F", NULL, 0)
    if kind is bytes:
        return put_text(plain, c"b", PyBytes_AS_STRING(obj), PyBytes_GET_SIZE(obj))
    if depth == PLAIN_DEEPEST:
        return False
    if kind is tuple:
        count = <uint32_t>len(<tuple>obj)
        if not put(plain, c"t", &count, sizeof(count)):
            return False
        for each in <tuple>obj:
            if not put_object(plain, each, depth + 1):
                return False
        return True
    if kind is not list and kind is not dict:
        return False
    for i in range(plain.containers):
        if plain.seen[i] == <void *>obj:
            return False
    if plain.containers == PLAIN_CONTAINERS:
        return False
    plain.seen[plain.containers] = <void *>obj
    plain.containers += 1
    where = put_head(plain, c"l" if kind is list else c"d")
    if where == NULL:
        return False
    if kind is list:
        for each in <list>obj:
            if not put_object(plain, each, depth + 1):
                return False
            count += 1
    elif not put_items(plain, obj, depth + 1, &count):
        return False
    memcpy(where, &count, sizeof(count))
    return True


cdef Py_ssize_t plain_message(object obj, char *memory) except -1:
    """Writes the message for an object; its length, or 0 where it is to be pickled."""
    cdef Plain plain
    memcpy(memory, PLAIN_MAGIC, PLAIN_HEAD)
    plain.at = memory + PLAIN_HEAD
    plain.end = memory + PLAIN_MOST
    plain.containers = 0
    return plain.at - memory if put_object(&plain, obj, 0) else 0


cdef bint is_plain(const char *data, Py_ssize_t length) noexcept:
    return length > PLAIN_HEAD and memcmp(data, PLAIN_MAGIC, PLAIN_HEAD) == 0


cdef int take(Plain *plain, void *data, Py_ssize_t length) except -1:
    if plain.end - plain.at < length:
        raise ValueError("a message with an object is damaged: it ends too soon")
    memcpy(data, plain.at, length)
    plain.at += length
    return 0


cdef object take_object(Plain *plain, int depth):
    cdef char kind
    cdef long long number
    cdef double real
    cdef uint32_t count, i
    take(plain, &kind, 1)
    if kind == c"i":
        take(plain, &number, sizeof(number))
        return number
    if kind == c"f":
        take(plain, &real, sizeof(real))
        return real
    if kind == c"N":
        return None
    if kind == c"T":
        return True
    if kind == c"F":
        return False
    take(plain, &count, sizeof(count))
    if <Py_ssize_t>count > plain.end - plain.at or depth > PLAIN_DEEPEST:
        raise ValueError("a message with an object is damaged: it names more than it has")
    if kind == c"s":
        plain.at += count
        return PyUnicode_DecodeUTF8(plain.at - count, count, NULL)
    if kind == c"b":
        plain.at += count
        return PyBytes_FromStringAndSize(plain.at - count, count)
    if kind == c"d":
        mapping = {}
        for i in range(count):
            key = take_object(plain, depth + 1)
            mapping[key] = take_object(plain, depth + 1)
        return mapping
    if kind != c"l" and kind != c"t":
        raise ValueError(f"a message with an object is damaged: there is no kind {kind}")
    items = []
    for i in range(count):
        items.append(take_object(plain, depth + 1))
    return items if kind == c"l" else tuple(items)


cdef object plain_object(char *data, Py_ssize_t length):
    """The object of such a message."""
    cdef Plain plain
    plain.at = data + PLAIN_HEAD
    plain.end = data + length
    found = take_object(&plain, 0)
    if plain.at != plain.end:
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
