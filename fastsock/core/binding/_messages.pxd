from libc.stdint cimport uint32_t
from ._requests cimport Progress, Request
from .engine cimport fs_envelope, fs_message, fs_request


cdef class Matched:
    cdef fs_message *message
    cdef Progress engine
    cdef fs_envelope probed

    cdef fs_message *take(self) except NULL
    # As irecv() with a request that has its memory, and the same for a caller that waits.
    cdef int c_irecv(self, Request request) except -1
    cdef int c_recv(self, fs_request *request) except -1


cdef class Messages(Progress):
    # As send() and recv() of plain memory; `envelope` may be NULL.
    cdef int c_send(self, const void *data, size_t length, int peer, int tag, uint32_t context, int mode) except -1
    cdef int c_recv(self, void *data, size_t length, int peer, int tag, uint32_t context,
                    fs_envelope *envelope) except -1
    # The same of a request that has its memory.
    cdef int c_send_it(self, fs_request *request, int peer, int tag, uint32_t context, int mode) except -1
    cdef int c_recv_it(self, fs_request *request, int peer, int tag, uint32_t context) except -1
    # All of `count` requests at the same time: the first `receives` receive, the others send. Each has its memory, and an aim
    # (`_requests.pxd`). What has come already is taken behind the sends: the other ends wait for these.
    cdef int c_exchange(self, fs_request *requests, int receives, int count, int mode) except -1
    # The same in two halves: the second tells whether all are done after so many seconds. Who does not ask again abandons
    # them. After an exception nothing of it is under way any more.
    cdef int c_exchange_begin(self, fs_request *requests, int receives, int count, int mode) except -1
    cdef bint c_exchange_end(self, fs_request *requests, int receives, int count, double patience) except -1
    cdef int c_abandon(self, fs_request *requests, int count) except -1
    cdef int receive_late(self, fs_request *requests, int receives) except -1
    # As isend() and irecv() with a request that has its memory.
    cdef int c_isend(self, Request request, int peer, int tag, uint32_t context, int mode) except -1
    cdef int c_irecv(self, Request request, int peer, int tag, uint32_t context) except -1
    # As iprobe(), probe(), improbe() and mprobe().
    cdef bint c_probe(self, int peer, int tag, uint32_t context, fs_envelope *envelope) except -1
    cdef int c_await(self, int peer, int tag, uint32_t context, fs_envelope *envelope) except -1
    cdef Matched c_match(self, int peer, int tag, uint32_t context)
    cdef Matched c_await_match(self, int peer, int tag, uint32_t context)

    cdef int check_source(self, int peer, int tag, uint32_t context, bint waits) except -1
    cdef int await_message(self, uint32_t arrivals) except -1
