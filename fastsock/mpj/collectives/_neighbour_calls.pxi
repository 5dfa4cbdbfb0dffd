# Part of _collectives: neighbourhood calls on plain arrays. They go by messages, all at the same time.

cdef int MODE = STANDARD
cdef enum:
    FEW_MESSAGES = 16  # of a call without an allocation


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
        cdef Taken out, into
        cdef Layout outgoing, incoming
        if self.source_count == 0 or self.destination_count == 0:
            return False
        if not hold_blocks(receive, True, into_differ, &into, &incoming, self.source_count):
            return False
        try:
            if to_all:
                if take(send, False, &out) < 0:
                    return False
                one_block(&outgoing, out.span.view.len, self.destination_count)
            elif not hold_blocks(send, False, out_differ, &out, &outgoing, self.destination_count):
                return False
            try:
                self.exchange(<char *>out.span.view.buf, &outgoing, <char *>into.span.view.buf, &incoming)
            finally:
                PyBuffer_Release(&out.span.view)
        finally:
            PyBuffer_Release(&into.span.view)
        return True

    cdef int exchange(self, char *out, Layout *outgoing, char *into, Layout *incoming) except -1:
        cdef fs_request[FEW_MESSAGES] here
        cdef fs_request *requests = here
        cdef int i, place, receives = 0, count, tag = next(self.numbers) % TAGS_HERE
        if self.source_count + self.send_count > FEW_MESSAGES:
            requests = <fs_request *>malloc((self.source_count + self.send_count) * sizeof(fs_request))
            if requests == NULL:
                raise MemoryError()
        try:
            for i in range(self.source_count):
                if self.sources[i] >= 0:
                    prepare_memory(&requests[receives], FS_RECEIVING, into + incoming.offsets[i], incoming.sizes[i])
                    aim(&requests[receives], self.sources[i], tag, self.context)
                    receives += 1
            count = receives
            for i in range(self.send_count):
                place = self.order[i]
                prepare_memory(&requests[count], FS_SENDING, out + outgoing.offsets[place], outgoing.sizes[place])
                aim(&requests[count], self.destinations[place], tag, self.context)
                count += 1
            self.engine.c_exchange(requests, receives, count, MODE)
        except MessageError as error:
            raise self.communicator.failed(error) from error
        finally:
            if requests != here:
                free(requests)
        return 0


cdef bint hold_blocks(object argument, bint writable, bint differ, Taken *taken, Layout *layout, int many) except -1:
    """Takes a buffer of so many blocks; False where the general path is to look at it, and then nothing is held."""
    if differ:
        return take_layout(argument, writable, &taken.span, layout, many)
    if take(argument, writable, taken, many) < 0:
        return False
    if equal_layout(&taken.span.view, layout, many):
        return True
    PyBuffer_Release(&taken.span.view)
    return False


cdef void one_block(Layout *layout, size_t length, int many) noexcept:
    """The same block for each."""
    cdef int i
    for i in range(many):
        layout.sizes[i], layout.offsets[i] = length, 0
