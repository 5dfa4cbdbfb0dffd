# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
# cython: binding=False, embedsignature=True, embedsignature.format=clinic
"""Messages of the engine: sent, received, probed."""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_CheckSignals
from cpython.ref cimport Py_INCREF
from libc.stdint cimport UINT64_MAX
from libc.stdlib cimport free

from ._core cimport LONG_COPY, deadline_after
from ._requests cimport aim, new_envelope, new_payload, prepare_memory
from .engine cimport (
    FS_DONE, FS_FINE, FS_HERE, FS_LATER, FS_NEVER, FS_PEER_LEFT, FS_PEER_MISSING, FS_RECEIVING, FS_SENDING, FS_STANDARD,
    fs_engine_abandon, fs_engine_arrivals, fs_engine_cancel, fs_engine_drop_matched, fs_engine_expect,
    fs_engine_is_usable, fs_engine_look, fs_engine_look_out, fs_engine_match, fs_engine_only_local, fs_engine_probe,
    fs_engine_probe_failed, fs_engine_receive, fs_engine_receive_matched, fs_engine_send,
    fs_request_is_done, fs_wait, fs_wait_prepare,
)


@cython.final
@cython.no_gc_clear  # its end needs its engine
cdef class Matched:
    """A message that a matched probe took: no other receive finds it."""

    @property
    def envelope(self):
        return new_envelope(&self.probed, False)

    @cython.critical_section
    cdef fs_message *take(self) except NULL:
        cdef fs_message *message = self.message
        if message == NULL:
            raise ValueError("this message was received already")
        self.engine.alive()
        self.message = NULL
        return message

    cdef int c_irecv(self, Request request) except -1:
        cdef fs_message *message = self.take()
        cdef int result
        Py_INCREF(request)
        if request.request.length < <size_t>LONG_COPY:
            result = fs_engine_receive_matched(self.engine.engine, &request.request, message)
        else:
            with nogil:
                result = fs_engine_receive_matched(self.engine.engine, &request.request, message)
        self.engine.begun(request, result)
        return 0

    cdef int c_recv(self, fs_request *request) except -1:
        cdef fs_message *message = self.take()
        cdef int result
        if request.length < <size_t>LONG_COPY:
            result = fs_engine_receive_matched(self.engine.engine, request, message)
        else:
            with nogil:
                result = fs_engine_receive_matched(self.engine.engine, request, message)
        if result != FS_DONE:
            self.engine.finish_blocking(request, result)
        if request.error != FS_FINE:
            raise self.engine.failure(request)
        return 0

    def irecv(self, buffer):
        """Receives it into `buffer`: writable, contiguous, or None, or a list of them."""
        cdef Request request = Request.__new__(Request)
        request.engine = self.engine
        request.take_buffers(buffer, PyBUF_WRITABLE, FS_RECEIVING)
        self.c_irecv(request)
        return request

    def irecv_new(self):
        """Receives it into new memory: request.payload."""
        cdef Request request = Request.__new__(Request)
        request.engine = self.engine
        request.take_buffers(None, 0, FS_RECEIVING)
        request.request.allocates = 1
        self.c_irecv(request)
        return request

    def __dealloc__(self):
        if self.message != NULL and fs_engine_is_usable(self.engine.engine):
            fs_engine_drop_matched(self.engine.engine, self.message)


cdef class Messages(Progress):
    """What an engine sends, receives and probes. `Engine` is made upon it."""

    # ---- requests ----

    def isend(self, data, int peer, int tag, uint32_t context, int mode=FS_STANDARD):
        """Starts sending. data: a contiguous buffer, None, or a list of buffers that are one message."""
        cdef Request request = Request.__new__(Request)
        request.engine = self
        request.take_buffers(data, PyBUF_SIMPLE, FS_SENDING)
        self.c_isend(request, peer, tag, context, mode)
        return request

    cdef int c_isend(self, Request request, int peer, int tag, uint32_t context, int mode) except -1:
        cdef int result
        Py_INCREF(request)
        if request.request.length < <size_t>LONG_COPY:
            result = fs_engine_send(self.engine, &request.request, peer, tag, context, mode)
        else:
            with nogil:
                result = fs_engine_send(self.engine, &request.request, peer, tag, context, mode)
        self.begun(request, result)
        if result & FS_PEER_MISSING:
            try:
                self.call_missing(peer)
            except:
                fs_engine_cancel(self.engine, &request.request)
                self.drain()
                raise
        return 0

    def irecv(self, buffer, int peer, int tag, uint32_t context):
        """Starts receiving into `buffer`: writable, contiguous, or None for nothing, or a list of them."""
        cdef Request request = Request.__new__(Request)
        request.engine = self
        request.take_buffers(buffer, PyBUF_WRITABLE, FS_RECEIVING)
        self.c_irecv(request, peer, tag, context)
        return request

    cdef int c_irecv(self, Request request, int peer, int tag, uint32_t context) except -1:
        cdef int result
        Py_INCREF(request)
        if request.request.length < <size_t>LONG_COPY:
            result = fs_engine_receive(self.engine, &request.request, peer, tag, context)
        else:
            with nogil:
                result = fs_engine_receive(self.engine, &request.request, peer, tag, context)
        self.begun(request, result)
        return 0

    def irecv_new(self, int peer, int tag, uint32_t context):
        """Starts receiving into memory that is allocated when the message is there: request.payload."""
        cdef Request request = Request.__new__(Request)
        cdef int result
        request.engine = self
        request.take_buffers(None, 0, FS_RECEIVING)
        request.request.allocates = 1
        Py_INCREF(request)
        with nogil:
            result = fs_engine_receive(self.engine, &request.request, peer, tag, context)
        self.begun(request, result)
        return request

    # ---- blocking calls, which make no Request ----

    cdef int c_send(self, const void *data, size_t length, int peer, int tag, uint32_t context, int mode) except -1:
        cdef fs_request request
        prepare_memory(&request, FS_SENDING, <void *>data, length)
        return self.c_send_it(&request, peer, tag, context, mode)

    cdef int c_send_it(self, fs_request *request, int peer, int tag, uint32_t context, int mode) except -1:
        cdef int result
        if request.length < <size_t>LONG_COPY:
            result = fs_engine_send(self.engine, request, peer, tag, context, mode)
        else:
            with nogil:
                result = fs_engine_send(self.engine, request, peer, tag, context, mode)
        if result != FS_DONE:
            self.finish_blocking(request, result)
        if request.error != FS_FINE:
            raise self.failure(request)
        return 0

    cdef int c_recv(self, void *data, size_t length, int peer, int tag, uint32_t context,
                    fs_envelope *envelope) except -1:
        cdef fs_request request
        prepare_memory(&request, FS_RECEIVING, data, length)
        self.c_recv_it(&request, peer, tag, context)
        if envelope != NULL:
            envelope[0] = request.envelope
        return 0

    cdef int c_recv_it(self, fs_request *request, int peer, int tag, uint32_t context) except -1:
        cdef int result
        if request.length < <size_t>LONG_COPY:
            result = fs_engine_receive(self.engine, request, peer, tag, context)
        else:
            with nogil:
                result = fs_engine_receive(self.engine, request, peer, tag, context)
        if result != FS_DONE:
            self.finish_blocking(request, result)
        if request.error != FS_FINE:
            raise self.failure(request)
        return 0

    # ---- receiving and sending at the same time, without a Request ----

    cdef int c_exchange(self, fs_request *requests, int receives, int count, int mode) except -1:
        self.c_exchange_begin(requests, receives, count, mode)
        self.c_exchange_end(requests, receives, count, -1)
        return 0

    cdef int c_exchange_begin(self, fs_request *requests, int receives, int count, int mode) except -1:
        cdef fs_request *request
        cdef int i, result, begun = 0
        cdef bint late = False
        try:
            for i in range(receives):
                request = &requests[i]
                result = fs_engine_expect(self.engine, request, request.peer, request.tag, request.context)
                request.late = result == FS_LATER
                late |= request.late
                begun = i + 1
            for i in range(receives, count):
                request = &requests[i]
                if request.length < <size_t>LONG_COPY:
                    result = fs_engine_send(self.engine, request, request.peer, request.tag, request.context, mode)
                else:
                    with nogil:
                        result = fs_engine_send(self.engine, request, request.peer, request.tag, request.context, mode)
                begun = i + 1
                if result & FS_PEER_MISSING:
                    self.call_missing(request.peer)
            if late:
                self.receive_late(requests, receives)
        except:
            self.c_abandon(requests, begun)
            raise
        return 0

    cdef int receive_late(self, fs_request *requests, int receives) except -1:
        cdef fs_request *request
        cdef int i
        for i in range(receives):
            request = &requests[i]
            if not request.late:
                continue
            request.late = 0
            if request.length < <size_t>LONG_COPY:
                fs_engine_receive(self.engine, request, request.peer, request.tag, request.context)
            else:
                with nogil:
                    fs_engine_receive(self.engine, request, request.peer, request.tag, request.context)
        return 0

    cdef bint c_exchange_end(self, fs_request *requests, int receives, int count, double patience) except -1:
        cdef fs_request *request
        cdef fs_wait wait
        cdef int i
        try:
            for i in range(count):
                request = &requests[(receives + i) % count]  # a send that failed is told first
                if not fs_request_is_done(request) and (
                        request.length >= <size_t>LONG_COPY or fs_engine_only_local(self.engine)
                        or not fs_engine_look(self.engine, request)):
                    fs_wait_prepare(&wait, self.engine, &request, 1, 1, deadline_after(patience))
                    if not self.wait_until(&wait):
                        return False
                if request.error != FS_FINE:
                    raise self.failure(request)
        except:
            self.c_abandon(requests, count)
            raise
        return True

    cdef int c_abandon(self, fs_request *requests, int count) except -1:
        """A receive that nobody waits for would take the next message."""
        cdef int i
        for i in range(count):
            if not requests[i].late and not fs_request_is_done(&requests[i]):
                with nogil:
                    fs_engine_abandon(self.engine, &requests[i])
        return 0

    def send(self, data, int peer, int tag, uint32_t context, int mode=FS_STANDARD):
        """As isend() and wait()."""
        cdef Py_buffer view
        if data is None:
            self.c_send(NULL, 0, peer, tag, context, mode)
        elif isinstance(data, (list, tuple)):
            self.isend(data, peer, tag, context, mode).wait_or_cancel()
        else:
            PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
            try:
                self.c_send(view.buf, view.len, peer, tag, context, mode)
            finally:
                PyBuffer_Release(&view)

    def sendrecv(self, data not None, int dest, buffer not None, int source, int tag, uint32_t context):
        """Sends one contiguous buffer, and receives into another at the same time."""
        cdef fs_request[2] both
        cdef Py_buffer out, into
        PyObject_GetBuffer(data, &out, PyBUF_SIMPLE)
        try:
            PyObject_GetBuffer(buffer, &into, PyBUF_WRITABLE)
            try:
                prepare_memory(&both[0], FS_RECEIVING, into.buf, into.len)
                prepare_memory(&both[1], FS_SENDING, out.buf, out.len)
                aim(&both[0], source, tag, context)
                aim(&both[1], dest, tag, context)
                self.c_exchange(both, 1, 2, FS_STANDARD)
            finally:
                PyBuffer_Release(&into)
        finally:
            PyBuffer_Release(&out)

    def recv(self, buffer, int peer, int tag, uint32_t context):
        """As irecv() and wait(); the envelope."""
        cdef Py_buffer view
        cdef fs_envelope envelope
        if buffer is None:
            self.c_recv(NULL, 0, peer, tag, context, &envelope)
        elif isinstance(buffer, (list, tuple)):
            request = self.irecv(buffer, peer, tag, context)
            request.wait_or_cancel()
            return request.envelope
        else:
            PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE)
            try:
                self.c_recv(view.buf, view.len, peer, tag, context, &envelope)
            finally:
                PyBuffer_Release(&view)
        return new_envelope(&envelope, False)

    def recv_new(self, int peer, int tag, uint32_t context):
        """Receives into new memory: (payload, envelope)."""
        cdef fs_request request
        cdef int result
        prepare_memory(&request, FS_RECEIVING, NULL, 0)
        request.allocates = 1
        result = fs_engine_receive(self.engine, &request, peer, tag, context)
        if result != FS_DONE:
            self.finish_blocking(&request, result)
        if request.error != FS_FINE:
            free(request.payload)
            raise self.failure(&request)
        return new_payload(&request), new_envelope(&request.envelope, False)

    # ---- probes ----

    cdef bint c_probe(self, int peer, int tag, uint32_t context, fs_envelope *envelope) except -1:
        cdef int found
        self.alive()
        found = fs_engine_probe(self.engine, peer, tag, context, envelope)
        if found != FS_HERE and self.c_progress() or found == FS_NEVER:
            found = fs_engine_probe(self.engine, peer, tag, context, envelope)
            if found == FS_NEVER:
                self.check_source(peer, tag, context, False)
        return found == FS_HERE

    def iprobe(self, int peer, int tag, uint32_t context):
        """The envelope of the message that a receive would take now, or None."""
        cdef fs_envelope envelope
        return new_envelope(&envelope, False) if self.c_probe(peer, tag, context, &envelope) else None

    cdef Matched c_match(self, int peer, int tag, uint32_t context):
        cdef fs_envelope envelope
        cdef fs_message *message
        cdef Matched matched
        cdef int found
        self.alive()
        found = fs_engine_match(self.engine, peer, tag, context, &envelope, &message)
        if found != FS_HERE and self.c_progress() or found == FS_NEVER:
            found = fs_engine_match(self.engine, peer, tag, context, &envelope, &message)
            if found == FS_NEVER:
                self.check_source(peer, tag, context, False)
        if found != FS_HERE:
            return None
        matched = Matched.__new__(Matched)
        matched.message = message
        matched.engine = self
        matched.probed = envelope
        return matched

    def improbe(self, int peer, int tag, uint32_t context):
        """As iprobe(), and takes the message: a Matched, or None."""
        return self.c_match(peer, tag, context)

    cdef int check_source(self, int peer, int tag, uint32_t context, bint waits) except -1:
        """A probe for what can never come must not wait for ever. That a rank has finished ends only a probe that waits."""
        cdef fs_request request
        prepare_memory(&request, FS_RECEIVING, NULL, 0)
        if fs_engine_probe_failed(self.engine, &request, peer, tag, context) and (waits or request.error != FS_PEER_LEFT):
            raise self.failure(&request)
        return 0

    cdef int await_message(self, uint32_t arrivals) except -1:
        cdef fs_wait wait
        if fs_engine_only_local(self.engine) or not fs_engine_look_out(self.engine, arrivals):
            fs_wait_prepare(&wait, self.engine, NULL, 0, 0, UINT64_MAX)
            wait.any_message = 1
            wait.events = arrivals
            self.wait_until(&wait)
        else:
            self.drain()
        PyErr_CheckSignals()  # messages that nobody asked for may come for ever
        return 0

    cdef int c_await(self, int peer, int tag, uint32_t context, fs_envelope *envelope) except -1:
        cdef uint32_t arrivals = fs_engine_arrivals(self.engine)
        while not self.c_probe(peer, tag, context, envelope):
            self.check_source(peer, tag, context, True)
            self.await_message(arrivals)
            arrivals = fs_engine_arrivals(self.engine)
        return 0

    def probe(self, int peer, int tag, uint32_t context):
        """The envelope of the message that a receive would take, once there is one."""
        cdef fs_envelope envelope
        self.c_await(peer, tag, context, &envelope)
        return new_envelope(&envelope, False)

    cdef Matched c_await_match(self, int peer, int tag, uint32_t context):
        cdef uint32_t arrivals
        cdef Matched matched
        while True:
            arrivals = fs_engine_arrivals(self.engine)
            matched = self.c_match(peer, tag, context)
            if matched is not None:
                return matched
            self.check_source(peer, tag, context, True)
            self.await_message(arrivals)

    def mprobe(self, int peer, int tag, uint32_t context):
        """As probe(), and takes the message: a Matched."""
        return self.c_await_match(peer, tag, context)
