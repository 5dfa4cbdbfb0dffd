# Part of _collectives: operations of the program's own, on memory as it lies.

@cython.final
cdef class Own:
    """An operation of the program's own, on items of a datatype without gaps."""
    cdef object function, record

    cdef int combine(self, void *source, void *target, Py_ssize_t length) except -1:
        datatype = new_handle(Datatype, self.record)
        try:
            self.function(memory_at(source, length, True), memory_at(target, length, False), datatype)
        finally:
            refer(datatype, null_type)
        return 0


cdef object null_type = Datatype.null
cdef object record_class = None  # OpRecord, once it is asked for: the module stands above this one


cdef object function_of(object op):
    """The program's, of an operation of its own; else None."""
    global record_class
    if record_class is None:
        record_class = import_module("fastsock.mpj.datatypes.op").OpRecord
    record = getattr(op, "ob", None)
    return record.function if isinstance(record, record_class) and not record.name else None


cdef object hold_dense(object argument, bint writable, Span *span):
    """The record of the type of its items, which have no gaps; None where the general path is to look at it, and then
    nothing is held."""
    datatype = read_span(argument, span, writable, 1)
    if datatype is None:
        return None
    return record_of(of_format(LETTERS[span.letter]) if datatype is True else datatype)
