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

    def __init__(self, communicator, members):
        Calls.__init__(self, communicator, members)
        self.engine, self.members = communicator.engine, members
        self.prepared = import_module(f"{__package__}.prepared")
        self.reductions = import_module(f"{__package__}.reductions")
        self.schedules, self.planned = {}, table_changes

    cdef BoundSchedule bind(self, Schedule schedule, Kept kept):
        cdef void *buffers[3]
        cdef unsigned char[::1] memory
        cdef BoundSchedule bound = new_bound(schedule)
        cdef int count = 1
        buffers[0] = NULL
        if schedule.scratch:
            kept.scratch = memory = scratch(schedule.scratch)
            buffers[0] = &memory[0]
        if kept.memory.out_type >= 0:
            buffers[count] = kept.memory.out.span.view.buf
            count += 1
        if kept.memory.into_type >= 0:
            buffers[count] = kept.memory.into.span.view.buf
        bound.bind(buffers, kept)
        return bound

    cdef StartedCollective begin(self, BoundSchedule bound):
        cdef StartedCollective started = StartedCollective.__new__(StartedCollective)
        cdef int tag = next(self.numbers) % TAGS
        started.communicator = self.communicator
        try:
            self.engine.c_start(started, bound, &tag)
        except MessageError as error:
            self.failed(error)
        return started

    cdef object call(self, int which, object send, int out_blocks, object receive, int into_blocks, object op, int root,
                     bint again):
        cdef Kept kept = Kept.__new__(Kept)
        cdef BoundSchedule bound
        cdef Begin start
        cdef Py_ssize_t out_length = -1, into_length = -1
        if self.read(&kept.memory, which, send, out_blocks, receive, into_blocks, op) < 0:
            return None
        if kept.memory.out_type >= 0:
            out_length = kept.memory.out.span.view.len
        if kept.memory.into_type >= 0:
            into_length = kept.memory.into.span.view.len
        key = (which, out_length, into_length, kept.memory.type, kept.memory.operation, root)
        schedule = self.schedule(key, kept, which, send, receive, op, root)
        if schedule is None:
            return None
        bound = self.bind(<Schedule>schedule, kept)
        if again:
            start = Begin.__new__(Begin)
            start.calls, start.bound = self, bound
            return start
        return handle_of(self.begin(bound))

    cdef object schedule(self, tuple key, Kept kept, int which, object send, object receive, object op, int root):
        """Where it is not known, the general path tells: if what it would work on is the memory of these very buffers."""
        if self.planned != table_changes or len(self.schedules) >= MOST_SCHEDULES:
            self.planned, self.schedules = table_changes, {}
        found = self.schedules.get(key, self)
        if found is not self:
            return found
        memory = []
        call = self.general(which, send, receive, op, root)
        schedule = call.schedule(Exchange(self.members, 0, False), memory)
        expected = []
        if kept.memory.out_type >= 0:
            expected.append(place_of(&kept.memory.out.span.view))
        if kept.memory.into_type >= 0:
            expected.append(place_of(&kept.memory.into.span.view))
        if schedule is not None and [place_of_view(view) for view in memory] != expected:
            schedule = None
        self.schedules[key] = schedule
        return schedule

    cdef object general(self, int which, object send, object receive, object op, int root):
        """The call as the general path makes it ready."""
        communicator = self.communicator
        if which == BARRIER:
            return self.prepared.barrier(communicator)
        if which == BCAST:
            return self.prepared.bcast(communicator, send if root == self.rank else receive, root)
        if which == GATHER:
            return self.prepared.gather(communicator, send, receive, root, False)
        if which == SCATTER:
            return self.prepared.scatter(communicator, send, receive, root, False)
        if which == ALLGATHER:
            return self.prepared.allgather(communicator, send, receive, False)
        if which == ALLTOALL:
            return self.prepared.alltoall(communicator, send, receive, False)
        if which == REDUCE:
            return self.reductions.reduce(communicator, send, receive, op, root)
        return getattr(self.reductions, NAMES[which])(communicator, send, receive, op)

    def barrier(self, again=False):
        """Ibarrier."""
        cdef Kept kept = Kept.__new__(Kept)
        cdef Begin start
        schedule = self.schedule((BARRIER,), kept, BARRIER, None, None, None, 0)
        if schedule is None:
            return None
        bound = self.bind(<Schedule>schedule, kept)
        if again:
            start = Begin.__new__(Begin)
            start.calls, start.bound = self, bound
            return start
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
        if is_in_place(send):
            return None
        return self.call(REDUCE_SCATTER_BLOCK, send, self.size, receive, 1, op, 0, again)

    def gather(self, send, receive, root, again=False):
        """Igather."""
        cdef int target = self.member(root)
        cdef int blocks = self.size if target == self.rank else 0
        return None if target < 0 else self.call(GATHER, send, 1, receive, blocks, None, target, again)

    def scatter(self, send, receive, root, again=False):
        """Iscatter."""
        cdef int source = self.member(root)
        cdef int blocks = self.size if source == self.rank else 0
        return None if source < 0 else self.call(SCATTER, send, blocks, receive, 1, None, source, again)

    def allgather(self, send, receive, again=False):
        """Iallgather."""
        return self.call(ALLGATHER, send, 1, receive, self.size, None, 0, again)

    def alltoall(self, send, receive, again=False):
        """Ialltoall."""
        return self.call(ALLTOALL, send, self.size, receive, self.size, None, 0, again)


cdef tuple place_of(const Py_buffer *view):
    if view.len == 0:
        return 0, 0
    return <size_t>view.buf, view.len


cdef tuple place_of_view(object memory):
    cdef Py_buffer view
    PyObject_GetBuffer(memory, &view, PyBUF_ANY_CONTIGUOUS)
    found = place_of(&view)
    PyBuffer_Release(&view)
    return found
