# What other compiled modules may use of the core: the message engine's hot path, a team's collectives, the bytes of a
# channel, and what connections that stay on TCP ask.
from cpython.pystate cimport PyThreadState
from libc.stdint cimport int64_t, uint32_t, uint64_t
from .engine cimport (
    fs_collective, fs_engine, fs_envelope, fs_layout, fs_message, fs_part, fs_request, fs_schedule, fs_step, fs_wait,
)
from .stream cimport fs_end
from .switch cimport fs_connection, fs_loop, fs_polled, fs_poller, fs_record, fs_seats, fs_table_chunk
from .system cimport atomic_int, fs_parts, iovec
from .team cimport fs_blocks, fs_team


cdef uint64_t now_ns() noexcept  # as monotonic()
cdef int c_reduce_local(int operation, int type, const void *source, void *target, size_t count) except -1

# A Channel's bytes; the first says whether an object is one. What comes is 0 at the end of the stream.
cdef bint is_channel(object candidate) noexcept
# Sends what there is room for, waiting for no room: the bytes that went. patient: the caller waits for room
# by itself, nobody polls for it, and a receiver that is at work may copy in the meantime, for milliseconds.
cdef Py_ssize_t channel_send(object channel, const char *data, Py_ssize_t length, bint patient) except -1
# The same of a gather, from which what goes is taken off.
cdef Py_ssize_t channel_send_parts(object channel, fs_parts *parts, bint patient) except -1
# Receives what is there, or -1.
cdef Py_ssize_t channel_receive(object channel, char *target, Py_ssize_t length) except -2
# The same, after waiting until the deadline in seconds of monotonic(); 0 waits as SO_RCVTIMEO says.
cdef Py_ssize_t channel_await(object channel, char *target, Py_ssize_t length, double deadline) except -2


# carrying.pxi: a Channel's bytes
cdef fs_end *c_end(object channel) except NULL
cdef ssize_t c_send(object channel, fs_parts *parts, double seconds) except -1
cdef ssize_t c_receive(object channel, void *target, Py_ssize_t length, double seconds) except -1
cdef int c_settle(object channel) except -1
cdef int c_spin(fs_end **ends, fs_record **records, Py_ssize_t count, double microseconds, const atomic_int *news) noexcept


cdef void note_block(size_t length) noexcept  # blocks of so many bytes come and go: as fs_expect_blocks()


# carriers.pxi: TCP connections that gain memory. As fs_table_..., fs_carry_... and fs_leave_...
cdef fs_connection *table_find(int descriptor) noexcept nogil
cdef fs_table_chunk *table_chunks() noexcept nogil
cdef int table_enter(int descriptor, int role) noexcept nogil
cdef int table_duplicate(int descriptor, int number) noexcept nogil
cdef int table_next(int descriptor) noexcept nogil
cdef ssize_t carry_send(fs_connection *connection, int descriptor, fs_parts *parts, int flags, int kernel_flags) noexcept nogil
cdef ssize_t carry_receive(fs_connection *connection, int descriptor, void *target, size_t length, int flags,
                           int kernel_flags) noexcept nogil
cdef ssize_t carry_unread(fs_connection *connection, int descriptor) noexcept nogil
cdef int carry_settle(fs_connection *connection, int descriptor, int flags) noexcept nogil
cdef int carry_look(fs_connection *connection, int descriptor, int what) noexcept nogil
cdef fs_end *carry_hold(fs_connection *connection, int descriptor, fs_record **record) noexcept nogil
cdef void end_drop(fs_end *end) noexcept nogil
cdef int desk_show(fs_connection *connection, int descriptor, uint64_t desk) noexcept nogil
cdef uint64_t desk_own(fs_connection *connection, int descriptor) noexcept nogil
cdef uint64_t desk_other(fs_connection *connection, int descriptor) noexcept nogil
cdef int carry_send_begins(fs_connection *connection, int descriptor, int pinned, fs_record **within) noexcept nogil
cdef void carry_send_ended(fs_connection *connection, int descriptor, fs_record *within, ssize_t moved) noexcept nogil
cdef int carry_receive_begins(fs_connection *connection, int descriptor, int lasts, fs_record **within) noexcept nogil
cdef ssize_t carry_receive_ended(fs_connection *connection, int descriptor, int lasts, fs_record *within, ssize_t moved,
                                 int peeked) noexcept nogil
cdef int carry_wait_behind(fs_connection *connection, int descriptor) noexcept nogil
cdef int option_set(fs_connection *connection, int descriptor, int level, int option, int value) noexcept nogil
cdef void options_bound(fs_connection *connection, int descriptor) noexcept nogil
cdef int option_get(fs_connection *connection, int descriptor, int level, int option, int *value) noexcept nogil
cdef uint32_t connection_generation(const fs_connection *connection) noexcept nogil
cdef void connection_unwatch(fs_connection *connection, int descriptor) noexcept nogil
cdef bint polling_is_due() noexcept nogil
cdef void poller_begin(fs_poller *poller) noexcept nogil
cdef int poller_note(fs_poller *poller, int descriptor) noexcept nogil
cdef void poller_drop(fs_poller *poller, int descriptor) noexcept nogil
cdef int poller_look(fs_poller *poller, int *ready) noexcept nogil
cdef int poller_settle(fs_poller *poller, int *ready) noexcept nogil
cdef int poller_await(fs_poller *poller, const fs_polled *among, int count, uint64_t limit_ns) noexcept nogil
cdef int polling_is_stale(int descriptor, int flags) noexcept nogil
cdef void polling_told_edge(int descriptor) noexcept nogil
cdef void polling_show(int descriptor) noexcept nogil
cdef int seats_take(fs_seats *seats, int descriptor, bint may_have_bit) noexcept nogil
cdef void seats_leave(fs_seats *seats, int descriptor) noexcept nogil
cdef void seats_end(fs_seats *seats) noexcept nogil
cdef int seats_flags(const fs_seats *seats, int descriptor) noexcept nogil
cdef int seats_told(fs_seats *seats, int descriptor) noexcept nogil
cdef int seats_make_loop(fs_seats *seats) noexcept nogil
cdef void seats_drop_loop(fs_seats *seats) noexcept nogil
cdef int seats_next(const fs_seats *seats, int descriptor) noexcept nogil
cdef int seats_moved(fs_seats *seats) noexcept nogil
cdef int seats_look(fs_seats *seats, int *numbers, int flags) noexcept nogil
cdef int seats_sleep(fs_seats *seats, int *numbers, int flags, fs_loop **asleep) noexcept nogil
cdef void seats_awake(fs_seats *seats, fs_loop *asleep, int rung) noexcept nogil
cdef void seats_ask(fs_seats *seats, int change) noexcept nogil
cdef void seats_pass_on(fs_seats *seats) noexcept nogil
# The doors of the preloaded library, where it is there (core/beside.h).
cdef int doors_share(int wanted) noexcept nogil
cdef int doors_pass(int descriptor) noexcept nogil
cdef uint32_t doors_entered() noexcept nogil

cdef void table_lose(int descriptor) noexcept nogil  # what the table has of the number was closed without a word
cdef bint table_adopts(int descriptor) noexcept nogil  # also a duplicate that was made unseen
cdef bint table_knows(int descriptor) noexcept nogil  # and the number is that connection's still
cdef void leave_descriptor(int descriptor) noexcept nogil
cdef void leave_whole_number(int descriptor) noexcept nogil
cdef void leave_range(unsigned first, unsigned last) noexcept nogil
cdef void leave_all() noexcept nogil
cdef int leave_shutdown(fs_connection *connection, int descriptor, int how) noexcept nogil
cdef int leave_release(fs_connection *connection, int descriptor) noexcept nogil
cdef void connection_watch(fs_connection *connection, int descriptor) noexcept nogil
cdef bint carry_wait_awake(fs_connection *connection, int descriptor, int what) except -1
cdef int carry_wait(fs_connection *connection, int descriptor, int what, uint64_t deadline, bint dozes) except -1
cdef int share_lock() except -1
cdef bint is_contended() noexcept


cdef enum:
    FEW = 4  # buffers, whose places are in the object


# Several buffers that are sent as one. take(): their memory, until the object goes.
cdef class Gather:
    cdef fs_parts parts  # what is left to be sent
    cdef Py_buffer few_views[FEW]
    cdef iovec few[FEW]
    cdef Py_buffer *views
    cdef iovec *vector
    cdef int count

    cdef int take(self, buffers) except -1


cdef class Hidden:
    cdef readonly int number
    cdef unsigned long device, file
    cdef str process

    cdef bint is_same(self) noexcept  # as is_ours()
    cpdef close(self)


cdef class Envelope:
    cdef readonly int source, tag
    cdef readonly Py_ssize_t length
    cdef readonly bint cancelled


# A request of plain memory, and one of items with gaps, as fs_request_prepare_items().
cdef void prepare_memory(fs_request *request, int kind, void *data, size_t length) noexcept
cdef void prepare_items(fs_request *request, int kind, void *origin, const fs_layout *layout, int64_t extent,
                        size_t length) noexcept


# Of a request for c_exchange().
cdef inline void aim(fs_request *request, int peer, int tag, uint32_t context) noexcept:
    request.peer, request.tag, request.context = peer, tag, context


cdef class Engine:
    cdef fs_engine *engine
    cdef readonly int rank, size
    cdef public object on_missing
    cdef void *newest  # of the completed requests that nobody collected; held only without the interpreter's lock
    cdef dict attached
    cdef object __weakref__

    # As send() and recv() of plain memory; `envelope` may be NULL.
    cdef int c_send(self, const void *data, size_t length, int peer, int tag, uint32_t context, int mode) except -1
    cdef int c_recv(self, void *data, size_t length, int peer, int tag, uint32_t context,
                    fs_envelope *envelope) except -1
    # The same of a request that has its memory.
    cdef int c_send_it(self, fs_request *request, int peer, int tag, uint32_t context, int mode) except -1
    cdef int c_recv_it(self, fs_request *request, int peer, int tag, uint32_t context) except -1
    # All of `count` requests at the same time: the first `receives` receive, the others send. Each has its memory, and an aim
    # (below). What has come already is taken behind the sends: the other ends wait for these.
    cdef int c_exchange(self, fs_request *requests, int receives, int count, int mode) except -1
    # The same in two halves: the second tells whether all are done after so many seconds. Who does not ask again abandons
    # them. After an exception nothing of it is under way any more.
    cdef int c_exchange_begin(self, fs_request *requests, int receives, int count, int mode) except -1
    cdef bint c_exchange_end(self, fs_request *requests, int receives, int count, double patience) except -1
    cdef int c_abandon(self, fs_request *requests, int count) except -1
    cdef int receive_late(self, fs_request *requests, int receives) except -1
    # As isend() and irecv() with a request that has its memory, and as wait_all() with requests of this engine.
    cdef int c_isend(self, Request request, int peer, int tag, uint32_t context, int mode) except -1
    cdef int c_irecv(self, Request request, int peer, int tag, uint32_t context) except -1
    cdef int c_wait_all(self, fs_request **requests, Py_ssize_t count) except -1
    cdef int c_wait_any(self, fs_request **requests, Py_ssize_t count) except -1
    # As iprobe(), probe(), improbe(), mprobe(), progress() and give_way().
    cdef bint c_probe(self, int peer, int tag, uint32_t context, fs_envelope *envelope) except -1
    cdef int c_await(self, int peer, int tag, uint32_t context, fs_envelope *envelope) except -1
    cdef Matched c_match(self, int peer, int tag, uint32_t context)
    cdef Matched c_await_match(self, int peer, int tag, uint32_t context)
    cdef bint c_progress(self) except -1
    cdef int c_give_way(self) except -1
    # Follows a schedule; `tags` has one for each of its channels.
    cdef int c_start(self, Request request, BoundSchedule bound, const int *tags) except -1
    # As set_members(); the latter takes back what the former said.
    cdef int c_set_members(self, uint32_t context, const int *ranks, size_t count) except -1
    cdef void c_clear_members(self, uint32_t context) noexcept

    cdef int alive(self) except -1
    cdef int check_attached(self, int peer, int error) except -1
    cdef int check_source(self, int peer, int tag, uint32_t context, bint waits) except -1
    cdef int await_message(self, uint32_t arrivals) except -1
    cdef int wait_many(self, requests, bint all, timeout, Py_ssize_t *which) except -1
    cdef int call_missing(self, int peer) except -1
    cdef int finish_blocking(self, fs_request *request, int result) except -1
    cdef int wait_until(self, fs_wait *wait) except -1
    cdef int drain(self) except -1
    cdef Request take_newest(self)
    cdef int forget_dropped(self) except -1
    cdef int begun(self, Request request, int result) except -1
    cdef object failure(self, const fs_request *request)


cdef class Request:
    cdef fs_request request
    cdef readonly Engine engine
    cdef object owner_
    cdef Py_buffer view
    cdef Py_buffer *views
    cdef iovec *vector
    cdef int view_count
    cdef object callback_, payload_
    cdef BoundSchedule follows  # until it is done
    cdef void *newer
    cdef void *older
    cdef bint listed, settled
    cdef bint unpeeked  # peek() does not give it: it never stands among those that are
    cdef object __weakref__

    cdef int take_buffers(self, object data, int flags, int kind) except -1
    # The memory of a new request that is `unpeeked`; of `view`, unless NULL, it lets go.
    cdef void take_memory(self, Engine engine, void *data, size_t length, const Py_buffer *view, int kind) noexcept
    # Behind that: its data are those of items with gaps, with that layout and extent.
    cdef void leave_gaps(self, const fs_layout *layout, int64_t extent) noexcept
    cdef int drop_buffers(self) except -1
    cdef int own(self, owner) except -1  # sets `owner`
    cdef int settle(self) except -1
    cdef int collect(self) except -1
    cdef void list_it(self, Engine engine) noexcept
    cdef bint unlist(self) noexcept
    cdef object take_callback(self)


cdef class Matched:
    cdef fs_message *message
    cdef Engine engine
    cdef fs_envelope told

    cdef fs_message *take(self) except NULL
    # As irecv() with a request that has its memory, and the same for a caller that waits.
    cdef int c_irecv(self, Request request) except -1
    cdef int c_recv(self, fs_request *request) except -1


cdef class Schedule:
    cdef fs_schedule schedule
    cdef fs_step *steps
    cdef fs_part *parts
    cdef uint32_t *awaited
    cdef Py_ssize_t *lengths  # of the buffers
    cdef Py_ssize_t total     # bytes that it moves
    cdef tuple targets        # whom it sends to
    cdef Engine asked         # has asked for them
    cdef readonly Py_ssize_t scratch

    cdef int take_steps(self, list steps, list parts, list awaited, size_t requests) except -1
    cdef int ask(self, Engine engine) except -1


cdef class BoundSchedule:
    cdef fs_collective *collective
    cdef readonly Schedule schedule
    cdef object memory  # keeps the buffers
    cdef Py_buffer *views
    cdef int view_count

    cdef bint claimed  # by whoever is about to follow it, until it is done

    cdef int bind(self, void **buffers, object memory) except -1
    cdef bint claim(self) except -1  # False: somebody follows it
    cdef int give_back(self) except -1


cdef BoundSchedule new_bound(Schedule schedule)


# What a team's waits do beside waiting.
cdef struct Waiter:
    PyThreadState *outside
    fs_engine *engine
    void *owner  # the Engine
    uint64_t looked_at


cdef class Team:
    cdef fs_team *team
    cdef Waiter waiter
    cdef Engine engine
    cdef readonly tuple ranks
    cdef tuple bells, watches
    cdef readonly int index, size
    cdef unsigned long user       # the thread within a collective, or 0,
    cdef uint32_t user_generation  # and its process: a forked child has no such thread

    cdef int enter(self) except -1
    cdef int ended(self, int result) except -1
    cdef object failure(self, int result)
    cdef Buffer own_part(self, source, Buffer target)
    cdef int within(self, size_t bytes, Buffer buffer) except -1
    cdef size_t sizes(self, sequence, size_t *array) except? 0
    cdef int layout(self, sizes, offsets, size_t *size, size_t *offset, Buffer buffer) except -1

    # As the methods without c_, on plain memory; counts are elements, lengths bytes.
    cdef int c_barrier(self) except -1
    cdef int c_bcast(self, void *data, size_t length, int root) except -1
    cdef int c_reduce(self, const void *source, void *target, size_t count, int type, int operation, int root) except -1
    cdef int c_allreduce(self, const void *source, void *target, size_t count, int type, int operation) except -1
    cdef int c_scan(self, const void *source, void *target, size_t count, int type, int operation) except -1
    cdef int c_exscan(self, const void *source, void *target, size_t count, int type, int operation) except -1
    cdef int c_reduce_scatter(self, const void *source, void *target, const size_t *counts, int type,
                              int operation) except -1
    cdef int c_gather(self, const void *source, size_t length, void *target, const fs_blocks *blocks, int root) except -1
    cdef int c_scatter(self, const void *source, const fs_blocks *blocks, void *target, size_t length, int root) except -1
    cdef int c_allgather(self, const void *source, void *target, const fs_blocks *blocks) except -1
    cdef int c_alltoall(self, const void *source, const fs_blocks *out, void *target, const fs_blocks *in_) except -1

cdef class Buffer:
    cdef Py_buffer raw
