# Part of _collectives: calls on plain arrays that go on by themselves. The engine follows the schedule that the general
# path wrote down for calls of the same kind.

cdef enum:
    MOST_SCHEDULES = 4096


@cython.final
cdef class Kept:
    """The memory of both buffers of a call."""
    cdef Memory memory
    cdef object scratch

    def __cinit__(self):
        self.memory.out_type = self.memory.into_type = -1

    def __dealloc__(self):
        let_go(&self.memory)


cdef enum:
    NOWHERE, OUT, INTO
    FEW = 8  # buffers of a schedule without an allocation

cdef struct Place:
    int side  # of which buffer, or of none: it has no bytes
    Py_ssize_t offset


@cython.final
cdef class Known:
    """A schedule, and where its buffers lie in the two of the call."""
    cdef Schedule schedule
    cdef Place *places
    cdef int count

    def __dealloc__(self):
        free(self.places)


cdef object known_of(Schedule schedule, list memory, Kept kept):
    """None where some of the memory is not that of the call's buffers; False where it is that of both: then this call
    does not tell what others do."""
    cdef Known known = Known.__new__(Known)
    cdef Py_buffer view
    cdef bint in_out, in_into
    cdef int i
    known.schedule, known.count = schedule, len(memory)
    known.places = <Place *>malloc((known.count + 1) * sizeof(Place))
    if known.places == NULL:
        raise MemoryError()
    for i in range(known.count):
        PyObject_GetBuffer(memory[i], &view, PyBUF_ANY_CONTIGUOUS)
        in_out = kept.memory.out_type >= 0 and lies_in(&view, &kept.memory.out.span.view)
        in_into = kept.memory.into_type >= 0 and lies_in(&view, &kept.memory.into.span.view)
        PyBuffer_Release(&view)
        if view.len == 0:
            known.places[i] = Place(NOWHERE, 0)
        elif in_out and in_into:
            return False
        elif in_into:
            known.places[i] = Place(INTO, <char *>view.buf - <char *>kept.memory.into.span.view.buf)
        elif in_out:
            known.places[i] = Place(OUT, <char *>view.buf - <char *>kept.memory.out.span.view.buf)
        else:
            return None
    return known


cdef bint lies_in(const Py_buffer *part, const Py_buffer *whole) noexcept:
    cdef size_t start = <size_t>part.buf, first = <size_t>whole.buf
    return first <= start and start + part.len <= first + whole.len


@cython.final
cdef class Begin:
    """Starts one call: again and again, but once at a time."""
    cdef StartCalls calls
    cdef BoundSchedule bound

    def __call__(self):
        return self.calls.begin(self.bound)


@cython.final
cdef class StartCalls(Calls):
    """The calls of one communicator that go on by themselves.

    Each gives a request; None where the general path is to do it. `again`: what starts it each time it is called.
    """
    cdef Engine engine
    cdef object members, prepared, reductions
    cdef dict schedules  # by all that they depend on; None where there is none
    cdef int planned     # after so many changes of the table
    cdef BoundSchedule of_barrier  # has no memory, so it is followed again and again

    def __init__(self, communicator, members):
        Calls.__init__(self, communicator, members)
        self.engine, self.members = communicator.engine, members
        self.prepared = import_module(f"{__package__}.prepared")
        self.reductions = import_module(f"{__package__}.reductions")
        self.schedules, self.planned = {}, table_changes

    cdef BoundSchedule bind(self, Known known, Kept kept):
        cdef void *here[FEW]
        cdef void **buffers = here
        cdef BoundSchedule bound = new_bound(known.schedule)
        cdef int i
        if known.count >= FEW:
            buffers = <void **>malloc((known.count + 1) * sizeof(void *))
            if buffers == NULL:
                raise MemoryError()
        buffers[0] = NULL
        if known.schedule.scratch:
            kept.scratch = scratch(known.schedule.scratch)
            buffers[0] = memory_of(kept.scratch)
        for i in range(known.count):
            buffers[i + 1] = NULL
            if known.places[i].side == OUT:
                buffers[i + 1] = <char *>kept.memory.out.span.view.buf + known.places[i].offset
            elif known.places[i].side == INTO:
                buffers[i + 1] = <char *>kept.memory.into.span.view.buf + known.places[i].offset
        bound.bind(buffers, kept)
        if buffers != here:
            free(buffers)
        return bound

    cdef StartedCollective begin(self, BoundSchedule bound):
        cdef StartedCollective started = StartedCollective.__new__(StartedCollective)
        cdef int tag = next(self.numbers) % TAGS_HERE
        started.communicator = self.communicator
        try:
            self.engine.c_start(started, bound, &tag)
        except MessageError as error:
            self.failed(error)
        return started

    cdef object call(self, int which, object send, int out_blocks, object receive, int into_blocks, object op, int root,
                     bint again):
        cdef Kept kept = Kept.__new__(Kept)
        cdef Py_ssize_t out_length = -1, into_length = -1
        if self.read(&kept.memory, which, send, out_blocks, receive, into_blocks, op) < 0:
            return None
        if kept.memory.out_type >= 0:
            out_length = kept.memory.out.span.view.len
        if kept.memory.into_type >= 0:
            into_length = kept.memory.into.span.view.len
        key = (which, out_length, into_length, kept.memory.type, kept.memory.operation, root)
        return self.follow(key, kept, which, send, receive, op, None, root, again)

    cdef object call_v(self, int which, object send, int out_blocks, object receive, int into_blocks, int root, bint again):
        """Starts a call whose buffers have no block here, one or EACH member's."""
        cdef Kept kept = Kept.__new__(Kept)
        cdef Layout out, into
        if self.size > FS_TEAM_MOST:
            return None
        into_key = self.place(which, receive, True, into_blocks, &kept.memory.into, &into, &kept.memory.into_type)
        if into_key is None:
            return None
        out_key = self.place(which, send, False, out_blocks, &kept.memory.out, &out, &kept.memory.out_type)
        if out_key is None:
            return None
        return self.follow((which, out_key, into_key, root), kept, which, send, receive, None, None, root, again)

    cdef object place(self, int which, object argument, bint writable, int blocks, Taken *taken, Layout *layout, int *held):
        """What a schedule depends on; None where the general path is to look at it, and then nothing is held."""
        cdef int type_
        if blocks == 0:
            return 0
        if blocks != EACH:
            type_ = take(argument, writable, taken)
            held[0] = type_ if type_ >= 0 else -1
            return None if type_ < 0 else taken.span.view.len
        if which == ALLTOALLW:
            held[0] = 0 if take_typed_layout(argument, writable, &taken.span, layout, self.size) else -1
        else:
            held[0] = 0 if take_layout(argument, writable, &taken.span, layout, self.size) else -1
        if held[0] < 0:
            return None
        return ((<char *>layout.sizes)[:self.size * sizeof(size_t)], (<char *>layout.offsets)[:self.size * sizeof(size_t)])

    cdef object follow(self, tuple key, Kept kept, int which, object send, object receive, object op, object counts,
                       int root, bint again):
        cdef BoundSchedule bound
        cdef Begin start
        known = self.known(key, kept, which, send, receive, op, counts, root)
        if known is None:
            return None
        bound = self.bind(<Known>known, kept)
        if again:
            start = Begin.__new__(Begin)
            start.calls, start.bound = self, bound
            return start
        return handle_of(self.begin(bound))

    cdef object known(self, tuple key, Kept kept, int which, object send, object receive, object op, object counts,
                      int root):
        """Where it is not known yet, the general path tells."""
        if self.planned != table_changes or len(self.schedules) >= MOST_SCHEDULES:
            self.planned, self.schedules, self.of_barrier = table_changes, {}, None
        found = self.schedules.get(key, self)
        if found is not self:
            return found
        memory = []
        call = self.general(which, send, receive, op, counts, root)
        schedule = call.schedule(Exchange(self.members, 0, False), memory)
        known = None if schedule is None else known_of(schedule, memory, kept)
        if known is False:
            return None
        self.schedules[key] = known
        return known

    cdef object general(self, int which, object send, object receive, object op, object counts, int root):
        """The call as the general path makes it ready."""
        communicator = self.communicator
        if which == BARRIER:
            return self.prepared.barrier(communicator)
        if which == BCAST:
            return self.prepared.bcast(communicator, send if root == self.rank else receive, root)
        if which == GATHER or which == GATHERV:
            return self.prepared.gather(communicator, send, receive, root, which == GATHERV)
        if which == SCATTER or which == SCATTERV:
            return self.prepared.scatter(communicator, send, receive, root, which == SCATTERV)
        if which == ALLGATHER or which == ALLGATHERV:
            return self.prepared.allgather(communicator, send, receive, which == ALLGATHERV)
        if which == ALLTOALL or which == ALLTOALLV:
            return self.prepared.alltoall(communicator, send, receive, which == ALLTOALLV)
        if which == ALLTOALLW:
            return self.prepared.alltoallw(communicator, send, receive)
        if which == REDUCE_SCATTER:
            return self.reductions.reduce_scatter(communicator, send, receive, counts, op)
        if which == REDUCE:
            return self.reductions.reduce(communicator, send, receive, op, root)
        return getattr(self.reductions, NAMES[which])(communicator, send, receive, op)

    def barrier(self, again=False):
        """Ibarrier."""
        cdef BoundSchedule bound
        with cython.critical_section(self):
            bound = self.of_barrier
        if again or bound is None or self.planned != table_changes or not bound.claim():
            return self.another_barrier(again)
        return handle_of(self.begin(bound))

    cdef object another_barrier(self, bint again):
        cdef Kept kept = Kept.__new__(Kept)
        cdef BoundSchedule bound
        if again:
            return self.follow((BARRIER,), kept, BARRIER, None, None, None, None, 0, True)
        known = self.known((BARRIER,), kept, BARRIER, None, None, None, None, 0)
        if known is None:
            return None
        bound = self.bind(<Known>known, kept)
        bound.claim()
        with cython.critical_section(self):
            self.of_barrier = bound
        return handle_of(self.begin(bound))

    def bcast(self, argument, root, again=False):
        """Ibcast."""
        cdef int source = self.member(root)
        if source == self.rank:
            return self.call(BCAST, argument, 1, None, 0, None, source, again)
        return None if source < 0 else self.call(BCAST, None, 0, argument, 1, None, source, again)

    def reduce(self, send, receive, op, root, again=False):
        """Ireduce."""
        cdef int target = self.member(root)
        return None if target < 0 else self.call(REDUCE, send, 1, receive, target == self.rank, op, target, again)

    def allreduce(self, send, receive, op, again=False):
        """Iallreduce."""
        return self.call(ALLREDUCE, send, 1, receive, 1, op, 0, again)

    def scan(self, send, receive, op, again=False):
        """Iscan."""
        return self.call(SCAN, send, 1, receive, 1, op, 0, again)

    def exscan(self, send, receive, op, again=False):
        """Iexscan."""
        return self.call(EXSCAN, send, 1, receive, 1, op, 0, again)

    def reduce_scatter_block(self, send, receive, op, again=False):
        """Ireduce_scatter_block."""
        cdef int blocks = self.size if is_in_place(send) else 1
        return self.call(REDUCE_SCATTER_BLOCK, send, self.size, receive, blocks, op, 0, again)

    def gather(self, send, receive, root, again=False):
        """Igather."""
        cdef int target = self.member(root)
        if target == self.rank:
            return self.call(GATHER, send, not is_in_place(send), receive, self.size, None, target, again)
        return None if target < 0 else self.call(GATHER, send, 1, None, 0, None, target, again)

    def scatter(self, send, receive, root, again=False):
        """Iscatter."""
        cdef int source = self.member(root)
        if source == self.rank:
            return self.call(SCATTER, send, self.size, receive, not is_in_place(receive), None, source, again)
        return None if source < 0 else self.call(SCATTER, None, 0, receive, 1, None, source, again)

    def allgather(self, send, receive, again=False):
        """Iallgather."""
        return self.call(ALLGATHER, send, 1, receive, self.size, None, 0, again)

    def alltoall(self, send, receive, again=False):
        """Ialltoall."""
        return self.call(ALLTOALL, send, self.size, receive, self.size, None, 0, again)

    def scatterv(self, send, receive, root, again=False):
        """Iscatterv."""
        cdef int source = self.member(root)
        if source < 0:
            return None
        if source != self.rank:
            return self.call_v(SCATTERV, None, 0, receive, 1, source, again)
        return self.call_v(SCATTERV, send, EACH, receive, not is_in_place(receive), source, again)

    def gatherv(self, send, receive, root, again=False):
        """Igatherv."""
        cdef int target = self.member(root)
        if target < 0:
            return None
        if target != self.rank:
            return self.call_v(GATHERV, send, 1, None, 0, target, again)
        return self.call_v(GATHERV, send, not is_in_place(send), receive, EACH, target, again)

    def allgatherv(self, send, receive, again=False):
        """Iallgatherv."""
        return self.call_v(ALLGATHERV, send, not is_in_place(send), receive, EACH, 0, again)

    def alltoallv(self, send, receive, again=False):
        """Ialltoallv."""
        return self.call_v(ALLTOALLV, send, 0 if is_in_place(send) else EACH, receive, EACH, 0, again)

    def alltoallw(self, send, receive, again=False):
        """Ialltoallw."""
        return self.call_v(ALLTOALLW, send, 0 if is_in_place(send) else EACH, receive, EACH, 0, again)

    def reduce_scatter(self, send, receive, counts, op, again=False):
        """Ireduce_scatter."""
        cdef Kept kept = Kept.__new__(Kept)
        cdef Memory *memory = &kept.memory
        cdef bint in_place = is_in_place(send)
        cdef Taken *whole = &memory.into if in_place else &memory.out
        cdef size_t[FS_TEAM_MOST] sizes
        cdef int operation
        if self.size > FS_TEAM_MOST:
            return None
        memory.type = take(receive if in_place else send, in_place, whole)
        if memory.type < 0:
            return None
        if in_place:
            memory.into_type = memory.type
        else:
            memory.out_type = memory.type
        operation = self.kernel(op, whole.operations)
        if operation < 0 or not take_parts(counts, sizes, self.size, whole, memory.type):
            return None
        if not in_place:
            memory.into_type = take(receive, True, &memory.into)
            if memory.into_type != memory.type or memory.into.operations != whole.operations:
                return None
        key = (REDUCE_SCATTER, whole.span.view.len, -1 if in_place else memory.into.span.view.len, memory.type, operation,
               (<char *>sizes)[:self.size * sizeof(size_t)])
        return self.follow(key, kept, REDUCE_SCATTER, send, receive, op, counts, 0, again)
