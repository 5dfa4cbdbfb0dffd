# What the native calls read of a message argument: its bytes, where these are all that it says.
from cpython.exc cimport PyErr_Clear

cdef extern from "Python.h":
    int get_buffer "PyObject_GetBuffer" (object exporter, Py_buffer *view, int flags) noexcept

LETTERS = (*PLAIN_FORMATS.decode(), "Zf", "Zd")
"""The formats of plain items, in the order of letter_of()."""


cdef bint hold(object where, bint writable, int flags, Py_buffer *view) except -1:
    """Whether an object has contiguous memory that may be used so; then `view` is to be released."""
    if not PyObject_CheckBuffer(where) or isinstance(where, _Place):
        return False
    if writable:
        flags |= PyBUF_WRITABLE
    if get_buffer(where, view, flags | PyBUF_ANY_CONTIGUOUS) < 0:
        PyErr_Clear()
        return False
    return True


cdef object read_span(object argument, Span *span, bint writable, int blocks):
    cdef Simple message
    span.held = False
    if not isinstance(argument, (list, tuple)):
        if not hold(argument, writable, PyBUF_FORMAT, &span.view):
            return None
        span.letter = letter_of(span.view.format)
        if span.letter < 0:
            PyBuffer_Release(&span.view)
            return None
        span.held = True
        return True
    span.letter = -1
    record = _listed(argument, span, writable, blocks)
    if record is not None:
        return record
    message = simple(argument, not writable, blocks)
    record = message.datatype.ob
    if not record.dense:
        return None
    span.view.buf, span.view.itemsize = <void *>message.address, record.size
    span.view.len = message.count * span.view.itemsize * max(blocks, 1)
    span.view.obj = <PyObject *>message  # releasing the view lets go of it, and with it of the memory
    Py_INCREF(message)
    span.held = True
    return record


cdef object _listed(object argument, Span *span, bint writable, int blocks):
    """The record of the datatype in [buffer, datatype] or [buffer, count, datatype], where it has no gaps."""
    cdef Py_ssize_t size, count = -1, number = len(argument)
    datatype = argument[number - 1] if 2 <= number <= 3 else None
    if not isinstance(datatype, _Datatype):
        return None
    record = datatype.ob
    if not record.dense:
        return None
    size = record.size
    if number == 3:
        if type(argument[1]) is not int:
            return None
        count = argument[1]
        if count < 0:
            return None
    if size <= 0:
        return None
    if count == 0 and argument[0] is None:
        hold_nothing(&span.view)
    elif not hold(argument[0], writable, 0, &span.view):
        return None
    if blocks < 1:
        blocks = 1
    if number == 2:
        count = span.view.len // size // blocks
    # a large product would be another number
    if count >= 0 and count <= span.view.len // size // blocks and (number == 3 or count * size * blocks == span.view.len):
        span.view.len, span.view.itemsize = count * size * blocks, size
        span.held = True
        return record
    PyBuffer_Release(&span.view)
    return None
