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
cdef dict _codes = {}
cdef dict _formats = {}
cdef object _general = None
cdef object _outgoing = None
cdef object _landing = None


def configure(datatype_class, dict codes, dict formats, general, outgoing_packed, landing_packed):
    """Tells this module what it cannot import: the class Datatype, types by code, the rules for rarer arguments."""
    global _Datatype, _codes, _formats, _general, _outgoing, _landing
    _Datatype, _codes, _formats = datatype_class, codes, formats
    _general, _outgoing, _landing = general, outgoing_packed, landing_packed


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
    datatype = read_span(message, &span, not readonly, blocks)
    if datatype is None:
        return _general(message, readonly, blocks)
    memory = buffer.__new__(buffer)
    memory.view = span.view  # and lets go of it
    if datatype is True:
        datatype = _of_letter(span.letter)
        if datatype is None:
            return _general(message, readonly, blocks)
    found = Simple.__new__(Simple)
    found.address = <uintptr_t>memory.view.buf
    found.count = memory.view.len // memory.view.itemsize // max(blocks, 1)
    found.datatype = datatype
    found.owner = memory
    return found


cdef Py_ssize_t _dense_bytes(object datatype, Py_ssize_t count) except -2:
    """The number of bytes of items; -1 where the type is not dense."""
    record = datatype.ob
    if not record.dense:
        return -1
    return <Py_ssize_t>record.size * count


def outgoing(uintptr_t address, Py_ssize_t count, datatype):
    """Returns the data of items as contiguous bytes to send: the memory itself where the type is dense."""
    cdef Py_ssize_t size = _dense_bytes(datatype, count)
    if size > 0:
        return _part(None, <void *>address, size, False)
    return _outgoing(address, count, datatype)


def landing(uintptr_t address, Py_ssize_t count, datatype):
    """Returns contiguous bytes to receive into, and what to call with the number of bytes that arrived there.

    That is None where the type is dense: then the bytes are the memory itself.
    """
    cdef Py_ssize_t size = _dense_bytes(datatype, count)
    if size > 0:
        return _part(None, <void *>address, size, False), None
    return _landing(address, count, datatype)
