from libc.stdint cimport int64_t, uint32_t
from ._schedule cimport BoundSchedule
from .engine cimport FS_SENDER_FAILED, fs_engine, fs_envelope, fs_layout, fs_request, fs_request_is_done, fs_wait
from .system cimport iovec


cdef enum:
    REASON = 256


cdef class Envelope:
    cdef readonly int source, tag
    cdef readonly Py_ssize_t length
    cdef readonly bint cancelled


cdef Envelope new_envelope(const fs_envelope *envelope, bint cancelled)
cdef object new_payload(fs_request *request)  # the memory that came, as a writable buffer

# A request of plain memory, and one of items with gaps, as fs_request_prepare_items().
cdef void prepare_memory(fs_request *request, int kind, void *data, size_t length) noexcept
cdef void prepare_items(fs_request *request, int kind, void *origin, const fs_layout *layout, int64_t extent,
                        size_t length) noexcept


# Of a request for c_exchange().
cdef inline void aim(fs_request *request, int peer, int tag, uint32_t context) noexcept:
    request.peer, request.tag, request.context = peer, tag, context


# What brings an engine's requests on, and waits for them.
cdef class Progress:
    cdef fs_engine *engine
    cdef readonly int rank, size, peers
    cdef public object on_missing
    cdef void *newest  # of the completed requests that nobody collected; held only without the interpreter's lock
    cdef object __weakref__

    cdef int alive(self) except -1
    cdef int call_missing(self, int peer) except -1
    cdef object failure(self, const fs_request *request)
    cdef int begun(self, Request request, int result) except -1
    cdef int finish_blocking(self, fs_request *request, int result) except -1
    cdef int wait_until(self, fs_wait *wait) except -1
    # As progress() and give_way().
    cdef bint c_progress(self) except -1
    cdef int c_give_way(self) except -1
    # As wait_all() and wait_any(), with requests of this engine.
    cdef int c_wait_all(self, fs_request **requests, Py_ssize_t count) except -1
    cdef int c_wait_any(self, fs_request **requests, Py_ssize_t count) except -1
    cdef int drain(self) except -1
    cdef Request take_newest(self)
    cdef int forget_dropped(self) except -1


cdef class Request:
    cdef fs_request request
    cdef readonly Progress engine
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
    cdef void take_memory(self, Progress engine, void *data, size_t length, const Py_buffer *view, int kind) noexcept
    # Behind that: its data are those of items with gaps, with that layout and extent.
    cdef void leave_gaps(self, const fs_layout *layout, int64_t extent) noexcept
    cdef int drop_buffers(self) except -1
    cdef int own(self, owner) except -1  # sets `owner`
    cdef int settle(self) except -1
    # As again(), where awaits_others().
    cdef int c_again(self) except -1
    cdef int collect(self) except -1
    cdef void list_it(self, Progress engine) noexcept
    cdef bint unlist(self) noexcept
    cdef object take_callback(self)


cdef class UserRequest(Request):
    cdef object reason


# Whether it ended since somebody failed who might have sent.
cdef inline bint awaits_others(Request request) noexcept:
    return request.request.error == FS_SENDER_FAILED and fs_request_is_done(&request.request) != 0
