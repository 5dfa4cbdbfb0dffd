# Part of _collectives: pairs for MAXLOC and MINLOC whose C structures have gaps. What travels, and what the kernels take,
# has none: the bytes of the message. What lies in the gaps of the program's memory stays as it is.

cdef Py_ssize_t LONG_COPY = 32 * 1024  # from here the interpreter's lock is given up for a copy


@cython.final
cdef class Packed:
    """The data of items with gaps, in memory of its own. Whoever lets go of it last brings them back to the items."""
    cdef Py_buffer origin, runs
    cdef int64_t extent
    cdef Py_ssize_t length
    cdef unsigned char *data
    cdef bint holds_origin, holds_runs, writable

    cdef int fill(self, TypeMap type_, Py_ssize_t count) except -1:
        """With its origin held."""
        PyObject_GetBuffer(type_.runs, &self.runs, PyBUF_ANY_CONTIGUOUS)
        self.holds_runs = True
        self.extent, self.length = type_.extent, count * type_.size
        self.data = <unsigned char *>malloc(max(self.length, 1))
        if self.data == NULL:
            raise MemoryError()
        self.move(pack_items)
        return 0

    cdef void move(self, void (*items)(unsigned char *, void *, const Py_buffer *, int64_t, int64_t) noexcept nogil) noexcept:
        if self.length < LONG_COPY:
            items(self.data, self.origin.buf, &self.runs, self.extent, self.length)
        else:
            with nogil:
                items(self.data, self.origin.buf, &self.runs, self.extent, self.length)

    def __dealloc__(self):
        if self.data != NULL and self.writable:
            self.move(unpack_items)
        free(self.data)
        if self.holds_runs:
            PyBuffer_Release(&self.runs)
        if self.holds_origin:
            PyBuffer_Release(&self.origin)


cdef int take_pairs(object argument, bint writable, Taken *taken, int blocks) except -2:
    """As take(), and pairs with gaps too."""
    cdef Py_ssize_t number, items, count = 0
    cdef Packed packed
    cdef TypeMap type_
    if not isinstance(argument, (list, tuple)):
        return take(argument, writable, taken, blocks)
    number = len(argument)
    datatype = type_named(argument[number - 1]) if 2 <= number <= 3 else None
    if datatype is None:
        return take(argument, writable, taken, blocks)
    type_ = <TypeMap>datatype.ob
    if type_.dense or type_.extent <= 0:
        return take(argument, writable, taken, blocks)
    if not type_.asked:
        ask_kernels(type_)
    if number == 3:
        count = whole_number(argument[1])
    if type_.kernel_type < 0 or count < 0:
        return -1
    packed = Packed.__new__(Packed)
    if not hold(argument[0], writable, 0, &packed.origin):
        return -1
    packed.holds_origin = True
    items = packed.origin.len // type_.extent // blocks
    if number == 2:  # all of the memory
        count = items
        if count * blocks * type_.extent != packed.origin.len:
            return -1
    if count > items:
        return -1
    packed.fill(type_, count * blocks)
    packed.writable = writable
    taken.operations = type_.operations
    taken.span.letter, taken.span.held = -1, True
    taken.span.view.buf, taken.span.view.len, taken.span.view.itemsize = packed.data, packed.length, type_.size
    taken.span.view.obj = <PyObject *>packed  # releasing the view lets go of it
    Py_INCREF(packed)
    return type_.kernel_type
