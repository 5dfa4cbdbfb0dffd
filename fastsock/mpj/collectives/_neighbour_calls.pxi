# Part of _collectives: neighbourhood calls on plain arrays. They go by messages, all at the same time.

cdef int MODE = STANDARD


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


cdef bint equal_layout(const Py_buffer *view, Layout *layout, int many) noexcept:
    """As many blocks of one size as make up a buffer; whether they do."""
    cdef Py_ssize_t block = view.len // many
    if block * many != view.len or block % view.itemsize:
        return False
    equal_blocks(layout, block, many)
    return True


@cython.final
cdef class NeighbourCalls:
    """The neighbourhood calls of one communicator."""
    cdef Engine engine
    cdef object communicator, numbers
    cdef uint32_t context
    cdef int source_count, destination_count, send_count
    cdef int[FS_TEAM_MOST] sources, destinations, order  # ranks in the world or -1; the destinations' places

    def __init__(self, communicator, sources, destinations, order):
        members = communicator.members
        self.communicator, self.engine, self.numbers = communicator, communicator.engine, members.numbers
        self.context = members.context
        if max(len(sources), len(destinations)) > FS_TEAM_MOST:
            sources, destinations, order = [], [], []  # then every call goes the general way
        self.source_count, self.destination_count, self.send_count = len(sources), len(destinations), len(order)
        for i, rank in enumerate(sources):
            self.sources[i] = members.ranks[rank] if rank >= 0 else -1
        for i, rank in enumerate(destinations):
            self.destinations[i] = members.ranks[rank] if rank >= 0 else -1
        for i, place in enumerate(order):
            self.order[i] = place

    def allgather(self, send, receive):
        """Neighbor_allgather."""
        return self.call(send, False, receive, False, True)

    def allgatherv(self, send, receive):
        """Neighbor_allgatherv."""
        return self.call(send, False, receive, True, True)

    def alltoall(self, send, receive):
        """Neighbor_alltoall."""
        return self.call(send, False, receive, False, False)

    def alltoallv(self, send, receive):
        """Neighbor_alltoallv."""
        return self.call(send, True, receive, True, False)

    cdef bint call(self, send, bint out_differ, receive, bint into_differ, bint to_all) except -1:
        """`differ`: blocks have sizes of their own; `to_all`: what is sent is one block, for every destination."""
        cdef Held held = Held.__new__(Held)
        cdef Layout outgoing, incoming
        cdef int i
        if self.source_count == 0 or self.destination_count == 0:
            return False
        if into_differ:
            held.holds_into = take_layout(receive, True, &held.into.span, &incoming, self.source_count)
        else:
            held.holds_into = take(receive, True, &held.into, self.source_count) >= 0
        if not held.holds_into or not (into_differ or equal_layout(&held.into.span.view, &incoming, self.source_count)):
            return False
        if out_differ:
            held.holds_out = take_layout(send, False, &held.out.span, &outgoing, self.destination_count)
        else:
            held.holds_out = take(send, False, &held.out, 1 if to_all else self.destination_count) >= 0
        if not held.holds_out:
            return False
        if to_all:
            for i in range(self.destination_count):
                outgoing.sizes[i], outgoing.offsets[i] = held.out.span.view.len, 0
        elif not out_differ and not equal_layout(&held.out.span.view, &outgoing, self.destination_count):
            return False
        self.exchange(held, &outgoing, &incoming)
        return True

    cdef int exchange(self, Held held, Layout *outgoing, Layout *incoming) except -1:
        cdef fs_request *waited[2 * FS_TEAM_MOST]
        cdef Request request
        cdef list requests = []
        cdef int i, place, tag = next(self.numbers) % TAGS
        try:
            for i in range(self.source_count):
                if self.sources[i] >= 0:
                    request = started(self.engine, held, &held.into.span.view, incoming, i, FS_RECEIVING)
                    self.engine.c_irecv(request, self.sources[i], tag, self.context)
                    requests.append(request)
            for i in range(self.send_count):
                place = self.order[i]
                request = started(self.engine, held, &held.out.span.view, outgoing, place, FS_SENDING)
                self.engine.c_isend(request, self.destinations[place], tag, self.context, MODE)
                requests.append(request)
            for i in range(<int>len(requests)):
                waited[i] = &(<Request>requests[i]).request
            self.engine.c_wait_all(waited, len(requests))
            for i in range(<int>len(requests)):
                request = <Request>requests[i]
                request.settle()
                request.collect()
                if request.request.error != FS_FINE:
                    raise self.engine.failure(&request.request)
        except MessageError as error:
            raise self.communicator.failed(error) from error
        return 0


cdef Request started(Engine engine, Held held, Py_buffer *view, Layout *layout, int place, int kind):
    """The message of one block, about to begin."""
    cdef Request request = Request.__new__(Request)
    request.take_memory(engine, <char *>view.buf + layout.offsets[place], layout.sizes[place], NULL, kind)
    request.own(held)
    return request
