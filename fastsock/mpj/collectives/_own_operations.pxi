# Part of _collectives: operations of the program's own, on memory as it lies.

@cython.final
cdef class Own:
    """An operation of the program's own, on items of a datatype without gaps."""
    cdef object function, record

    cdef int combine(self, void *source, void *target, Py_ssize_t length) except -1:
        datatype = Datatype.of(self.record)
        try:
            self.function(buffer.fromaddress(<uintptr_t>source, length, True),
                          buffer.fromaddress(<uintptr_t>target, length), datatype)
        finally:
            datatype.ob = Datatype.null
        return 0


cdef object record_class = None  # OpRecord, once it is asked for: the module stands above this one


cdef object function_of(object op):
    """The program's, of an operation of its own; else None."""
    global record_class
    if record_class is None:
        record_class = import_module("fastsock.mpj.datatypes.op").OpRecord
    record = getattr(op, "ob", None)
    return record.function if isinstance(record, record_class) and not record.name else None


cdef Own own_operation(object op, object argument):
    """None where the operation is none of the program's own, or the items of the argument are not all bytes."""
    cdef Own own
    function = function_of(op)
    if function is None:
        return None
    datatype = simple(argument, False).datatype
    if not (<TypeRecord>datatype.ob).dense:
        return None
    own = Own.__new__(Own)
    own.function, own.record = function, datatype.ob
    return own
