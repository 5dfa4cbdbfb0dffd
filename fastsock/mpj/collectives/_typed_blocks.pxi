# Part of _collectives: the blocks of a `w` call whose items have gaps. What goes between the ranks has none.

@cython.final
cdef class TypedBlocks:
    """The memory of so many blocks with a datatype each, and a copy of their data, one after the other."""
    cdef Span span
    cdef Layout layout                 # in the copy
    cdef size_t[FS_TEAM_MOST] places   # in the memory
    cdef list types
    cdef void *data

    def __dealloc__(self):
        give_room(self.data)
        if self.span.held:
            PyBuffer_Release(&self.span.view)

    cdef int gather(self) except -1:
        cdef int i
        for i in range(len(self.types)):
            gather(<TypeRecord>self.types[i], <char *>self.span.view.buf + self.places[i], 0,
                   <char *>self.data + self.layout.offsets[i], self.layout.sizes[i])
        return 0

    cdef int scatter(self) except -1:
        cdef int i
        for i in range(len(self.types)):
            scatter(<TypeRecord>self.types[i], <char *>self.data + self.layout.offsets[i], self.layout.sizes[i],
                    <char *>self.span.view.buf + self.places[i], 0)
        return 0


cdef TypedBlocks take_typed_blocks(object argument, bint writable, int many):
    """None where the general path is to look at the argument."""
    cdef TypedBlocks found
    cdef TypeRecord type_
    cdef Py_ssize_t size, total = 0
    cdef int i, given
    if not isinstance(argument, (list, tuple)):
        return None
    given = len(argument)
    if given == 4:
        counts, displacements = argument[1], argument[2]
    elif given == 3 and isinstance(argument[1], (list, tuple)) and len(argument[1]) == 2:
        counts, displacements = argument[1]
    else:
        return None
    datatypes = argument[given - 1]
    if not isinstance(datatypes, (list, tuple)) or len(datatypes) != many:
        return None
    found = TypedBlocks.__new__(TypedBlocks)
    if not hold(argument[0], writable, 0, &found.span.view):
        return None
    found.span.held = True
    found.types = []
    if not (take_numbers(counts, found.layout.sizes, many, PY_SSIZE_T_MAX)
            and take_numbers(displacements, found.places, many, found.span.view.len)):
        return None
    for i in range(many):
        if not isinstance(datatypes[i], Datatype):
            return None
        type_ = <TypeRecord>datatypes[i].ob
        if type_.combiner < 0 and found.layout.sizes[i]:
            return None
        if not lies_within(type_, found.layout.sizes[i], found.places[i], found.span.view.len, &size):
            return None
        found.types.append(type_)
        found.layout.sizes[i], found.layout.offsets[i] = size, total
        if size > PY_SSIZE_T_MAX - total:
            return None
        total += size
    found.data = take_room(total)
    return found
