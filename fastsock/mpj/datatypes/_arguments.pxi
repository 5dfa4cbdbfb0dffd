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


cdef list _by_letter = [None] * 128


cdef object _of_format(const char *format):
    cdef unsigned char letter = format[0]
    if letter == 0 or format[1] != 0 or letter >= 128:
        return _formats.get(format.decode())
    found = _by_letter[letter]
    if found is None:
        found = _by_letter[letter] = _formats.get(format.decode())
    return found


cpdef Simple simple(message, bint readonly, Py_ssize_t blocks=0):
    """Reads a message argument; buffers.py has the rules. The usual ones are read here: a buffer, or [buf(, n), type]."""
    cdef object where = message, datatype = None
    cdef Py_ssize_t count = -1, size, length
    cdef Py_ssize_t parts
    cdef uintptr_t address
    cdef buffer memory
    if type(message) is list or type(message) is tuple:
        parts = len(message)
        if parts < 2 or parts > 3:
            return _general(message, readonly, blocks)
        where = message[0]
        datatype = message[parts - 1]
        if type(datatype) is str:
            datatype = _codes.get(datatype)
        if type(datatype) is not _Datatype:
            return _general(message, readonly, blocks)
        if parts == 3:
            if type(message[1]) is not int:
                return _general(message, readonly, blocks)
            count = message[1]
            if count < 0:
                return _general(message, readonly, blocks)
    if not PyObject_CheckBuffer(where) or isinstance(where, _Place):
        return _general(message, readonly, blocks)
    memory = acquire(where, readonly, datatype is None)
    with cython.critical_section(memory):  # one that was given as such may be released meanwhile
        address = <uintptr_t>memory.view.buf
        length = memory.view.len
        if datatype is None:
            datatype = _formats[""] if memory.view.format == NULL else _of_format(memory.view.format)
    if datatype is None:
        return _general(message, readonly, blocks)
    record = datatype.ob
    size = record.size
    if size <= 0 or not record.dense:
        return _general(message, readonly, blocks)
    if count < 0:
        count = length // size
        if count * size != length:
            return _general(message, readonly, blocks)
        if blocks > 1:
            if count % blocks:
                return _general(message, readonly, blocks)
            count //= blocks
    elif count > length // size // (blocks if blocks > 1 else 1):
        return _general(message, readonly, blocks)
    cdef Simple found = Simple.__new__(Simple)
    found.address = address
    found.count = count
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
