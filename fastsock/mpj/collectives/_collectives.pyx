# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""Blocking collective calls on plain arrays, among ranks that share memory, among ranks on a host each, or among
neighbours: the hot path past the general one.

Each method says whether it did the call. It does not where an argument is anything but a contiguous array of a common
type, or where the selection table prefers messages. Then the caller takes the general path, and that reports errors.

What several threads may use does not change once it is made; a call's own layouts are its caller's.
"""
cimport cython
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from fastsock.core.binding._engine cimport Engine
from fastsock.core.binding._requests cimport Request, aim, prepare_memory
from fastsock.core.binding._schedule cimport BoundSchedule, Schedule, new_bound
from fastsock.core.binding._team cimport Team, c_reduce_local
from fastsock.core.binding.engine cimport FS_FINE, FS_RECEIVING, FS_SENDING, fs_request, fs_request_is_done
from fastsock.core.binding.team cimport FS_OPERATIONS, FS_TEAM_MOST, FS_TYPES, fs_blocks

from importlib import import_module
from struct import calcsize

from fastsock.core.binding._requests import STANDARD, MessageError
from fastsock.core.binding._team import OPERATIONS, TYPES, type_size

from fastsock.mpj._slots cimport find_slots, new_handle, record_of, refer
from fastsock.mpj.datatypes._memory cimport (
    LETTERS_MOST, Py_buffer, PyObject, Span, TypeRecord, gather, give_room, hold, hold_items, lies_within, memory_at,
    read_span, release_span, scatter, take_room, type_named, whole_number,
)
from fastsock.mpj.messages._point_to_point cimport StartedCollective, handle_of

from ..datatypes._memory import IN_PLACE, LETTERS
from ..datatypes.buffers import of_format
from ..datatypes.datatype import Datatype
from ..datatypes.native_kernels import NUMBERS, kernel_of
from ..tags import NOBODYS, TAGS
from .exchange import ANY, PATIENCE_S, Exchange
from .scratch import scratch
from .table import TABLE

cdef extern from "Python.h":
    const Py_ssize_t PY_SSIZE_T_MAX
    enum: PyBUF_FORMAT
    enum: PyBUF_ANY_CONTIGUOUS
    enum: PyBUF_WRITABLE
    int PyObject_CheckBuffer(object)
    int PyObject_GetBuffer(object, Py_buffer *, int) except -1
    void PyBuffer_Release(Py_buffer *)
    Py_buffer *PyMemoryView_GET_BUFFER(object view)

find_slots(Datatype)


cdef inline void *memory_of(object view) noexcept:
    """What scratch() gave, and keeps as long as the view."""
    return PyMemoryView_GET_BUFFER(view).buf


# Which primitive's sizes go through shared memory.
cdef enum:
    BARRIER, BCAST, SCATTER, GATHER, ALLGATHER, ALLTOALL, REDUCE_SCATTER_BLOCK, REDUCE, ALLREDUCE, SCAN, EXSCAN
    SCATTERV, GATHERV, ALLGATHERV, ALLTOALLV, ALLTOALLW, REDUCE_SCATTER
    PRIMITIVES
    FIRST_REDUCING = REDUCE_SCATTER_BLOCK
    EACH = 2   # a buffer with a block for each member

NAMES = ("barrier", "bcast", "scatter", "gather", "allgather", "alltoall", "reduce_scatter_block",
         "reduce", "allreduce", "scan", "exscan",
         "scatterv", "gatherv", "allgatherv", "alltoallv", "alltoallw", "reduce_scatter")

cdef struct Sizes:
    Py_ssize_t least, end

cdef int TAGS_HERE = TAGS
cdef int table_changes = 0  # of the selection table, since the process began


def _table_changed():
    global table_changes
    table_changes += 1


TABLE.watch(_table_changed)

assert FS_OPERATIONS <= 32 and FS_TYPES <= 32
cdef Py_ssize_t[32] element_sizes  # by type: the kernels' own, in which they are told how many elements there are
for _type in TYPES.values():
    element_sizes[_type] = type_size(_type)

cdef int INT8 = TYPES["INT8"], UINT8 = TYPES["UINT8"]
cdef int FLOAT = TYPES["FLOAT"], DOUBLE = TYPES["DOUBLE"], LONG_DOUBLE = TYPES["LONG_DOUBLE"]
cdef int COMPLEX_FLOAT = TYPES["COMPLEX_FLOAT"], COMPLEX_DOUBLE = TYPES["COMPLEX_DOUBLE"], BOOL = TYPES["BOOL"]


cdef inline int sized(int smallest, size_t size) noexcept:
    """Of four types of integers: one, two, four and eight bytes."""
    return smallest + (0 if size == 1 else 1 if size == 2 else 2 if size == 4 else 3)


cdef int[LETTERS_MOST] type_of_letter  # the number of the native kernels for plain items
_types = {"f": FLOAT, "d": DOUBLE, "g": LONG_DOUBLE, "?": BOOL, "Zf": COMPLEX_FLOAT, "Zd": COMPLEX_DOUBLE, "": UINT8}
for _place, _letter in enumerate(LETTERS):
    _type = _types.get(_letter, -1)
    type_of_letter[_place] = _type if _type >= 0 else sized(INT8 if _letter.islower() else UINT8, calcsize(_letter))


cdef uint32_t operations(object record, int type_) except? 0:
    """A bit for each predefined operation that the kernels do on a datatype as on this type."""
    cdef uint32_t found = 0
    for name, number in OPERATIONS.items():
        if kernel_of(name, record) == (type_, number):
            found |= <uint32_t>1 << <int>number
    return found


cdef uint32_t[LETTERS_MOST] operations_of_letter  # operations() of plain items
for _place, _letter in enumerate(LETTERS):
    operations_of_letter[_place] = operations(of_format(_letter).ob, type_of_letter[_place])


cdef inline bint is_in_place(object argument):
    return argument is None or argument is IN_PLACE


cdef struct Taken:
    Span span
    uint32_t operations  # as operations() tells them


cdef inline int take(object argument, bint writable, Taken *taken, int blocks=1) except -2:
    """Its type, or -1 where the general path is to look at it, and then nothing is held. A count given with a buffer of
    several blocks is that of each."""
    cdef Span *span = &taken.span
    cdef int type_
    cdef TypeRecord named
    datatype = read_span(argument, span, writable, blocks)
    if datatype is None:
        return -1
    if datatype is True:
        type_, taken.operations = type_of_letter[span.letter], operations_of_letter[span.letter]
        if span.view.itemsize != element_sizes[type_]:
            type_ = -1
    else:
        named = <TypeRecord>record_of(datatype)
        if not named.asked:
            ask_kernels(named)
        type_, taken.operations = named.kernel_type, named.operations
    if type_ < 0:
        PyBuffer_Release(&span.view)
    return type_


cdef int ask_kernels(TypeRecord named) except -1:
    kernel = kernel_of("REPLACE", named)
    named.kernel_type = -1 if kernel is None else kernel[0]
    if named.kernel_type >= 0:
        named.operations = operations(named, named.kernel_type)
    named.asked = True
    return 0


cdef bint take_parts(object counts, size_t *sizes, int many, Taken *whole, int type_) except -1:
    """How many elements of its type each part of a buffer has, out of counts of its items; False where the parts are
    not the whole."""
    cdef size_t total = 0, elements = whole.span.view.itemsize // element_sizes[type_]
    cdef int i
    if not take_numbers(counts, sizes, many, whole.span.view.len // whole.span.view.itemsize):
        return False
    for i in range(many):
        sizes[i] *= elements
        total += sizes[i]
    return total * element_sizes[type_] == <size_t>whole.span.view.len


cdef struct Memory:
    Taken out, into
    int out_type, into_type  # -1: nothing is held
    int type, operation


cdef inline void let_go(Memory *memory) noexcept:
    if memory.out_type >= 0:
        memory.out_type = -1
        PyBuffer_Release(&memory.out.span.view)
    if memory.into_type >= 0:
        memory.into_type = -1
        PyBuffer_Release(&memory.into.span.view)


include "_layout.pxi"
include "_items.pxi"
include "_typed_blocks.pxi"


cdef class Calls:
    """What the calls of one communicator share, whichever way they go."""
    cdef object communicator, numbers, operation
    cdef int operation_number
    cdef int size, rank

    def __init__(self, communicator, members):
        self.communicator, self.numbers = communicator, members.numbers
        self.size, self.rank = members.size, members.rank

    cdef int kernel(self, object op, uint32_t defined) except -2:
        """The operation's number, or -1 where it is none of these (see operations())."""
        cdef int number = self.number(op)
        return number if number >= 0 and defined >> number & 1 else -1

    @cython.critical_section
    cdef int number(self, object op) except -2:
        """The operation's number, or -1 where it is none of the kernels'."""
        record = getattr(op, "ob", self)  # what is no operation has no such record
        if record is not self.operation:
            self.operation_number = NUMBERS.get(record, -1)
            self.operation = record
        return self.operation_number

    cdef int member(self, root) except -2:
        """The root's rank; -1 where it is none."""
        cdef Py_ssize_t rank
        if type(root) is not int:
            return -1
        rank = root
        return <int>rank if 0 <= rank < self.size else -1

    cdef Py_ssize_t read(self, Memory *memory, int which, object send, int out_blocks, object receive, int into_blocks,
                         object op) except -2:
        """The bytes of a block; -1 where the general path is to look at it. What `memory` holds is the caller's to let go.
        So many equal blocks a buffer has; none: here the call has no such buffer."""
        cdef Taken *out = &memory.out
        cdef Taken *into = &memory.into
        cdef Taken *first = into if into_blocks else out
        cdef int many = into_blocks if into_blocks else out_blocks
        cdef Py_ssize_t block
        out.span.view.buf = into.span.view.buf = NULL
        memory.operation = self.number(op) if which >= FIRST_REDUCING else -1
        if which >= FIRST_REDUCING and memory.operation < 0:
            return -1
        if into_blocks:
            memory.type = memory.into_type = take_items(receive, True, into, into_blocks, which < FIRST_REDUCING)
        else:
            memory.type = memory.out_type = take_items(send, False, out, out_blocks, which < FIRST_REDUCING)
        if memory.type < 0:
            return -1
        block = first.span.view.len
        if many > 1:
            if block % (many * first.span.view.itemsize):
                return -1
            block //= many
        if memory.operation >= 0 and not first.operations >> memory.operation & 1:
            return -1
        if into_blocks and out_blocks and not (which >= ALLGATHER and is_in_place(send)):
            memory.out_type = take_items(send, False, out, out_blocks, which < FIRST_REDUCING)
            if memory.out_type < 0 or out.span.view.len != block * out_blocks:
                return -1
            if which >= FIRST_REDUCING and memory.out_type != memory.type:
                return -1
            if memory.operation >= 0 and out.operations != into.operations:
                return -1
        return block

    cdef object failed(self, error):
        raise self.communicator.failed(error) from error


@cython.final
cdef class TeamCalls(Calls):
    """The calls of one communicator through shared memory."""
    cdef Team team
    cdef Sizes *sizes  # that go through shared memory: those of each primitive end where the next one's begin
    cdef int[PRIMITIVES + 1] first
    cdef int planned  # after so many changes of the table
    cdef object members, own_calls

    def __init__(self, communicator, members):
        Calls.__init__(self, communicator, members)
        self.team, self.members = members.team, members
        self.plan()

    def __dealloc__(self):
        free(self.sizes)

    @cython.critical_section
    cdef int plan(self) except -1:
        """Asks the selection table. It changes between calls, not while one goes on."""
        cdef int which, number = 0, changes = table_changes
        cdef Sizes *sizes
        found = [TABLE.plan(name, "host", self.size).sizes("shared_memory") for name in NAMES]
        sizes = <Sizes *>malloc(max(sum(map(len, found)), 1) * sizeof(Sizes))
        if sizes == NULL:
            raise MemoryError()
        for which in range(PRIMITIVES):
            self.first[which] = number
            for least, end in found[which]:
                sizes[number] = Sizes(least, end)
                number += 1
        self.first[PRIMITIVES] = number
        free(self.sizes)
        self.sizes, self.planned = sizes, changes
        return 0

    cdef inline bint prefers(self, int which, Py_ssize_t nbytes) except -1:
        cdef int i
        if self.planned != table_changes:
            self.plan()
        for i in range(self.first[which], self.first[which + 1]):
            if self.sizes[i].least <= nbytes < self.sizes[i].end:
                return True
        return False

    def barrier(self):
        """Barrier."""
        if not self.prefers(BARRIER, 0):
            return False
        next(self.numbers)
        try:
            self.team.c_barrier()
        except MessageError as error:
            self.failed(error)
        return True

    def bcast(self, argument, root):
        """Bcast."""
        cdef int source = self.member(root)
        if source == self.rank:
            return self.call(BCAST, argument, 1, None, 0, None, source)
        return source >= 0 and self.call(BCAST, None, 0, argument, 1, None, source)

    def reduce(self, send, receive, op, root):
        """Reduce."""
        cdef int target = self.member(root)
        return target >= 0 and self.call(REDUCE, send, 1, receive, target == self.rank, op, target)

    def allreduce(self, send, receive, op):
        """Allreduce."""
        return self.call(ALLREDUCE, send, 1, receive, 1, op, 0) or self.allreduce_own(send, receive, op)

    cdef bint allreduce_own(self, object send, object receive, object op) except -1:
        """By an operation of the program's own: not among what the members' memory serves."""
        if function_of(op) is None:
            return False
        if self.own_calls is None:
            self.own_calls = MessageCalls(self.communicator, self.members)
        return self.own_calls.allreduce(send, receive, op)

    def scan(self, send, receive, op):
        """Scan."""
        return self.call(SCAN, send, 1, receive, 1, op, 0)

    def exscan(self, send, receive, op):
        """Exscan."""
        return self.call(EXSCAN, send, 1, receive, 1, op, 0)

    def reduce_scatter_block(self, send, receive, op):
        """Reduce_scatter_block."""
        return self.call(REDUCE_SCATTER_BLOCK, send, self.size, receive, self.size if is_in_place(send) else 1, op, 0)

    def gather(self, send, receive, root):
        """Gather."""
        cdef int target = self.member(root)
        if target != self.rank:
            return target >= 0 and self.call(GATHER, send, 1, None, 0, None, target)
        return self.call(GATHER, send, not is_in_place(send), receive, self.size, None, target)

    def scatter(self, send, receive, root):
        """Scatter."""
        cdef int source = self.member(root)
        if source != self.rank:
            return source >= 0 and self.call(SCATTER, None, 0, receive, 1, None, source)
        return self.call(SCATTER, send, self.size, receive, not is_in_place(receive), None, source)

    def allgather(self, send, receive):
        """Allgather."""
        return self.call(ALLGATHER, send, 1, receive, self.size, None, 0)

    def alltoall(self, send, receive):
        """Alltoall."""
        return self.call(ALLTOALL, send, self.size, receive, self.size, None, 0)

    def scatterv(self, send, receive, root):
        """Scatterv."""
        cdef int source = self.member(root)
        if source < 0 or not self.prefers(SCATTERV, 0):
            return False
        if source != self.rank:
            return self.call_v(SCATTERV, None, 0, receive, 1, source)
        return self.call_v(SCATTERV, send, EACH, receive, not is_in_place(receive), source)

    def gatherv(self, send, receive, root):
        """Gatherv."""
        cdef int target = self.member(root)
        if target < 0 or not self.prefers(GATHERV, 0):
            return False
        if target != self.rank:
            return self.call_v(GATHERV, send, 1, None, 0, target)
        return self.call_v(GATHERV, send, not is_in_place(send), receive, EACH, target)

    def allgatherv(self, send, receive):
        """Allgatherv."""
        return self.call_v(ALLGATHERV, send, not is_in_place(send), receive, EACH, 0)

    def alltoallv(self, send, receive):
        """Alltoallv."""
        return self.prefers(ALLTOALLV, 0) and self.call_v(
            ALLTOALLV, send, 0 if is_in_place(send) else EACH, receive, EACH, 0)

    def alltoallw(self, send, receive):
        """Alltoallw."""
        return self.prefers(ALLTOALLW, 0) and (self.call_v(
            ALLTOALLW, send, 0 if is_in_place(send) else EACH, receive, EACH, 0) or self.alltoallw_with_gaps(send, receive))

    cdef bint alltoallw_with_gaps(self, object send, object receive) except -1:
        """Alltoallw of items with gaps."""
        cdef TypedBlocks out, into = take_typed_blocks(receive, True, self.size)
        cdef fs_blocks outgoing, incoming
        if into is None:
            return False
        out = into if is_in_place(send) else take_typed_blocks(send, False, self.size)
        if out is None or out.layout.sizes[self.rank] != into.layout.sizes[self.rank]:
            return False
        outgoing.sizes, outgoing.offsets = out.layout.sizes, out.layout.offsets
        incoming.sizes, incoming.offsets = into.layout.sizes, into.layout.offsets
        next(self.numbers)
        try:
            out.gather()
            self.team.c_alltoall(NULL if out is into else out.data, &outgoing, into.data, &incoming)
            into.scatter()
        except MessageError as error:
            self.failed(error)
        return True

    cdef bint call_v(self, int which, object send, int out_blocks, object receive, int into_blocks, int root) except -1:
        """Does a call whose buffers have no block here, one or EACH member's."""
        cdef Taken out, into
        cdef bint holds_out = False, holds_into = False
        cdef Py_ssize_t total = 0
        cdef Layout out_layout, into_layout
        cdef fs_blocks outgoing, incoming
        cdef int i
        out.span.view.buf = into.span.view.buf = NULL
        outgoing.sizes, outgoing.offsets = out_layout.sizes, out_layout.offsets
        incoming.sizes, incoming.offsets = into_layout.sizes, into_layout.offsets
        try:
            if which == ALLTOALLW:
                holds_into = take_typed_layout(receive, True, &into.span, &into_layout, self.size)
            elif into_blocks == EACH:
                holds_into = take_layout(receive, True, &into.span, &into_layout, self.size)
            elif into_blocks:
                holds_into = take(receive, True, &into) >= 0
            if into_blocks and not holds_into:
                return False
            if which == ALLTOALLW and out_blocks:
                holds_out = take_typed_layout(send, False, &out.span, &out_layout, self.size)
            elif out_blocks == EACH:
                holds_out = take_layout(send, False, &out.span, &out_layout, self.size)
            elif out_blocks:
                holds_out = take(send, False, &out) >= 0
            if out_blocks and not holds_out:
                return False
            # one's own block has a size on both sides
            if out_blocks == 1 and into_blocks == EACH and <size_t>out.span.view.len != into_layout.sizes[self.rank]:
                return False
            if out_blocks == EACH and into_blocks == 1 and <size_t>into.span.view.len != out_layout.sizes[self.rank]:
                return False
            if out_blocks == into_blocks and out_layout.sizes[self.rank] != into_layout.sizes[self.rank]:
                return False
            if which == ALLGATHERV:
                for i in range(self.size):
                    total += into_layout.sizes[i]
                if not self.prefers(ALLGATHERV, total):
                    return False
            next(self.numbers)
            if which == SCATTERV:
                self.team.c_scatter(out.span.view.buf, &outgoing, into.span.view.buf, 0 if out_blocks else into.span.view.len, root)
            elif which == GATHERV:
                self.team.c_gather(out.span.view.buf, 0 if into_blocks else out.span.view.len, into.span.view.buf, &incoming, root)
            elif which == ALLGATHERV:
                self.team.c_allgather(out.span.view.buf, into.span.view.buf, &incoming)
            else:
                self.team.c_alltoall(out.span.view.buf, &outgoing if out_blocks else &incoming, into.span.view.buf, &incoming)
        except MessageError as error:
            self.failed(error)
        finally:
            if holds_out:
                PyBuffer_Release(&out.span.view)
            if holds_into:
                PyBuffer_Release(&into.span.view)
        return True

    def reduce_scatter(self, send, receive, counts, op):
        """Reduce_scatter."""
        cdef Taken whole, into
        cdef bint in_place = is_in_place(send)
        cdef int type_, into_type = -1, operation
        cdef size_t[FS_TEAM_MOST] sizes
        type_ = take_items(receive if in_place else send, in_place, &whole, 1, False)
        if type_ < 0:
            return False
        try:
            operation = self.kernel(op, whole.operations)
            if operation < 0 or not self.prefers(REDUCE_SCATTER, whole.span.view.len):
                return False
            if not take_parts(counts, sizes, self.size, &whole, type_):
                return False
            if not in_place:
                into_type = take_items(receive, True, &into, 1, False)
                if into_type != type_ or into.operations != whole.operations:
                    return False
                if <size_t>into.span.view.len != sizes[self.rank] * element_sizes[type_]:
                    return False
            next(self.numbers)
            if in_place:
                self.team.c_reduce_scatter(NULL, whole.span.view.buf, sizes, type_, operation)
            else:
                self.team.c_reduce_scatter(whole.span.view.buf, into.span.view.buf, sizes, type_, operation)
        except MessageError as error:
            self.failed(error)
        finally:
            PyBuffer_Release(&whole.span.view)
            if into_type >= 0:
                PyBuffer_Release(&into.span.view)
        return True

    cdef bint call(self, int which, object send, int out_blocks, object receive, int into_blocks, object op,
                   int root) except -1:
        """Does a call whose buffers have so many equal blocks; none: here the call has no such buffer."""
        cdef Memory memory
        cdef Py_ssize_t block
        memory.out_type = memory.into_type = -1
        try:
            block = self.read(&memory, which, send, out_blocks, receive, into_blocks, op)
            if block < 0:
                return False
            if not self.prefers(which, block * self.size if ALLGATHER <= which <= REDUCE_SCATTER_BLOCK else block):
                return False
            next(self.numbers)
            self.enter(which, &memory.out.span.view, &memory.into.span.view, block, memory.type, memory.operation, root)
        except MessageError as error:
            self.failed(error)
        finally:
            let_go(&memory)
        return True

    cdef inline int enter(self, int which, Py_buffer *out, Py_buffer *into, Py_ssize_t block, int type_, int operation,
                          int root) except -1:
        """With the memory of both buffers, NULL for one that there is not; a block's bytes."""
        cdef Layout layout
        cdef fs_blocks blocks
        cdef size_t count = 0
        if which >= FIRST_REDUCING:
            count = block // element_sizes[type_]
        if SCATTER <= which <= REDUCE_SCATTER_BLOCK:
            equal_blocks(&layout, count if which == REDUCE_SCATTER_BLOCK else block, self.size)
            blocks.sizes, blocks.offsets = layout.sizes, layout.offsets
        if which == BCAST:
            return self.team.c_bcast(out.buf if root == self.rank else into.buf, block, root)
        if which == ALLREDUCE:
            return self.team.c_allreduce(out.buf, into.buf, count, type_, operation)
        if which == REDUCE:
            return self.team.c_reduce(out.buf, into.buf, count, type_, operation, root)
        if which == SCAN:
            return self.team.c_scan(out.buf, into.buf, count, type_, operation)
        if which == EXSCAN:
            return self.team.c_exscan(out.buf, into.buf, count, type_, operation)
        if which == REDUCE_SCATTER_BLOCK:
            return self.team.c_reduce_scatter(out.buf, into.buf, layout.sizes, type_, operation)  # of items here
        if which == GATHER:
            return self.team.c_gather(out.buf, block, into.buf, &blocks, root)
        if which == SCATTER:
            return self.team.c_scatter(out.buf, &blocks, into.buf, block, root)
        if which == ALLGATHER:
            return self.team.c_allgather(out.buf, into.buf, &blocks)
        return self.team.c_alltoall(out.buf, &blocks, into.buf, &blocks)


include "_own_operations.pxi"
include "_neighbour_calls.pxi"
include "_message_calls.pxi"
include "_start_calls.pxi"
