# The calls of Datatype that make types of others, and give them up.
from operator import index

from ..constants import (
    COMBINER_CONTIGUOUS, COMBINER_DARRAY, COMBINER_DUP, COMBINER_HINDEXED, COMBINER_HINDEXED_BLOCK, COMBINER_HVECTOR,
    COMBINER_INDEXED, COMBINER_INDEXED_BLOCK, COMBINER_NAMED, COMBINER_RESIZED, COMBINER_STRUCT, COMBINER_SUBARRAY, COMBINER_VECTOR,
    COMBINER_F90_COMPLEX, COMBINER_F90_INTEGER, COMBINER_F90_REAL, COMBINER_VALUE_INDEX,
    DISTRIBUTE_BLOCK, DISTRIBUTE_CYCLIC, DISTRIBUTE_DFLT_DARG, DISTRIBUTE_NONE,
    ERR_ARG, ERR_COUNT, ERR_TYPE, ORDER_C, ORDER_FORTRAN,
)

_PREDEFINED = frozenset(
    (COMBINER_NAMED, COMBINER_VALUE_INDEX, COMBINER_F90_INTEGER, COMBINER_F90_REAL, COMBINER_F90_COMPLEX)
)

cdef TypeRecord type_of(object datatype):
    """The record of a handle. Raises where it is null."""
    cdef TypeRecord record
    if not is_instance(datatype, <PyObject *>_Datatype):
        raise TypeError(f"expected a Datatype, got a {type(datatype).__name__}")
    record = <TypeRecord>record_of(datatype)
    if record.combiner < 0:
        raise MPIException(ERR_TYPE, "the datatype is null: it was freed, or never made")
    return record


cdef int64_t whole(object value) except? -1:
    return PyLong_AsLongLong(value if PyLong_CheckExact(value) else index(value))


cdef int64_t amount(object value) except -1:
    cdef int64_t found = whole(value)
    if found < 0:
        raise MPIException(ERR_COUNT, f"{found} is negative")
    return found


cdef tuple numbers(object values, Py_ssize_t expected):
    """Exact integers."""
    cdef tuple found = tuple(values)
    if 0 <= expected != len(found):
        raise ValueError(f"expecting {expected} items, got {len(found)}")
    for value in found:
        if not PyLong_CheckExact(value):
            return tuple([index(each) for each in found])
    return found


cdef TypeRecord in_order(int combiner, tuple types, tuple head, tuple lengths, int64_t length, tuple places, int64_t unit):
    """Blocks of one type or of one each, at places in so many bytes; without lengths they have one."""
    cdef Py_ssize_t i, count = len(places)
    cdef fs_run *blocks = <fs_run *>malloc(max(count, 1) * sizeof(fs_run))
    cdef int over = 0
    if blocks == NULL:
        raise MemoryError()
    try:
        for i in range(count):
            blocks[i].offset = fs_times(PyLong_AsLongLong(places[i]), unit, &over)
            blocks[i].length = length if lengths is None else amount(lengths[i])
        if over:
            too_large()
        contents = new_contents((), head + places if lengths is None else head + (lengths + places), types)
        return in_blocks(combiner, contents, types, &blocks, count)
    finally:
        free(blocks)


class MakesTypes:
    """What datatypes are made by."""

    __slots__ = ()

    def Create_contiguous(self, count):
        """Return a datatype of `count` items, one after another."""
        cdef TypeRecord old = type_of(self)
        cdef int64_t items = amount(count)
        contents = new_contents((), (items,), (old,))
        return new_handle(type(self), regular(old, COMBINER_CONTIGUOUS, contents, 1, items, 0))

    def Create_vector(self, count, blocklength, stride):
        """Return a datatype of `count` blocks of items; `stride` extents lie between their beginnings."""
        cdef TypeRecord old = type_of(self)
        cdef int64_t blocks = amount(count), length = amount(blocklength), step = whole(stride)
        cdef int over = 0
        contents = new_contents((), (blocks, length, step), (old,))
        step = fs_times(step, old.extent, &over)
        if over:
            too_large()
        return new_handle(type(self), regular(old, COMBINER_VECTOR, contents, blocks, length, step))

    def Create_hvector(self, count, blocklength, stride):
        """Return a datatype of `count` blocks of items; `stride` bytes lie between their beginnings."""
        cdef TypeRecord old = type_of(self)
        cdef int64_t blocks = amount(count), length = amount(blocklength), step = whole(stride)
        contents = new_contents((), (blocks, length, step), (old,))
        return new_handle(type(self), regular(old, COMBINER_HVECTOR, contents, blocks, length, step))

    def Create_indexed(self, blocklengths, displacements):
        """Return a datatype of blocks of any lengths at these displacements, in extents."""
        cdef TypeRecord old = type_of(self)
        cdef tuple lengths = numbers(blocklengths, -1), places = numbers(displacements, len(lengths))
        made = in_order(COMBINER_INDEXED, (old,), (len(lengths),), lengths, 0, places, old.extent)
        return new_handle(type(self), made)

    def Create_hindexed(self, blocklengths, displacements):
        """Return a datatype of blocks of any lengths at these displacements, in bytes."""
        cdef TypeRecord old = type_of(self)
        cdef tuple lengths = numbers(blocklengths, -1), places = numbers(displacements, len(lengths))
        return new_handle(type(self), in_order(COMBINER_HINDEXED, (old,), (len(lengths),), lengths, 0, places, 1))

    def Create_indexed_block(self, blocklength, displacements):
        """Return a datatype of blocks of one length at these displacements, in extents."""
        cdef TypeRecord old = type_of(self)
        cdef int64_t length = amount(blocklength)
        cdef tuple places = numbers(displacements, -1)
        made = in_order(COMBINER_INDEXED_BLOCK, (old,), (len(places), length), None, length, places, old.extent)
        return new_handle(type(self), made)

    def Create_hindexed_block(self, blocklength, displacements):
        """Return a datatype of blocks of one length at these displacements, in bytes."""
        cdef TypeRecord old = type_of(self)
        cdef int64_t length = amount(blocklength)
        cdef tuple places = numbers(displacements, -1)
        made = in_order(COMBINER_HINDEXED_BLOCK, (old,), (len(places), length), None, length, places, 1)
        return new_handle(type(self), made)

    @classmethod
    def Create_struct(cls, blocklengths, displacements, datatypes):
        """Return a datatype of blocks of these lengths and datatypes at these displacements, in bytes."""
        cdef tuple lengths = numbers(blocklengths, -1), places = numbers(displacements, len(lengths))
        cdef tuple types
        for length in lengths:
            amount(length)
        if len(datatypes) != len(lengths):
            raise ValueError(f"expecting {len(lengths)} items, got {len(datatypes)}")
        types = tuple([type_of(datatype) for datatype in datatypes])
        return new_handle(cls, in_order(COMBINER_STRUCT, types, (len(lengths),), lengths, 0, places, 1))

    def Create_subarray(self, sizes, subsizes, starts, order=ORDER_C):
        """Return a datatype of a part of an array, with the extent of the whole array.

        `sizes` is the shape of the array, `subsizes` that of the part, `starts` where the part begins; `order` is
        ORDER_C or ORDER_FORTRAN.
        """
        cdef TypeRecord old = type_of(self)
        cdef tuple shape = numbers(sizes, -1)
        cdef tuple lengths = numbers(subsizes, len(shape)), firsts = numbers(starts, len(shape))
        contents = new_contents((len(shape), order), shape + lengths + firsts, (old,))
        return new_handle(type(self), of_array(old, contents, shape, lengths, firsts, order))

    def Create_darray(self, size, rank, gsizes, distribs, dargs, psizes, order=ORDER_C):
        """Return a datatype of a process's share of an array, with the extent of the whole array.

        The process is `rank` of `size`. `gsizes` is the shape of the array, `psizes` that of the grid of processes. For
        each dimension `distribs` and `dargs` say how it is shared out: DISTRIBUTE_BLOCK, DISTRIBUTE_CYCLIC or
        DISTRIBUTE_NONE, and the length of a block.
        """
        cdef TypeRecord old = type_of(self)
        cdef tuple shape = numbers(gsizes, -1)
        cdef tuple how = numbers(distribs, len(shape)), arguments = numbers(dargs, len(shape))
        cdef tuple grid = numbers(psizes, len(shape))
        contents = new_contents((size, rank, len(shape), *how, *arguments, *grid, order), shape, (old,))
        return new_handle(type(self), share_of(old, contents, whole(size), whole(rank), shape, how, arguments, grid, order))

    def Create_resized(self, lb, extent):
        """Return a datatype of the same data with another lower bound and extent, in bytes."""
        cdef TypeRecord old = type_of(self)
        cdef int64_t low = whole(lb), step = whole(extent)
        return new_handle(type(self), with_bounds(old, COMBINER_RESIZED, new_contents((), (low, step), (old,)), low, step))

    Resized = Create_resized

    def Dup(self):
        """Return a datatype of the same items, with the attributes that are copied."""
        cdef TypeRecord old = type_of(self)
        cdef TypeRecord made = with_bounds(old, COMBINER_DUP, new_contents((), (), (old,)), old.lb, old.extent)
        made.explicit = old.explicit
        if old.attributes_:
            self._copy_attributes(made)
        return new_handle(type(self), made)

    Create_dup = Dup

    # -- its life --

    def Commit(self):
        """Do nothing: a datatype is ready when it is made. Returns the datatype."""
        type_of(self)
        return self

    def Free(self):
        """Free the datatype: this handle becomes null. Raises MPI.Exception (ERR_TYPE) where it is predefined."""
        cdef TypeRecord record = type_of(self)
        if record.contents is None or record.combiner in _PREDEFINED:
            raise MPIException(ERR_TYPE, f"{record.name} is predefined and cannot be freed")
        if record.attributes_:
            self._delete_attributes()
        if not is_constant(self):
            refer(self, _null)


cdef TypeRecord of_array(TypeRecord old, object contents, tuple shape, tuple lengths, tuple firsts, object order):
    """The part of an array that begins at `firsts`: a loop for each dimension."""
    cdef TypeRecord made = based(old, COMBINER_SUBARRAY, contents)
    cdef Py_ssize_t i, place, dimensions = len(shape)
    cdef int64_t size, length, start, step = old.extent, first = 0, low = 0, high = 0, end
    cdef int over = 0
    cdef Bounds bounds
    for i in range(dimensions):
        size, length, start = whole(shape[i]), whole(lengths[i]), whole(firsts[i])
        if size < 1 or not 0 < length <= size or not 0 <= start <= size - length:
            raise MPIException(ERR_ARG, f"{length} elements from {start} are no part of {size}")
    if order != ORDER_C and order != ORDER_FORTRAN:
        raise MPIException(ERR_ARG, f"{order} is not an order of arrays")
    memset(&bounds, 0, sizeof(bounds))
    for i in range(dimensions):  # the innermost first
        place = i if order == ORDER_FORTRAN else dimensions - 1 - i
        size, length, start = whole(shape[place]), whole(lengths[place]), whole(firsts[place])
        first = fs_plus(first, fs_times(start, step, &over), &over)
        end = fs_times(length - 1, step, &over)
        low, high = fs_plus(low, min(end, 0), &over), fs_plus(high, max(end, 0), &over)
        made.elements = fs_times(made.elements, length, &over)
        step = fs_times(step, size, &over)
    bounds.over = over
    widen(&bounds, old, fs_plus(first, low, &bounds.over), fs_plus(first, high, &bounds.over))
    close_bounds(made, &bounds)
    set_bounds(made, 0, step)
    step = old.extent
    for i in range(dimensions):
        place = i if order == ORDER_FORTRAN else dimensions - 1 - i
        repeat(made, whole(lengths[place]), step)
        step *= whole(shape[place])
    made.layout.offset = fs_plus(made.layout.offset, first, &over)
    return closed(made)


# ---- shares of distributed arrays ----

cdef struct Share:
    int64_t first, block, blocks, stride, rest  # so many blocks, then one of `rest`; the indices begin `stride` apart


cdef int64_t end_of(const Share *share) noexcept:
    """One more than the last index."""
    cdef int64_t last = share.rest if share.rest else share.block
    cdef int64_t blocks = share.blocks if share.rest else share.blocks - 1
    return share.first + blocks * share.stride + last


cdef Share shared_out(object how, int64_t argument, int64_t size, int64_t processes, int64_t place):
    """The indices of one dimension that the process at `place` has."""
    cdef Share share = Share(0, size, 1, 0, 0)
    cdef int64_t block = argument, number
    if how == DISTRIBUTE_NONE:
        if processes != 1:
            raise MPIException(ERR_ARG, "a dimension that is not distributed has one process")
    elif how == DISTRIBUTE_BLOCK:
        if argument == DISTRIBUTE_DFLT_DARG:
            block = size // processes + (size % processes > 0)
        if block <= 0 or block < size // processes + (size % processes > 0):
            raise MPIException(ERR_ARG, f"{processes} blocks of {block} do not hold {size} elements")
        share.first = place * min(block, size)
        share.block = max(0, min(block, size - share.first))
    elif how == DISTRIBUTE_CYCLIC:
        if argument == DISTRIBUTE_DFLT_DARG:
            block = 1
        if block <= 0:
            raise MPIException(ERR_ARG, f"a block of {block} elements: it has at least 1")
        block = min(block, size)
        number = size // block  # of whole blocks
        share.first, share.block, share.stride = place * block, block, processes * block
        share.blocks = number // processes + (place < number % processes)
        share.rest = size % block if place == number % processes else 0
    else:
        raise MPIException(ERR_ARG, f"{how} is not a kind of distribution")
    if share.blocks == 0 and share.rest or share.block == 0:
        share.block, share.blocks, share.rest = share.rest, 1, 0
    return share


cdef TypeRecord share_of(TypeRecord old, object contents, int64_t processes, int64_t rank, tuple shape, tuple how,
                         tuple arguments, tuple grid, object order):
    cdef TypeRecord made = based(old, COMBINER_DARRAY, contents), part
    cdef Share share
    cdef Bounds bounds
    cdef Py_ssize_t i, place, dimensions = len(shape)
    cdef int64_t left = rank, size, step = old.extent, here, number = 1, low = 0, high = 0, one, other
    cdef int over = 0
    cdef bint nothing = False
    cdef list coordinates = [0] * dimensions
    for i in range(dimensions):
        if whole(shape[i]) < 1 or whole(grid[i]) < 1:
            raise MPIException(ERR_ARG, f"{shape[i]} elements on {grid[i]} processes")
        number = fs_times(number, whole(grid[i]), &over)
    if over or number != processes or not 0 <= rank < processes:
        raise MPIException(ERR_ARG, f"rank {rank} of {processes} processes is not on the grid {grid}")
    if order != ORDER_C and order != ORDER_FORTRAN:
        raise MPIException(ERR_ARG, f"{order} is not an order of arrays")
    for place in reversed(range(dimensions)):  # in C's order, whatever the order of the array is
        here = whole(grid[place])
        coordinates[place], left = left % here, left // here
    memset(&bounds, 0, sizeof(bounds))
    for i in range(dimensions):  # the innermost first
        place = i if order == ORDER_FORTRAN else dimensions - 1 - i
        size = whole(shape[place])
        share = shared_out(how[place], whole(arguments[place]), size, whole(grid[place]), whole(coordinates[place]))
        if share.block == 0 or share.blocks == 0:
            nothing = True
        else:
            one, other = fs_times(share.first, step, &over), fs_times(end_of(&share) - 1, step, &over)
            low, high = fs_plus(low, min(one, other), &over), fs_plus(high, max(one, other), &over)
            made.elements = fs_times(made.elements, share.block * share.blocks + share.rest, &over)
            if over:
                too_large()
            part = None
            if share.rest:
                part = based(made, COMBINER_DARRAY, None)
                part.held = None  # until both are parts of the same
                repeat(part, share.rest, step)
                part.layout.offset += (share.first + share.blocks * share.stride) * step
            repeat(made, share.block, step)
            repeat(made, share.blocks, share.stride * step)
            made.layout.offset += one
            if part is not None:
                join(made, part)
        step = fs_times(step, size, &over)
    if over:
        too_large()
    if nothing:
        made = empty(COMBINER_DARRAY, contents)
    else:
        widen(&bounds, old, low, high)
        close_bounds(made, &bounds)
    set_bounds(made, 0, step)
    return closed(made)


cdef int join(TypeRecord made, TypeRecord behind) except -1:
    """Adds the data of another type behind those of one that is being made."""
    cdef TypeRecord first = TypeRecord.__new__(TypeRecord)
    cdef fs_piece *pieces = <fs_piece *>malloc(2 * sizeof(fs_piece))
    if pieces == NULL:
        raise MemoryError()
    first.layout, first.held, first.own_runs, first.own_pieces = made.layout, made.held, made.own_runs, made.own_pieces
    made.own_runs, made.own_pieces, made.held = NULL, pieces, (first, behind)
    behind.held = (behind.held, first)
    pieces[0] = fs_piece(0, 1, 0, &first.layout)
    pieces[1] = fs_piece(0, 1, 0, &behind.layout)
    return checked_layout(fs_layout_pieces(&made.layout, pieces, 2))
