# Part of _collectives: items with gaps. What travels, and what the kernels take of pairs for MAXLOC and MINLOC, has none:
# the bytes of the message. What lies in the gaps of the program's memory stays as it is.


@cython.final
@cython.no_gc_clear
cdef class Packed:
    """The data of items with gaps, in memory of its own. Whoever lets go of it last brings them back to the items."""
    cdef Span span
    cdef TypeRecord type
    cdef Py_ssize_t length
    cdef unsigned char *data
    cdef bint writable

    cdef int fill(self, Py_ssize_t length) except -1:
        """With its items' memory held."""
        self.data = <unsigned char *>take_room(length)
        self.length = length
        return gather(self.type, self.span.view.buf, 0, self.data, length)

    def __dealloc__(self):
        if self.data != NULL and self.writable:
            scatter(self.type, self.data, self.length, self.span.view.buf, 0)
        give_room(self.data)
        release_span(&self.span)


cdef int take_items(object argument, bint writable, Taken *taken, int blocks, bint moving) except -2:
    """As take(), and items with gaps too: pairs, and any where the call only moves them. These are bytes then."""
    cdef Packed packed
    cdef TypeRecord type_
    cdef Py_ssize_t size
    cdef int kind = take(argument, writable, taken, blocks)
    if kind >= 0 or not isinstance(argument, (list, tuple)):
        return kind
    packed = Packed.__new__(Packed)
    if read_span(argument, &packed.span, writable, blocks, True) is None or packed.span.type == NULL:
        return -1
    packed.type = type_ = <TypeRecord>packed.span.type
    if not type_.asked:
        ask_kernels(type_)
    if moving:
        kind, taken.operations, size = type_of_letter[LETTERS_MOST - 1], 0, 1
    else:
        kind, taken.operations, size = type_.kernel_type, type_.operations, type_.size
    if kind < 0:
        return -1
    packed.fill(packed.span.view.len)
    packed.writable = writable
    taken.span.letter, taken.span.held, taken.span.type = -1, True, NULL
    taken.span.view.buf, taken.span.view.len, taken.span.view.itemsize = packed.data, packed.length, size
    taken.span.view.obj = <PyObject *>packed  # releasing the view lets go of it
    Py_INCREF(packed)
    return kind
