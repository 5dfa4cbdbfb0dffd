# Type maps as the core copies them: loops, and in them blocks, runs or other maps.
from cpython.long cimport PyLong_AsLongLong, PyLong_CheckExact
from libc.stdlib cimport free, malloc

cdef extern from *:
    """
    static inline int64_t fs_plus(int64_t a, int64_t b, int *over)
    {
        int64_t sum;
        *over |= __builtin_add_overflow(a, b, &sum);
        return sum;
    }
    static inline int64_t fs_times(int64_t a, int64_t b, int *over)
    {
        int64_t product;
        *over |= __builtin_mul_overflow(a, b, &product);
        return product;
    }
    """
    int64_t fs_plus(int64_t a, int64_t b, int *over) noexcept
    int64_t fs_times(int64_t a, int64_t b, int *over) noexcept

cdef object _parts_of = None
cdef object _runs_of = None
cdef object _numbered = None
cdef object MPIException = None


def configure_types(parts_of, runs_of, numbered, error_class):
    """Tells this module what it cannot import: what a type is made of, its list of runs, numbers, and MPI.Exception."""
    global _parts_of, _runs_of, _numbered, MPIException
    _parts_of, _runs_of, _numbered, MPIException = parts_of, runs_of, numbered, error_class


@cython.freelist(32)
cdef class Contents:
    """The arguments that a derived type was made with."""

    def __init__(self, integers, counts, types):
        self.integers, self.counts, self.types = tuple(integers), tuple(counts), tuple(types)


cdef Contents new_contents(tuple integers, tuple counts, tuple types):
    cdef Contents made = Contents.__new__(Contents)
    made.integers, made.counts, made.types = integers, counts, types
    return made


@cython.freelist(32)
cdef class TypeRecord:
    """What a datatype's handles refer to, as `Record` is; never changes once made, but for its name and attributes."""

    def __cinit__(self):
        self.name = self.kind = self.code = self.constant_name = ""
        self.alignment = 1

    def __dealloc__(self):
        free(self.own_runs)
        free(self.own_pieces)

    @property
    def number(self):
        """An integer that stands for it, given on first request."""
        with cython.critical_section(self):
            if not self.number_:
                self.number_ = _numbered(self)
            return self.number_

    @property
    def attributes(self):
        """What the program attached to it."""
        with cython.critical_section(self):
            if self.attributes_ is None:
                self.attributes_ = {}
            return self.attributes_

    @property
    def known(self):
        """Facts that other modules worked out about the type, by names that they choose. They live as long as the type."""
        with cython.critical_section(self):
            if self.known_ is None:
                self.known_ = {}
            return self.known_

    @property
    def parts(self):
        """What it is made of: copies of other types at displacements, in the order of its data."""
        if self.parts_ is None:
            self.parts_ = _parts_of(self)
        return self.parts_

    @parts.setter
    def parts(self, parts):
        self.parts_ = parts

    @property
    def runs(self):
        """(offset, length) of each contiguous piece of an item, in the order of its data; neighbours are joined."""
        if self.runs_ is None:
            self.runs_ = _runs_of(self)
        return self.runs_

    @property
    def true_ub(self):
        """The end of the data."""
        return self.true_lb + self.true_extent

    def basics(self, origin=0):
        """Yields (basic type, offset) of each basic element of one item, in the order of the data."""
        if not self.parts:
            if self.size:
                yield self, origin
            return
        for part in self.parts:
            for displacement, length in part.blocks():
                for item in range(length):
                    yield from part.type.basics(origin + displacement + item * part.type.extent)


class Part:
    """Copies of one type: at each displacement (in bytes) `lengths` of them (or `lengths[i]`), one extent apart."""

    __slots__ = ("displacements", "lengths", "type")

    def __init__(self, type_, displacements, lengths):
        self.type = type_
        self.displacements = displacements
        self.lengths = lengths

    def blocks(self):
        """(displacement, number of items) of each block that has any."""
        if isinstance(self.lengths, int):
            return [(place, self.lengths) for place in self.displacements] if self.lengths > 0 else ()
        return [(place, length) for place, length in zip(self.displacements, self.lengths, strict=True) if length > 0]

    def total(self):
        """The number of items."""
        if isinstance(self.lengths, int):
            return self.lengths * len(self.displacements)
        return sum(self.lengths)


# ---- making them ----

cdef struct Bounds:
    int64_t low, high, true_low, true_high
    bint some, some_data, marked
    int over  # a number was too large


cdef int too_large() except -1:
    raise OverflowError("a datatype whose sizes and places do not fit into 64 bits")


cdef void widen(Bounds *bounds, TypeRecord type_, int64_t first, int64_t last) noexcept:
    """Items lie at displacements from `first` to `last`."""
    cdef int64_t low = fs_plus(first, type_.lb, &bounds.over)
    cdef int64_t high = fs_plus(fs_plus(last, type_.lb, &bounds.over), type_.extent, &bounds.over)
    if type_.explicit and not bounds.marked:
        bounds.marked, bounds.some = True, False  # only those whose bounds were set count
    if type_.explicit or not bounds.marked:
        bounds.low = min(low, bounds.low) if bounds.some else low
        bounds.high = max(high, bounds.high) if bounds.some else high
        bounds.some = True
    if type_.size:
        low = fs_plus(first, type_.true_lb, &bounds.over)
        high = fs_plus(fs_plus(last, type_.true_lb, &bounds.over), type_.true_extent, &bounds.over)
        bounds.true_low = min(low, bounds.true_low) if bounds.some_data else low
        bounds.true_high = max(high, bounds.true_high) if bounds.some_data else high
        bounds.some_data = True


cdef void widen_by_block(Bounds *bounds, TypeRecord type_, int64_t place, int64_t length) noexcept:
    """So many items, one after another."""
    cdef int64_t last = fs_plus(place, fs_times(length - 1, type_.extent, &bounds.over), &bounds.over)
    widen(bounds, type_, min(place, last), max(place, last))


cdef int close_bounds(TypeRecord made, Bounds *bounds) except -1:
    """Takes the bounds over. What is not set explicitly is padded."""
    cdef int64_t rest
    if bounds.some_data:
        made.true_lb = bounds.true_low
        made.true_extent = fs_plus(bounds.true_high, -bounds.true_low, &bounds.over)
    made.explicit = bounds.marked
    if bounds.some:
        made.lb = bounds.low
        made.extent = fs_plus(bounds.high, -bounds.low, &bounds.over)
        if not bounds.marked and made.extent > 0:
            rest = made.extent % made.alignment
            if rest:
                made.extent = fs_plus(made.extent, made.alignment - rest, &bounds.over)
    if bounds.over:
        too_large()
    return 0


cdef void set_bounds(TypeRecord made, int64_t lb, int64_t extent) noexcept:
    made.lb, made.extent, made.explicit = lb, extent, True


cdef TypeRecord closed(TypeRecord made):
    """With its layout and bounds: what follows from them."""
    cdef bint filled
    made.size = made.layout.size
    filled = made.true_lb == 0 and made.size == made.true_extent == made.extent
    made.dense = filled and (made.size == 0 or fs_layout_is_block(&made.layout) and made.layout.offset == 0)
    return made


cdef int checked_layout(int result) except -1:
    return too_large() if result == FS_LAYOUT_HUGE else 0


cdef int repeat(TypeRecord made, int64_t count, int64_t stride) except -1:
    """Repeats the data of a type that is being made."""
    cdef TypeRecord inner
    cdef fs_piece *piece
    cdef int result = fs_layout_repeat(&made.layout, count, stride)
    if result != FS_LAYOUT_FULL:
        return checked_layout(result)
    inner = TypeRecord.__new__(TypeRecord)
    inner.layout, inner.held, inner.own_runs, inner.own_pieces = made.layout, made.held, made.own_runs, made.own_pieces
    made.own_runs, made.held = NULL, inner
    made.own_pieces = piece = <fs_piece *>malloc(sizeof(fs_piece))
    if piece == NULL:
        raise MemoryError()
    piece.offset, piece.count, piece.step, piece.layout = 0, count, stride, &inner.layout
    return checked_layout(fs_layout_pieces(&made.layout, piece, 1))


cdef TypeRecord based(TypeRecord old, int combiner, object contents):
    """A new type with the data of another."""
    cdef TypeRecord made = TypeRecord.__new__(TypeRecord)
    made.combiner, made.contents, made.held = combiner, contents, old
    made.layout, made.elements, made.alignment, made.basic = old.layout, old.elements, old.alignment, old.basic
    return made


cdef TypeRecord empty(int combiner, object contents):
    cdef TypeRecord made = TypeRecord.__new__(TypeRecord)
    made.combiner, made.contents = combiner, contents
    return closed(made)


cdef TypeRecord regular(TypeRecord old, int combiner, object contents, int64_t count, int64_t length, int64_t stride):
    """Blocks of `length` items of a type, `stride` bytes apart."""
    cdef TypeRecord made
    cdef Bounds bounds
    cdef int64_t last, step
    if count <= 0 or length <= 0:
        return empty(combiner, contents)
    memset(&bounds, 0, sizeof(bounds))
    last, step = fs_times(count - 1, stride, &bounds.over), fs_times(length - 1, old.extent, &bounds.over)
    widen(&bounds, old, fs_plus(min(last, 0), min(step, 0), &bounds.over), fs_plus(max(last, 0), max(step, 0), &bounds.over))
    made = based(old, combiner, contents)
    made.elements = fs_times(fs_times(count, length, &bounds.over), old.elements, &bounds.over)
    close_bounds(made, &bounds)
    repeat(made, length, old.extent)
    repeat(made, count, stride)
    return closed(made)


cdef TypeRecord with_bounds(TypeRecord old, int combiner, object contents, int64_t lb, int64_t extent):
    """The same data between other bounds."""
    cdef TypeRecord made = based(old, combiner, contents)
    made.true_lb, made.true_extent = old.true_lb, old.true_extent
    set_bounds(made, lb, extent)
    return closed(made)


cdef bint is_one_block(TypeRecord type_, int64_t length) noexcept:
    """Whether so many items are one block of bytes."""
    return type_.dense or length <= 1 and fs_layout_is_block(&type_.layout)


cdef int lay_out(TypeRecord made, tuple types, fs_run **given, Py_ssize_t count) except -1:
    """The layout of blocks: their places, and how many items of a type each has. Of one type, or of one each. The array
    becomes that of the runs where there are any, and then it is the type's."""
    cdef fs_run *blocks = given[0]
    cdef TypeRecord type_ = None
    cdef fs_piece *pieces
    cdef Py_ssize_t i, used = 0
    cdef bint plain = True
    cdef int over = 0
    for i in range(count):
        if i < len(types):
            type_ = <TypeRecord>types[i]
        if blocks[i].length > 0 and type_.size and not is_one_block(type_, blocks[i].length):
            plain = False
            break
    if plain:
        for i in range(count):
            if i < len(types):
                type_ = <TypeRecord>types[i]
            blocks[i].offset = fs_plus(blocks[i].offset, type_.layout.offset if type_.size else 0, &over)
            blocks[i].length = fs_times(blocks[i].length, type_.size, &over)
        if over:
            too_large()
        checked_layout(fs_layout_runs(&made.layout, blocks, count))
        if made.layout.runs != NULL:
            made.own_runs, given[0] = blocks, NULL
        return 0
    made.own_pieces = pieces = <fs_piece *>malloc(count * sizeof(fs_piece))
    if pieces == NULL:
        raise MemoryError()
    made.held = types
    for i in range(count):
        if i < len(types):
            type_ = <TypeRecord>types[i]
        if blocks[i].length > 0 and type_.size:
            pieces[used] = fs_piece(blocks[i].offset, blocks[i].length, type_.extent, &type_.layout)
            used += 1
    if used > 1:
        return checked_layout(fs_layout_pieces(&made.layout, pieces, used))
    made.layout = pieces[0].layout[0]
    made.layout.offset = fs_plus(made.layout.offset, pieces[0].offset, &over)
    return too_large() if over else repeat(made, pieces[0].count, pieces[0].step)


cdef TypeRecord in_blocks(int combiner, object contents, tuple types, fs_run **given, Py_ssize_t count):
    """Blocks at these places, with so many items each of the one type, or of a type each; lay_out() may take the array."""
    cdef fs_run *blocks = given[0]
    cdef TypeRecord made = TypeRecord.__new__(TypeRecord), type_ = None
    cdef Bounds bounds
    cdef Py_ssize_t i
    cdef int64_t low = 0, high = 0, last, length = 0, step = 0
    cdef bint first = True
    memset(&bounds, 0, sizeof(bounds))
    made.combiner, made.contents = combiner, contents
    if len(types) == 1 and count:
        type_ = <TypeRecord>types[0]
        for i in range(count):
            if blocks[i].length > 0:
                if blocks[i].length != length:
                    length = blocks[i].length
                    step = fs_times(length - 1, type_.extent, &bounds.over)
                last = fs_plus(blocks[i].offset, step, &bounds.over)
                low = min(blocks[i].offset, last) if first else min(low, min(blocks[i].offset, last))
                high = max(blocks[i].offset, last) if first else max(high, max(blocks[i].offset, last))
                made.elements = fs_plus(made.elements, blocks[i].length, &bounds.over)
                first = False
        if not first:
            made.elements = fs_times(made.elements, type_.elements, &bounds.over)
            made.alignment, made.basic = type_.alignment, type_.basic
            widen(&bounds, type_, low, high)
    for i in range(count if len(types) != 1 else 0):
        type_ = <TypeRecord>types[i]
        if blocks[i].length <= 0:
            continue
        made.elements = fs_plus(made.elements, fs_times(blocks[i].length, type_.elements, &bounds.over), &bounds.over)
        made.alignment = max(made.alignment, type_.alignment)
        if first:
            made.basic = type_.basic
        elif made.basic is not type_.basic:
            made.basic = None
        first = False
        widen_by_block(&bounds, type_, blocks[i].offset, blocks[i].length)
    close_bounds(made, &bounds)
    lay_out(made, types, given, count)
    return closed(made)


def basic_type(str name, str kind, Py_ssize_t size, str code, *, Py_ssize_t alignment=0, int wire=0):
    """Returns a named type of one element."""
    cdef TypeRecord made = TypeRecord.__new__(TypeRecord)
    made.combiner, made.name, made.kind, made.code = COMBINER_NAMED, name, kind, code
    made.size = made.extent = made.true_extent = size
    made.alignment, made.elements, made.wire = alignment or size or 1, 1, wire or size
    made.basic, made.dense, made.parts_ = made, True, ()
    fs_layout_block(&made.layout, size)
    return made


def same_type(TypeRecord old not None, int combiner, Contents contents):
    """Returns a type of one item of another, made so."""
    return regular(old, combiner, contents, 1, 1, 0)


def struct_type(int combiner, Contents contents, list types, list places, list lengths):
    """Returns the type of blocks of other types at places in bytes; `lengths` are numbers of items."""
    cdef Py_ssize_t i, count = len(places)
    cdef fs_run *blocks
    if len(lengths) != count or len(types) != count and len(types) != 1:
        raise ValueError("each block has a place, a length, and a type or the one type")
    blocks = <fs_run *>malloc(max(count, 1) * sizeof(fs_run))
    if blocks == NULL:
        raise MemoryError()
    try:
        for i in range(count):
            blocks[i] = fs_run(places[i], lengths[i])
        return in_blocks(combiner, contents, tuple(types), &blocks, count)
    finally:
        free(blocks)
