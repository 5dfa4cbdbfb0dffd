# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
# cython: binding=False, embedsignature=True, embedsignature.format=clinic
"""Operations of the message engine under way: requests are Python objects, the messages' bytes are not."""
cimport cython
from cpython.buffer cimport PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_CheckSignals, PyErr_WriteUnraisable
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.errno cimport ETIMEDOUT
from libc.stdint cimport UINT64_MAX
from libc.stdlib cimport free

from ._core cimport FREE_THREADED, LONG_COPY, deadline_after, note_lock_wait
from .engine cimport (
    FS_ANY, FS_CANCELLED, FS_CLOSED, FS_DONE, FS_FINE, FS_FINISHED_SOME, FS_NO_MEMORY, FS_PEER_FAILED, FS_PEER_LEFT,
    FS_PEER_MISSING, FS_PROTOCOL, FS_CONTEXT_REVOKED, FS_REMOTE_READ, FS_REMOTE_WRITE, FS_SATISFIED, FS_SENDER_FAILED, FS_SENDING, FS_STANDARD, FS_SYNCHRONOUS, FS_TRUNCATED, fs_do_wait,
    fs_engine_abandon, fs_engine_again, fs_engine_ask_again, fs_engine_cancel, fs_engine_end_user_request, fs_engine_finished,
    fs_engine_give_way, fs_engine_has_finished, fs_engine_is_in_the_way, fs_engine_is_usable, fs_engine_look,
    fs_engine_only_local, fs_engine_progress, fs_engine_reason, fs_engine_receive, fs_engine_set_callback, fs_request_is_done,
    fs_request_prepare, fs_request_prepare_items, fs_wait_prepare,
)
from .looking cimport fs_lock_wait, fs_lock_wait_begins

cdef extern from "Python.h":
    Py_ssize_t references_to "Py_REFCNT" (PyObject *object)
    int PyBuffer_FillInfo(Py_buffer *view, object exporter, void *data, Py_ssize_t length, int readonly, int flags) except -1

ANY = FS_ANY
STANDARD = FS_STANDARD
SYNCHRONOUS = FS_SYNCHRONOUS
TRUNCATED = FS_TRUNCATED
PEER_FAILED = FS_PEER_FAILED
PROTOCOL = FS_PROTOCOL
CANCELLED = FS_CANCELLED
CLOSED = FS_CLOSED
NO_MEMORY = FS_NO_MEMORY
REVOKED = FS_CONTEXT_REVOKED


class MessageError(OSError):
    """A message operation failed: `code` says how (TRUNCATED, PEER_FAILED, PROTOCOL, CANCELLED, CLOSED, NO_MEMORY,
    REVOKED), `peer` with whom. `may_go_on`: the request can be received once more."""

    may_go_on = False

    def __init__(self, code, peer, text):
        super().__init__(text)
        self.code = code
        self.peer = peer

    def __reduce__(self):
        return type(self), (self.code, self.peer, str(self))


@cython.final
@cython.freelist(64)
cdef class Envelope:
    """Of a message: source, tag and length in bytes, and whether its request was cancelled instead."""

    def __repr__(self):
        return f"Envelope(source={self.source}, tag={self.tag}, length={self.length}, cancelled={self.cancelled})"


cdef Envelope new_envelope(const fs_envelope *envelope, bint cancelled):
    cdef Envelope result = Envelope.__new__(Envelope)
    result.source = envelope.source
    result.tag = envelope.tag
    result.length = envelope.length
    result.cancelled = cancelled
    return result


@cython.final
cdef class Payload:
    """The memory of a message that was received into new memory: a writable buffer."""
    cdef void *memory
    cdef Py_ssize_t length

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.memory, self.length, 0, flags)

    def __len__(self):
        return self.length

    def __dealloc__(self):
        free(self.memory)


cdef object new_payload(fs_request *request):
    cdef Payload result = Payload.__new__(Payload)
    result.memory = request.payload
    result.length = request.envelope.length
    request.payload = NULL
    return result


cdef void prepare_memory(fs_request *request, int kind, void *data, size_t length) noexcept:
    request.one.iov_base, request.one.iov_len = data, length
    fs_request_prepare(request, kind, NULL, 1)


cdef void prepare_items(fs_request *request, int kind, void *origin, const fs_layout *layout, int64_t extent,
                        size_t length) noexcept:
    fs_request_prepare_items(request, kind, origin, layout, extent, length)


cdef class Progress:
    """What brings the requests of one rank's engine on, and waits for them. `Engine` is made upon it."""

    cdef int alive(self) except -1:
        if not fs_engine_is_usable(self.engine):
            raise MessageError(FS_CLOSED, -1, f"message engine of rank {self.rank}: closed, or inherited over a fork")
        return 0

    cdef int call_missing(self, int peer) except -1:
        try:
            if self.on_missing is not None:
                self.on_missing(peer)
        except:
            fs_engine_ask_again(self.engine, peer)
            raise
        return 0

    cdef object failure(self, const fs_request *request):
        cdef char reason[REASON]
        cdef const char *path = NULL
        cdef bint sending = request.kind == FS_SENDING
        cdef int code = FS_PEER_FAILED if request.error in (FS_PEER_LEFT, FS_SENDER_FAILED) else request.error
        cdef int peer = request.peer if sending or request.peer != FS_ANY else request.envelope.source
        cdef bint known = fs_engine_reason(self.engine, peer, reason, REASON, &path)
        if code == FS_CONTEXT_REVOKED:
            return MessageError(code, -1, "a member has called Revoke")
        if request.kind == FS_REMOTE_WRITE or request.kind == FS_REMOTE_READ:
            what = f"{'writing' if request.kind == FS_REMOTE_WRITE else 'reading'} memory of rank {peer}"
        else:
            what = (f"{'sending to' if sending else 'receiving from'} rank {peer}"
                    f" (tag {request.tag}, context {request.context})")
        if request.peer == FS_ANY and code == FS_PEER_FAILED:
            what = f"receiving from any rank (tag {request.tag}, context {request.context}): rank {peer}"
        if path != NULL and path[0] != 0:
            what += f" over {path.decode()}"
        why = reason.decode("utf-8", "replace") if known and reason[0] != 0 else ""
        if code == FS_TRUNCATED:
            text = (f"the message from rank {request.envelope.source} (tag {request.envelope.tag}) has"
                    f" {request.envelope.length} bytes, the buffer {request.length}; give a larger one")
            peer = request.envelope.source
        elif code == FS_PEER_FAILED:
            text = why or ("there is no such rank" if not 0 <= peer < self.peers else "the peer is gone")
        elif code == FS_PROTOCOL:
            text = f"the peer broke the protocol: {why}; check that both run the same version of fastsock"
        elif code == FS_CANCELLED:
            text = "the sender withdrew the message"
        elif code == FS_CLOSED:
            text = "the engine is closed, or was inherited over a fork"
        else:
            text = "no memory for the message"
        return MessageError(code, peer, f"{what}: {text}")

    cdef int begun(self, Request request, int result) except -1:
        """After starting it with a reference for the engine: gives that back where nothing will be heard of it."""
        if result == FS_DONE:
            request.request.owner = NULL
            Py_DECREF(request)
            request.settle()
        return 0

    cdef int finish_blocking(self, fs_request *request, int result) except -1:
        cdef fs_wait wait
        try:
            if result & FS_PEER_MISSING:
                self.call_missing(request.peer)
            if (request.length >= <size_t>LONG_COPY or fs_engine_only_local(self.engine)
                    or not fs_engine_look(self.engine, request)):
                fs_wait_prepare(&wait, self.engine, &request, 1, 1, UINT64_MAX)
                self.wait_until(&wait)
        except:
            with nogil:
                fs_engine_abandon(self.engine, request)
            raise
        return 0

    cdef int drain(self) except -1:
        """What completed since: lets go of its buffers and runs callbacks."""
        cdef fs_request *finished
        cdef Request request
        while fs_engine_has_finished(self.engine):
            finished = fs_engine_finished(self.engine)
            if finished == NULL:
                break
            request = <Request>finished.owner
            finished.owner = NULL
            Py_DECREF(request)
            request.settle()
            callback = request.take_callback()
            if callback is not None:
                try:
                    callback(request)
                except:
                    PyErr_WriteUnraisable(callback)
        return 0

    cdef int wait_until(self, fs_wait *wait) except -1:
        """1 when it is so, 0 when the deadline passed."""
        cdef int result
        cdef fs_lock_wait lock
        while True:
            with nogil:
                result = fs_do_wait(wait)
                fs_lock_wait_begins(&lock)
            note_lock_wait(&lock)
            if result == FS_SATISFIED:
                self.drain()
                return 1
            if result != FS_FINISHED_SOME:
                PyErr_CheckSignals()
            self.drain()
            if wait.any_finished and self.newest != NULL:
                return 1  # what it waits for was just drained
            if result == -ETIMEDOUT:
                return 0

    cdef int c_wait_any(self, fs_request **requests, Py_ssize_t count) except -1:
        cdef fs_wait wait
        fs_wait_prepare(&wait, self.engine, requests, count, 0, UINT64_MAX)
        return self.wait_until(&wait)

    cdef int c_wait_all(self, fs_request **requests, Py_ssize_t count) except -1:
        cdef fs_wait wait
        cdef Py_ssize_t first = 0
        cdef bint local = fs_engine_only_local(self.engine)
        while first < count and (fs_request_is_done(requests[first])
                                 or not local and requests[first].length < <size_t>LONG_COPY
                                 and fs_engine_look(self.engine, requests[first])):
            first += 1
        if first < count:
            fs_wait_prepare(&wait, self.engine, requests + first, count - first, 1, UINT64_MAX)
            self.wait_until(&wait)
        else:
            self.drain()
        return 0

    cdef bint c_progress(self) except -1:
        cdef bint some = fs_engine_progress(self.engine) != 0
        self.drain()
        return some

    def progress(self):
        """One round without waiting; whether anything was done."""
        return self.c_progress()

    cdef int c_give_way(self) except -1:
        if fs_engine_is_in_the_way(self.engine):
            with nogil:
                fs_engine_give_way(self.engine)
        return 0

    def give_way(self):
        """For whoever looks again and again, after each look in vain: where the ranks that are to answer need the core,
        or the interpreter, they have it now."""
        self.c_give_way()

    @cython.critical_section
    cdef Request take_newest(self):
        """The one that completed last, off the list; None for none."""
        cdef Request request
        cdef bint dropped
        while self.newest != NULL:
            dropped = FREE_THREADED and references_to(<PyObject *>self.newest) == 1
            request = <Request>self.newest
            request.unlist()  # not collect(): a section of what is held already would let others in
            if FREE_THREADED:
                Py_DECREF(request)
            if not dropped:
                return request
        return None

    @cython.critical_section
    cdef int forget_dropped(self) except -1:
        """Takes off the list what nobody but the list holds, behind the newest."""
        cdef Request request
        cdef void *place
        while self.newest != NULL:
            place = (<Request>self.newest).older
            if place == NULL or references_to(<PyObject *>place) != 1:
                break
            request = <Request>place
            request.unlist()
            Py_DECREF(request)
        return 0


@cython.no_gc_clear  # a collection of garbage must not take its engine, in whose list it may stand, before its end does
cdef class Request:
    """One operation under way. Its buffers must stay as they are until it is `done`."""

    def __cinit__(self):
        self.request.payload = NULL

    cdef int take_buffers(self, object data, int flags, int kind) except -1:
        cdef Py_ssize_t count, i
        if data is None:
            prepare_memory(&self.request, kind, NULL, 0)
        elif isinstance(data, (list, tuple)):
            count = len(data)
            self.views = <Py_buffer *>PyMem_Malloc(max(count, 1) * sizeof(Py_buffer))
            self.vector = <iovec *>PyMem_Malloc(max(count, 1) * sizeof(iovec))
            if self.views == NULL or self.vector == NULL:
                raise MemoryError()
            for i in range(count):
                PyObject_GetBuffer(data[i], &self.views[i], flags)
                self.view_count = i + 1
                self.vector[i].iov_base = self.views[i].buf
                self.vector[i].iov_len = self.views[i].len
            fs_request_prepare(&self.request, kind, self.vector, count)
        else:
            PyObject_GetBuffer(data, &self.view, flags)
            self.view_count = 1
            prepare_memory(&self.request, kind, self.view.buf, self.view.len)
        self.request.owner = <void *>self
        return 0

    cdef void take_memory(self, Progress engine, void *data, size_t length, const Py_buffer *view, int kind) noexcept:
        self.engine, self.unpeeked = engine, True
        if view != NULL:
            self.view = view[0]
            self.view_count = 1
        prepare_memory(&self.request, kind, data, length)
        self.request.owner = <void *>self

    cdef void leave_gaps(self, const fs_layout *layout, int64_t extent) noexcept:
        cdef fs_request *request = &self.request
        fs_request_prepare_items(request, request.kind, request.one.iov_base, layout, extent, request.length)
        request.owner = <void *>self

    cdef int drop_buffers(self) except -1:
        cdef int i
        if self.views != NULL:
            for i in range(self.view_count):
                PyBuffer_Release(&self.views[i])
            PyMem_Free(self.views)
            self.views = NULL
        elif self.view_count:
            PyBuffer_Release(&self.view)
        self.view_count = 0
        PyMem_Free(self.vector)
        self.vector = NULL
        if self.follows is not None:
            self.follows.give_back()
            self.follows = None
        return 0

    cdef int settle(self) except -1:
        """It is done: lets go of the buffers, and stands among those for peek() until it is collected."""
        cdef Progress engine = self.engine
        with cython.critical_section(engine):
            if self.settled:
                return 0
            if self.request.error == FS_SENDER_FAILED:  # it may go on: it keeps its buffers
                if not self.unpeeked and not self.listed:
                    self.list_it(engine)
                return 0
            self.settled = True
            if self.request.payload != NULL:
                self.payload_ = new_payload(&self.request)
            if not self.unpeeked:
                self.list_it(engine)
            self.drop_buffers()
        if FREE_THREADED:
            engine.forget_dropped()
        return 0

    cdef void list_it(self, Progress engine) noexcept:
        """With its engine held."""
        self.older = engine.newest
        if self.older != NULL:
            (<Request>self.older).newer = <void *>self
        self.newer = NULL
        engine.newest = <void *>self
        self.listed = True
        if FREE_THREADED:  # else its last holder could be dropping it while another thread takes it off the list
            Py_INCREF(self)

    cdef int collect(self) except -1:
        cdef Progress engine = self.engine
        cdef bint was = False
        if engine is not None:
            with cython.critical_section(engine):
                was = self.unlist()
        if was and FREE_THREADED:
            Py_DECREF(self)
        return 0

    cdef bint unlist(self) noexcept:
        """With its engine held; whether it was listed, and what the list held of it is the caller's now."""
        if not self.listed:
            return False
        self.listed = False
        if self.older != NULL:
            (<Request>self.older).newer = self.newer
        if self.newer != NULL:
            (<Request>self.newer).older = self.older
        else:
            self.engine.newest = self.older
        return True

    cdef object take_callback(self):
        cdef Progress engine = self.engine
        with cython.critical_section(engine):
            callback = self.callback_
            self.callback_ = None
        return callback

    def __del__(self):
        # Before anything of it goes: what goes may run Python, and nobody may find it on the list then.
        self.collect()

    def __dealloc__(self):
        self.collect()  # it may have come on the list since a collection of garbage found it for the first time
        self.drop_buffers()
        free(self.request.payload)

    @cython.critical_section
    cdef int own(self, owner) except -1:
        self.owner_ = owner
        return 0

    @property
    def owner(self):
        """Free for the caller, to find it again on what peek() gives."""
        with cython.critical_section(self):
            return self.owner_

    @owner.setter
    def owner(self, owner):
        self.own(owner)

    @property
    def done(self):
        """Whether it is complete; makes no progress."""
        return fs_request_is_done(&self.request) != 0

    @property
    def envelope(self):
        """Of a receive that is done: what came; of a send: whether it was cancelled. None before."""
        if not fs_request_is_done(&self.request):
            return None
        return new_envelope(&self.request.envelope, self.request.cancelled)

    @property
    def error(self):
        """The MessageError with which it ended, or None."""
        if not fs_request_is_done(&self.request) or self.request.error == FS_FINE:
            return None
        error = self.engine.failure(&self.request)
        if self.request.error == FS_SENDER_FAILED:
            error.may_go_on = True
        return error

    @property
    def stranded(self):
        """Whether it is a receive that ended because its sender has finished. It still can be cancelled."""
        return fs_request_is_done(&self.request) != 0 and self.request.error == FS_PEER_LEFT

    cdef int c_again(self) except -1:
        cdef Progress engine = self.engine
        cdef int result
        with cython.critical_section(engine):
            if not awaits_others(self) or self.request.owner != NULL:
                return 0
            fs_engine_again(&self.request)
            self.request.owner = <void *>self
            Py_INCREF(self)
            result = fs_engine_receive(
                engine.engine, &self.request, self.request.peer, self.request.tag, self.request.context
            )
        engine.begun(self, result)
        return 0

    def again(self):
        """A receive from anybody that ended since somebody failed goes on, where that failure is acknowledged now.

        Whether it still ends so. Any other request stays as it is.
        """
        if awaits_others(self):
            self.c_again()
        return awaits_others(self)

    @property
    def payload(self):
        """Of irecv_new(), once done: the message, as a writable buffer."""
        if fs_request_is_done(&self.request):
            self.settle()
        cdef Progress engine = self.engine
        with cython.critical_section(engine):
            return self.payload_

    @property
    def callback(self):
        """Called with the request when it completes, by whichever thread makes progress; at once where it is done."""
        cdef Progress engine = self.engine
        with cython.critical_section(engine):
            return self.callback_

    @callback.setter
    def callback(self, function):
        cdef Progress engine = self.engine
        with cython.critical_section(engine):
            self.callback_ = function
        if function is not None and not fs_engine_set_callback(engine.engine, &self.request):
            self.settle()
            if self.take_callback() is not None:  # else whoever drains calls it: it completed between the two
                function(self)

    def test(self):
        """Makes progress; whether it is done."""
        if not fs_request_is_done(&self.request):
            fs_engine_progress(self.engine.engine)
        self.engine.drain()
        if not fs_request_is_done(&self.request):
            return False
        self.settle()
        self.collect()
        return True

    def wait(self, timeout=None):
        """Until it is done: True, or False when that took longer than `timeout` seconds. Raises its error."""
        cdef fs_request *one = &self.request
        cdef fs_wait wait
        if not fs_request_is_done(one):
            if fs_engine_only_local(self.engine.engine) or not fs_engine_look(self.engine.engine, one):
                fs_wait_prepare(&wait, self.engine.engine, &one, 1, 1, deadline_after(-1 if timeout is None else timeout))
                if not self.engine.wait_until(&wait):
                    return False
        self.engine.drain()
        self.settle()
        self.collect()
        if one.error != FS_FINE:
            raise self.error
        return True

    def wait_or_cancel(self):
        """As wait(), for a call that blocks: one that is interrupted leaves no request behind."""
        try:
            self.wait()
        except BaseException as error:
            self.cancel()
            if isinstance(error, MessageError):
                error.may_go_on = False
            raise

    def cancel(self):
        """Whether it is cancelled, or the other end was asked to: then `envelope.cancelled` tells once it is done."""
        cdef bint cancelled = fs_engine_cancel(self.engine.engine, &self.request)
        self.engine.drain()
        return cancelled


@cython.final
cdef class UserRequest(Request):
    """A request that completes when its maker says so: of an operation that is more than one message."""

    @cython.critical_section
    def complete(self, error=None):
        """It is done, or ended with that exception. Raises ValueError where it was complete already."""
        if self.request.owner != NULL or fs_request_is_done(&self.request):
            raise ValueError("a user request completes once")
        self.reason = error
        Py_INCREF(self)
        self.request.owner = <void *>self
        fs_engine_end_user_request(self.engine.engine, &self.request, FS_FINE if error is None else FS_PROTOCOL)
        self.engine.drain()

    @property
    def error(self):
        """The exception with which it ended, or None."""
        return self.reason if fs_request_is_done(&self.request) else None
