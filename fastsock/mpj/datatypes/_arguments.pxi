# Message arguments: which items of which datatype, and their bytes to send or to receive into.

cdef class Simple:
    """`count` items of a datatype, one after another from `address` on; `owner` is the buffer of that memory."""

    def __init__(self, uintptr_t address, Py_ssize_t count, datatype, owner):
        self.address = address
        self.count = count
        self.datatype = datatype
        self.owner = owner


# What buffers.py is asked where the arguments are not of the usual kind. Set once, while the package is imported.
cdef object _Datatype = None
cdef TypeRecord _null = None
cdef dict _codes = {}
cdef dict _formats = {}
cdef object _general = None


def configure(datatype_class, dict codes, dict formats, general):
    """Tells this module what it cannot import: the class Datatype, types by code, the rules for rarer arguments."""
    global _Datatype, _null, _codes, _formats, _general
    _Datatype, _null, _codes, _formats, _general = datatype_class, datatype_class.null, codes, formats, general
    find_slots(datatype_class)


cdef list _by_letter = [None] * LETTERS_MOST


cdef object _of_letter(int letter):
    """The datatype of plain items; None where the general rules were not asked for it yet."""
    found = _by_letter[letter]
    if found is None:
        found = _by_letter[letter] = _formats.get(LETTERS[letter])
    return found


cpdef Simple simple(message, bint readonly, Py_ssize_t blocks=0):
    """Reads a message argument; buffers.py has the rules. Items without gaps are read here."""
    cdef Span span
    cdef Simple found
    cdef buffer memory
    cdef Py_ssize_t count
    datatype = read_span(message, &span, not readonly, blocks, blocks <= 1)
    if datatype is None:
        return _general(message, readonly, blocks)
    count = span.view.len // span.view.itemsize // max(blocks, 1)
    if span.type != NULL:
        Py_DECREF(<object>span.type)
    memory = buffer.__new__(buffer)
    memory.view = span.view  # and lets go of it
    if datatype is True:
        datatype = _of_letter(span.letter)
        if datatype is None:
            return _general(message, readonly, blocks)
    found = Simple.__new__(Simple)
    found.address = <uintptr_t>memory.view.buf
    found.count = count
    found.datatype = datatype
    found.owner = memory
    return found


def outgoing(uintptr_t address, Py_ssize_t count, datatype):
    """Returns the data of items as contiguous bytes to send: the memory itself where the type is dense, else a copy."""
    cdef TypeRecord type_ = <TypeRecord?>datatype.ob
    cdef buffer packed
    cdef Py_ssize_t size = data_bytes(type_, count)
    if type_.dense or size == 0:
        return _part(None, <void *>address if size else NULL, size, False)
    packed = buffer.allocate(size)
    gather(type_, <void *>address, 0, packed.view.buf, size)
    return packed


@cython.final
cdef class Landing:
    """Puts what arrived where it belongs."""
    cdef uintptr_t address
    cdef TypeRecord type
    cdef buffer packed

    def __call__(self, Py_ssize_t nbytes):
        if not 0 <= nbytes <= self.packed.view.len:
            raise ValueError(f"{nbytes} bytes did not arrive in {self.packed.view.len}")
        scatter(self.type, self.packed.view.buf, nbytes, <void *>self.address, 0)


def landing(uintptr_t address, Py_ssize_t count, datatype):
    """Returns contiguous bytes to receive into, and what to call with the number of bytes that arrived there.

    That is None where the type is dense: then the bytes are the memory itself.
    """
    cdef TypeRecord type_ = <TypeRecord?>datatype.ob
    cdef Landing finish
    cdef Py_ssize_t size = data_bytes(type_, count)
    if type_.dense or size == 0:
        return _part(None, <void *>address if size else NULL, size, False), None
    finish = Landing.__new__(Landing)
    finish.address, finish.type, finish.packed = address, type_, buffer.allocate(size)
    return finish.packed, finish


cdef Py_ssize_t data_bytes(TypeRecord type_, Py_ssize_t count) except -1:
    cdef int over = 0
    cdef int64_t size = fs_times(type_.size, count, &over)
    if count and type_.combiner < 0:  # no items may be of the null datatype: calls with a type for each rank name it
        raise MPIException(ERR_TYPE, "the datatype is null: it was freed, or never made")
    if over or size < 0:
        raise ValueError(f"{count} items of {type_.size} bytes each are no message")
    return size
