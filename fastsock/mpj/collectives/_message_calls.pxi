# Part of _collectives: calls on plain arrays among ranks that share no memory. What goes between the ranks is what the
# general path would send, so each rank takes either for itself.

cdef double PATIENCE = PATIENCE_S
cdef enum:
    MOST_WAYS = 4096


cdef class Held:
    """The memory of both buffers of a call, while any of its messages may touch it."""
    cdef Taken out, into
    cdef bint holds_out, holds_into
    cdef object spare  # memory for what comes
    cdef Own own       # the operation, where it is the program's

    def __dealloc__(self):
        if self.holds_out:
            PyBuffer_Release(&self.out.span.view)
        if self.holds_into:
            PyBuffer_Release(&self.into.span.view)


cdef class Way:
    """How one rank takes part in a spread along a tree: ranks in the world, -1 for no parent."""
    cdef int parent
    cdef tuple children
    cdef bint at_once


cdef class Kernel:
    """An operation on a type, as the selection asks for it."""
    cdef readonly bint commutative
    cdef readonly tuple kernel  # None: an operation of the program's own


@cython.final
cdef class MessageCalls(Calls):
    """The calls of one communicator by messages."""
    cdef Engine engine
    cdef object members, bcast_, allreduce_  # the modules with the algorithms
    cdef tuple ranks
    cdef uint32_t context
    cdef dict ways, exchanges  # chosen before, by all that the choice depends on
    cdef int planned  # after so many changes of the table

    def __init__(self, communicator, members):
        Calls.__init__(self, communicator, members)
        self.engine, self.members, self.ranks = communicator.engine, members, members.ranks
        self.context = members.context
        self.bcast_, self.allreduce_ = import_module(f"{__package__}.bcast"), import_module(f"{__package__}.allreduce")
        self.ways, self.exchanges, self.planned = {}, {}, table_changes

    cdef int forget(self) except -1:
        """What was chosen before the table changed, or in the course of very many calls."""
        if self.planned != table_changes or len(self.ways) + len(self.exchanges) > MOST_WAYS:
            self.planned = table_changes
            self.ways, self.exchanges = {}, {}
        return 0

    cdef Way way(self, Py_ssize_t nbytes, int root):
        """None where the algorithm for that many bytes is no spread along a tree."""
        cdef Way way
        self.forget()
        key = (nbytes, root)
        found = self.ways.get(key, self)
        if found is not self:
            return <Way>found
        spread = self.bcast_.SPREADS.get(self.bcast_.PRIMITIVE.choose(Exchange(self.members, 0, True), nbytes, None))
        way = None
        if spread is not None:
            way = Way.__new__(Way)
            tree = spread[0](self.rank, self.size, root)
            way.parent = self.ranks[tree.parent] if tree.parent >= 0 else -1
            way.children = tuple([self.ranks[child.rank] for child in tree.children])
            way.at_once = spread[1]
        self.ways[key] = way
        return way

    cdef bint exchanges_whole(self, Py_ssize_t nbytes, int type_, int operation, bint commutative) except -1:
        """Whether pairs of ranks exchange whole partial results; in any order, for any number of pairs."""
        cdef Kernel combine
        self.forget()
        key = (nbytes, type_, operation, commutative)
        found = self.exchanges.get(key)
        if found is None:
            combine = Kernel.__new__(Kernel)
            combine.commutative = commutative
            combine.kernel = (type_, operation) if operation >= 0 else None
            chosen = self.allreduce_.PRIMITIVE.choose(Exchange(self.members, 0, True), nbytes, None, combine)
            found = commutative and self.size & (self.size - 1) == 0 and chosen is self.allreduce_.bidirectional_exchange
            self.exchanges[key] = found
        return found

    cdef Request start(self, Held held, void *data, size_t length, int peer, int tag, int kind):
        cdef Request request = Request.__new__(Request)
        request.take_memory(self.engine, data, length, NULL, kind)
        request.own(held)
        if kind == FS_SENDING:
            self.engine.c_isend(request, peer, tag, self.context, MODE)
        else:
            self.engine.c_irecv(request, peer, tag, self.context)
        return request

    cdef int wait(self, list requests) except -1:
        cdef Request request
        cdef bint done = True
        for request in requests:
            done = done and fs_request_is_done(&request.request)
        while not done:
            done = self.engine.wait_all(requests, PATIENCE)
            if not done:
                self.hear_of_failures()
        for request in requests:
            request.settle()
            request.collect()
            if request.request.error != FS_FINE:
                raise self.engine.failure(&request.request)
        return 0

    cdef int exchange(self, fs_request *both) except -1:
        self.engine.c_exchange_begin(both, 1, 2, MODE)
        while not self.engine.c_exchange_end(both, 1, 2, PATIENCE):
            try:
                self.hear_of_failures()
            except:
                self.engine.c_abandon(both, 2)
                raise
        return 0

    cdef int hear_of_failures(self) except -1:
        """As drive(): the sender may wait for a rank that failed."""
        self.engine.iprobe(ANY, NOBODYS, self.context)
        return 0

    def bcast(self, argument, root):
        """Bcast."""
        cdef Held held = Held.__new__(Held)
        cdef Py_buffer *view = &held.into.span.view
        cdef int source = self.member(root), tag
        cdef Way way
        cdef list requests = []
        held.holds_into = source >= 0 and take(argument, source != self.rank, &held.into) >= 0
        if not held.holds_into:
            return False
        way = self.way(view.len, source)
        if way is None:
            return False
        tag = next(self.numbers) % TAGS_HERE
        try:
            if way.parent >= 0:
                self.wait([self.start(held, view.buf, view.len, way.parent, tag, FS_RECEIVING)])
            for child in way.children:
                requests.append(self.start(held, view.buf, view.len, child, tag, FS_SENDING))
                if not way.at_once:
                    self.wait(requests)
                    requests = []
            if requests:
                self.wait(requests)
        except MessageError as error:
            self.failed(error)
        return True

    def allreduce(self, send, receive, op):
        """Allreduce."""
        cdef Held held
        cdef Py_buffer *into
        cdef Py_buffer *out
        cdef int type_, operation
        if self.number(op) < 0:
            return self.allreduce_own(send, receive, op)
        held = Held.__new__(Held)
        into, out = &held.into.span.view, &held.out.span.view
        type_ = take_items(receive, True, &held.into, 1, False)
        held.holds_into = type_ >= 0
        if not held.holds_into:
            return False
        operation = self.kernel(op, held.into.operations)
        if operation < 0 or not self.exchanges_whole(into.len, type_, operation, op.ob.commutative):
            return False
        if is_in_place(send):
            out = NULL
        else:
            held.holds_out = take_items(send, False, &held.out, 1, False) == type_
            if not held.holds_out or out.len != into.len or held.out.operations != held.into.operations:
                return False
        return self.exchanged(held, out, into, type_, operation)

    cdef bint allreduce_own(self, object send, object receive, object op) except -1:
        """By an operation of the program's own, on items without gaps."""
        cdef Held held
        cdef Py_buffer *into
        cdef Py_buffer *out
        function = function_of(op)
        if function is None:
            return False
        held = Held.__new__(Held)
        into, out = &held.into.span.view, &held.out.span.view
        record = hold_dense(receive, True, &held.into.span)
        held.holds_into = record is not None
        if not held.holds_into or into.len == 0 or not self.exchanges_whole(into.len, -1, -1, op.ob.commutative):
            return False
        if is_in_place(send):
            out = NULL
        else:
            sent = hold_dense(send, False, &held.out.span)
            held.holds_out = sent is not None
            if sent is not record or out.len != into.len:
                return False
        held.own = Own.__new__(Own)
        held.own.function, held.own.record = function, record
        return self.exchanged(held, out, into, -1, -1)

    cdef bint exchanged(self, Held held, Py_buffer *out, Py_buffer *into, int type_, int operation) except -1:
        try:
            self.combine(held, out, into, type_, operation, next(self.numbers) % TAGS)
        except MessageError as error:
            self.failed(error)
        return True

    cdef int combine(self, Held held, Py_buffer *out, Py_buffer *into, int type_, int operation, int tag) except -1:
        """Each partner's partial result comes into the memory that is free, and is combined there."""
        cdef Py_ssize_t length = into.len
        cdef size_t count = length // element_sizes[type_] if operation >= 0 else 0
        cdef void *value = into.buf if out == NULL else out.buf
        cdef void *room = NULL if out == NULL else into.buf
        cdef void *other
        cdef void *spare = NULL
        cdef fs_request[2] both
        cdef int distance = 1, peer
        if length and (out == NULL or self.size > 2):
            held.spare = scratch(length)
            spare = memory_of(held.spare)
            if out == NULL:
                room = spare
        while distance < self.size:
            peer = self.ranks[self.rank ^ distance]
            prepare_memory(&both[0], FS_RECEIVING, room, length)
            prepare_memory(&both[1], FS_SENDING, value, length)
            aim(&both[0], peer, tag, self.context)
            aim(&both[1], peer, tag, self.context)
            self.exchange(both)
            if operation >= 0:
                c_reduce_local(operation, type_, value, room, count)
            else:
                held.own.combine(value, room, length)
            other = value
            value, room = room, other
            if length and out != NULL and room == out.buf:
                room = spare
            distance *= 2
        if value != into.buf and length:
            memcpy(into.buf, value, length)
        return 0

    def _declined(self, *arguments):
        return False

    barrier = gather = gatherv = scatter = scatterv = allgather = allgatherv = _declined
    alltoall = alltoallv = alltoallw = reduce = reduce_scatter = reduce_scatter_block = scan = exscan = _declined
