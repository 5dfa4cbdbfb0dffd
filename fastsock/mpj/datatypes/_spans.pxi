# What calls read of a message argument: its bytes, where these are all that it says. buffers.py has the rules.
from cpython.exc cimport PyErr_Clear

cdef extern from "Python.h":
    int get_buffer "PyObject_GetBuffer" (object exporter, Py_buffer *view, int flags) noexcept
    Py_ssize_t as_ssize "PyNumber_AsSsize_t" (object number, object error) noexcept

cdef extern from *:
    """
    #define is_instance(object, type) PyObject_TypeCheck(object, (PyTypeObject *)(type))
    """
    bint is_instance(object candidate, PyObject *type_) noexcept

LETTERS = (*PLAIN_FORMATS.decode(), "Zf", "Zd", "")
"""The formats of plain items, in the order of letter_of()."""


cdef object type_named(object named):
    if is_instance(named, <PyObject *>_Datatype):
        return named
    return _codes.get(named) if isinstance(named, str) else None


cdef Py_ssize_t whole_number(object value) noexcept:
    cdef Py_ssize_t number
    if not PyLong_CheckExact(value) and not PyIndex_Check(value):
        return -1
    number = as_ssize(value, OverflowError)
    if number < 0:
        PyErr_Clear()
        return -1
    return number


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


cdef Py_ssize_t hold_items(object where, bint writable, object datatype, bint of_nothing, Span *span) except -1:
    cdef Py_ssize_t size = 0
    cdef TypeRecord type_
    span.held, span.letter, span.type = False, -1, NULL
    if datatype is not None:
        type_ = <TypeRecord>record_of(datatype)
        if not type_.dense or type_.size <= 0:
            return 0
        size = type_.size
        if of_nothing and (where is None or where is BOTTOM):
            hold_nothing(&span.view)
        elif not hold(where, writable, 0, &span.view):
            return 0
        span.view.itemsize = size
    else:
        if not hold(where, writable, PyBUF_FORMAT, &span.view):
            return 0
        if isinstance(where, buffer):  # it exports bytes, and may know more of them
            with cython.critical_section(where):
                span.letter = letter_of((<buffer>where).view.format)
                span.view.itemsize = (<buffer>where).view.itemsize
        else:
            span.letter = letter_of(span.view.format)
        size = span.view.itemsize
        if span.letter < 0 or size <= 0:
            PyBuffer_Release(&span.view)
            return 0
    span.held = True
    return size


@cython.cdivision(True)
cdef object read_span(object argument, Span *span, bint writable, int blocks, bint gaps=False):
    cdef Py_ssize_t number, size, items, count = -1, displacement = 0
    cdef bint fits, found
    where, datatype, counts = argument, None, None
    cdef TypeRecord type_
    span.held, span.type = False, NULL
    if isinstance(argument, (list, tuple)):
        number = len(argument)
        if number < 2 or number > 4:
            return None
        where = argument[0]
        if number == 2:
            datatype = type_named(argument[1])
        elif argument[number - 1] is not None:
            datatype = type_named(argument[number - 1])
            if datatype is None:
                return None
        if number > 2 or datatype is None:
            counts = argument[1]
            displacements = argument[2] if number == 4 else None
            if isinstance(counts, (list, tuple)) and number < 4:
                if len(counts) != 2:
                    return None
                counts, displacements = counts
            if displacements is not None:
                displacement = whole_number(displacements)
            if counts is not None:
                count = whole_number(counts)
                if count < 0:
                    return None
            if displacement < 0:
                return None
        if gaps and datatype is not None:
            type_ = <TypeRecord>record_of(datatype)
            if not type_.dense:
                found = hold_gaps(where, writable, type_, counts is not None, count, displacement, max(blocks, 1), span)
                return datatype if found else None
    size = hold_items(where, writable, datatype, count == 0, span)
    if size == 0:
        return None
    items = span.view.len // size
    fits = displacement <= items and (counts is not None or items * size == span.view.len)
    items -= displacement
    if blocks > 1:
        fits = fits and (counts is not None or items % blocks == 0)
        items //= blocks
    else:
        blocks = 1
    if counts is None:
        count = items
    if not fits or count > items:  # a product of large numbers would be another number
        span.held = False
        PyBuffer_Release(&span.view)
        return None
    if displacement:
        span.view.buf = <char *>span.view.buf + displacement * size
    span.view.len = count * size * blocks
    span.view.itemsize = size
    return True if datatype is None else datatype
