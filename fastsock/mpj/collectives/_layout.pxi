# Part of _collectives: where the blocks of a `v` call lie, read from [buf, counts, displacements, type] and its short
# forms, and those of a `w` call.

cdef extern from "Python.h":
    Py_ssize_t PyNumber_AsSsize_t(object, object) except? -1


cdef struct Layout:
    size_t[FS_TEAM_MOST] sizes, offsets  # bytes


cdef inline void equal_blocks(Layout *layout, size_t block, int many) noexcept:
    cdef int i
    for i in range(many):
        layout.sizes[i] = block
        layout.offsets[i] = i * block


cdef Py_ssize_t bytes_of_item(object datatype) except -1:
    """Of one item, or 0 where items are not just bytes in a row."""
    cdef TypeRecord type_ = <TypeRecord>record_of(datatype)
    return type_.size if type_.dense else 0


cdef bint take_numbers(object values, size_t *into, int many, Py_ssize_t limit) except -1:
    """So many numbers between 0 and the limit out of a list, a tuple or an array; False where they are anything else."""
    cdef Py_buffer view
    cdef Py_ssize_t number
    cdef int i
    if isinstance(values, (list, tuple)):
        if len(values) != many:
            return False
        for i in range(many):
            try:
                number = PyNumber_AsSsize_t(values[i], OverflowError)
            except (TypeError, OverflowError):
                return False
            if not 0 <= number <= limit:
                return False
            into[i] = number
        return True
    if not PyObject_CheckBuffer(values):
        return False
    try:
        PyObject_GetBuffer(values, &view, PyBUF_FORMAT | PyBUF_ANY_CONTIGUOUS)
    except (BufferError, ValueError, TypeError):
        return False
    try:
        if view.ndim != 1 or view.format == NULL or view.format[0] == 0 or view.format[1] != 0 or view.len != view.itemsize * many:
            return False
        for i in range(many):
            if view.itemsize == sizeof(long) and view.format[0] in b"lq":
                number = (<const long *>view.buf)[i]
            elif view.itemsize == sizeof(int) and view.format[0] == c"i":
                number = (<const int *>view.buf)[i]
            else:
                return False
            if not 0 <= number <= limit:
                return False
            into[i] = number
    finally:
        PyBuffer_Release(&view)
    return True


cdef bint repeated(object value, size_t *into, int many, bint as_step, Py_ssize_t limit) except -1:
    """One number, for all, or as the step from each to the next; False where it is no such number."""
    cdef Py_ssize_t number = whole_number(value) if type(value) is int else -1
    cdef int i
    if not 0 <= number <= limit:
        return False
    for i in range(many):
        into[i] = number * i if as_step else number
    return True


cdef bint take_layout(object argument, bint writable, Span *span, Layout *layout, int many) except -1:
    """The memory of so many blocks and where they lie in it; False where the general path is to look at the argument,
    and then nothing is held."""
    cdef Py_ssize_t itemsize, items, next_one = 0
    cdef int i, given
    counts = displacements = datatype = named = None
    where = argument
    if isinstance(argument, (list, tuple)):
        given = len(argument)
        if given < 2 or given > 4:
            return False
        where = argument[0]
        if given == 4:
            counts, displacements, named = argument[1], argument[2], argument[3]
        elif given == 3:
            counts, named = argument[1], argument[2]
        else:
            datatype = type_named(argument[1])
            if datatype is None:
                counts = argument[1]
        if given < 4 and isinstance(counts, tuple):
            if len(counts) != 2:
                return False
            counts, displacements = counts
        if named is not None:
            datatype = type_named(named)
            if datatype is None:
                return False
    itemsize = hold_items(where, writable, datatype, counts is not None, span)
    if itemsize == 0:
        return False
    items = span.view.len // itemsize
    if take_counts(counts, span, layout, many, itemsize) and (
            displacements is None or take_numbers(displacements, layout.offsets, many, items)
            or repeated(displacements, layout.offsets, many, True, items)):
        for i in range(many):
            if displacements is None:
                layout.offsets[i] = next_one
                next_one += layout.sizes[i]
            if layout.offsets[i] > <size_t>items or layout.sizes[i] > items - layout.offsets[i]:
                break
            layout.sizes[i] *= itemsize
            layout.offsets[i] *= itemsize
        else:
            return True
    span.held = False
    PyBuffer_Release(&span.view)
    return False


cdef bint take_counts(object counts, Span *span, Layout *layout, int many, Py_ssize_t itemsize) except -1:
    """So many items has each block: without counts they share the memory, and the first ones take what is over."""
    cdef Py_ssize_t items = span.view.len // itemsize
    cdef int i
    if counts is not None:
        return take_numbers(counts, layout.sizes, many, items) or repeated(counts, layout.sizes, many, False, items)
    if many < 1 or items * itemsize != span.view.len:
        return False
    for i in range(many):
        layout.sizes[i] = items // many + (i < items % many)
    return True


cdef bint take_typed_layout(object argument, bint writable, Span *span, Layout *layout, int many) except -1:
    """As take_layout(), of blocks with a datatype each and displacements in bytes."""
    cdef Py_buffer *view = &span.view
    cdef Py_ssize_t itemsize
    cdef int i, given
    if not isinstance(argument, (list, tuple)):
        return False
    given = len(argument)
    if given == 4:
        counts, displacements = argument[1], argument[2]
    elif given == 3 and isinstance(argument[1], (list, tuple)) and len(argument[1]) == 2:
        counts, displacements = argument[1]
    else:
        return False
    datatypes = argument[given - 1]
    if not isinstance(datatypes, (list, tuple)) or len(datatypes) != many:
        return False
    if not hold(argument[0], writable, 0, view):
        return False
    if take_numbers(counts, layout.sizes, many, view.len) and take_numbers(displacements, layout.offsets, many, view.len):
        for i in range(many):
            if not isinstance(datatypes[i], Datatype):
                break
            itemsize = bytes_of_item(datatypes[i])
            if itemsize == 0 or layout.sizes[i] > (<size_t>view.len - layout.offsets[i]) // <size_t>itemsize:
                break
            layout.sizes[i] *= itemsize
        else:
            return True
    PyBuffer_Release(view)
    return False
