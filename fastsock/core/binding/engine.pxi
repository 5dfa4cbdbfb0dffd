# The binding of the message engine (message/): requests are Python objects, the messages' bytes are not.
from cpython.exc cimport PyErr_WriteUnraisable
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdlib cimport free

import weakref as _weakref

cdef extern from "Python.h":
    Py_ssize_t references_to "Py_REFCNT" (PyObject *object)
    int PyBuffer_FillInfo(Py_buffer *view, object exporter, void *data, Py_ssize_t length, int readonly, int flags) except -1

cdef extern from *:
    """
    #if PY_VERSION_HEX < 0x030D0000
    #define PyThreadState_GetUnchecked _PyThreadState_UncheckedGet
    #endif

    static void *leave_interpreter_for_engine(void)
    {
        PyThreadState *here = PyThreadState_GetUnchecked(); /* up to Python 3.11 whoever has the lock, in any thread */
        return here != NULL && here == PyGILState_GetThisThreadState() ? PyEval_SaveThread() : NULL;
    }

    static void enter_interpreter_again(void *left) { PyEval_RestoreThread((PyThreadState *)left); }
    """
    void *leave_interpreter_for_engine() noexcept nogil
    void enter_interpreter_again(void *left) noexcept nogil

fs_engines_heed_interpreter(leave_interpreter_for_engine, enter_interpreter_again)

ANY = FS_ANY
STANDARD = FS_STANDARD
SYNCHRONOUS = FS_SYNCHRONOUS
TRUNCATED = FS_TRUNCATED
PEER_FAILED = FS_PEER_FAILED
PROTOCOL = FS_PROTOCOL
CANCELLED = FS_CANCELLED
CLOSED = FS_CLOSED
NO_MEMORY = FS_NO_MEMORY

cdef enum:
    REASON = 256
    MANY = 64  # requests waited for without an allocation


_engines = _weakref.WeakSet()


class MessageError(OSError):
    """A message operation failed: `code` says how (TRUNCATED, PEER_FAILED, PROTOCOL, CANCELLED, CLOSED, NO_MEMORY), `peer`
    with whom."""

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


cdef inline Envelope new_envelope(const fs_envelope *envelope, bint cancelled):
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


cdef inline Payload new_payload(fs_request *request):
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

    cdef void take_memory(self, Engine engine, void *data, size_t length, const Py_buffer *view, int kind) noexcept:
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
        cdef Engine engine = self.engine
        with cython.critical_section(engine):
            if self.settled:
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

    cdef void list_it(self, Engine engine) noexcept:
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
        cdef Engine engine = self.engine
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
        cdef Engine engine = self.engine
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
        return self.engine.failure(&self.request)

    @property
    def stranded(self):
        """Whether it is a receive that ended because its sender has finished. It still can be cancelled."""
        return fs_request_is_done(&self.request) != 0 and self.request.error == FS_PEER_LEFT

    @property
    def payload(self):
        """Of irecv_new(), once done: the message, as a writable buffer."""
        if fs_request_is_done(&self.request):
            self.settle()
        cdef Engine engine = self.engine
        with cython.critical_section(engine):
            return self.payload_

    @property
    def callback(self):
        """Called with the request when it completes, by whichever thread makes progress; at once where it is done."""
        cdef Engine engine = self.engine
        with cython.critical_section(engine):
            return self.callback_

    @callback.setter
    def callback(self, function):
        cdef Engine engine = self.engine
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
        except:
            self.cancel()
            raise

    def cancel(self):
        """Whether it is cancelled, or the other end was asked to: then `envelope.cancelled` tells once it is done."""
        cdef bint cancelled = fs_engine_cancel(self.engine.engine, &self.request)
        self.engine.drain()
        return cancelled


@cython.final
cdef class Promise(Request):
    """A request that completes when its maker says so: of an operation that is more than one message."""
    cdef object reason

    @cython.critical_section
    def complete(self, error=None):
        """It is done, or ended with that exception. Raises ValueError where it was complete already."""
        if self.request.owner != NULL or fs_request_is_done(&self.request):
            raise ValueError("a promise completes once")
        self.reason = error
        Py_INCREF(self)
        self.request.owner = <void *>self
        fs_engine_fulfil(self.engine.engine, &self.request, FS_FINE if error is None else FS_PROTOCOL)
        self.engine.drain()

    @property
    def error(self):
        """The exception with which it ended, or None."""
        return self.reason if fs_request_is_done(&self.request) else None


@cython.final
@cython.no_gc_clear  # its end needs its engine
cdef class Matched:
    """A message that a matched probe took: no other receive finds it."""

    @property
    def envelope(self):
        return new_envelope(&self.told, False)

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


cdef class Engine:
    """The message engine of one rank among `size`; every method may be called by several threads at once.

    eager_limit: bytes up to which a message travels with its envelope; credit: bytes of such messages that each peer may
    have unconsumed here; spin_us: longest busy wait; crowded: there are more ranks than cores on this host.
    """

    def __cinit__(self, int rank, int size, *, size_t eager_limit=131072, size_t credit=4 << 20, double spin_us=200.0,
                  bint crowded=False):
        cdef fs_engine_options options
        cdef int error = 0
        options.eager_limit = eager_limit
        options.credit = credit
        options.spin_us = spin_us
        options.crowded = crowded
        self.engine = fs_engine_new(rank, size, &options, &error)
        if self.engine == NULL:
            raise OSError(-error, f"message engine of rank {rank} among {size}: {_os.strerror(-error)}")
        self.rank = rank
        self.size = size
        self.attached = {}
        _engines.add(self)

    def __dealloc__(self):
        if self.engine != NULL:
            fs_engine_close(self.engine)
            fs_engine_release(self.engine)

    cdef int alive(self) except -1:
        if not fs_engine_is_usable(self.engine):
            raise MessageError(FS_CLOSED, -1, f"message engine of rank {self.rank}: closed, or inherited over a fork")
        return 0

    # ---- peers ----

    cdef int check_attached(self, int peer, int error) except -1:
        if error == 0:
            return 0
        if error == -17:
            raise OSError(17, f"rank {peer} is attached to rank {self.rank} already")
        raise OSError(-error, f"attaching rank {peer} to rank {self.rank}: {_os.strerror(-error)}")

    def attach_channel(self, int peer, Channel channel not None):
        """Messages with `peer` go through this shared-memory channel. It belongs to the engine from now on."""
        cdef int error, descriptor
        self.alive()
        with cython.critical_section(channel):
            channel.alive()
            if channel.users or channel.shared.open_channels != 1:
                raise ValueError("a channel that others use cannot be attached")
            descriptor, channel.descriptor = channel.descriptor, -1  # before a wait for the engine lets others in
        error = fs_engine_attach_end(self.engine, peer, channel.shared.end, descriptor)
        if error == 0:
            atomic_store(&channel.shared.open_channels, 0)
        else:
            channel.rebind(descriptor)
        self.check_attached(peer, error)

    def attach_descriptor(self, int peer, int fd):
        """Messages with `peer` go through this connected stream's descriptor. It belongs to the engine from now on."""
        self.alive()
        self.check_attached(peer, fs_engine_attach_descriptor(self.engine, peer, fd))

    def attach_memory(self, int peer, int fd):
        """Messages with `peer` go through the memory that this TCP connection has gained (`carriers.is_in_memory`).

        The descriptor belongs to the engine from now on.
        """
        self.alive()
        self.check_attached(peer, fs_engine_attach_memory(self.engine, peer, fd))

    def open_verbs(
        self, device=None, local=None, size_t memory=(<size_t>1) << 30, bint keeps=True, bint offers=False,
        bint rings=False
    ):
        """Opens the RDMA device of that name, or the one with the IP address `local`, or the first. Raises OSError.

        memory: bytes of messages' memory that it may know at once. keeps: after the message too, where it can. offers:
        the receiver's device reads long messages, instead of the sender's writing them. rings: short ones are written into
        memory that the receiver looks at, so it never sleeps.
        """
        cdef bytes name = b"" if device is None else device.encode()
        cdef bytes address = b"" if local is None else local.encode()
        cdef const char *wanted = name
        cdef const char *here = address
        cdef fs_ibvx_options options
        cdef int error
        options.device = wanted if wanted[0] else NULL
        options.local = here if here[0] else NULL
        options.memory, options.keeps, options.rings = memory, keeps, rings
        self.alive()
        with nogil:
            error = fs_engine_open_verbs(self.engine, &options, offers)
        if error:
            raise OSError(-error, f"opening RDMA: {_os.strerror(-error)}")

    def attach_verbs(self, int peer, int fd):
        """Messages with `peer` go through a queue pair. This connected stream introduces the ends to each other, and ends
        with them. It belongs to the engine from now on."""
        cdef int error
        self.alive()
        with nogil:
            error = fs_engine_attach_verbs(self.engine, peer, fd)
        self.check_attached(peer, error)

    def pin(self, uint64_t address, size_t length, bint pins):
        """The RDMA device knows that memory until it is unpinned. The caller keeps it mapped so long. Raises OSError."""
        cdef int error
        self.alive()
        with nogil:
            error = fs_engine_pin(self.engine, <void *>address, length, pins)
        checked(error)

    def verbs_counts(self, int peer):
        """What went through the queue pair to `peer`, and the device's name; None where there is no such pair."""
        cdef fs_ibvx_counts counts
        cdef char device[64]
        if not fs_engine_verbs_counts(self.engine, peer, &counts, device, sizeof(device)):
            return None
        return {"device": device.decode(), **counts}

    def attach_local(self, int peer, Engine engine not None):
        """`peer` is a rank of this process; attach both to each other."""
        cdef int error
        cdef fs_engine *other = engine.engine
        self.alive()
        with nogil:
            error = fs_engine_attach_local(self.engine, peer, other)
        self.check_attached(peer, error)

    def fail(self, int peer, str reason not None):
        """The peer is gone: every pending and later operation with it ends with an error that says why."""
        cdef bytes text = reason.encode("utf-8", "replace")[:REASON - 1]
        fs_engine_fail(self.engine, peer, text)
        self.drain()

    def left(self, int peer):
        """The peer has finished, and was never attached. Where it was, it says so itself, behind its messages."""
        fs_engine_left(self.engine, peer)
        self.drain()

    cdef int c_set_members(self, uint32_t context, const int *ranks, size_t count) except -1:
        if fs_engine_set_members(self.engine, context, ranks, count) < 0:
            raise MemoryError()
        return 0

    cdef void c_clear_members(self, uint32_t context) noexcept:
        fs_engine_clear_members(self.engine, context)

    def set_members(self, uint32_t context, ranks):
        """Which ranks may send in that context: their failures end receives from anybody. None: all ranks again."""
        cdef int *array
        cdef Py_ssize_t count
        if ranks is None:
            self.c_clear_members(context)
            return
        given = list(ranks)
        count = len(given)
        array = <int *>PyMem_Malloc(max(count, 1) * sizeof(int))
        if array == NULL:
            raise MemoryError()
        try:
            for i, rank in enumerate(given):
                array[i] = rank
            self.c_set_members(context, array, count)
        finally:
            PyMem_Free(array)

    cdef int call_missing(self, int peer) except -1:
        try:
            if self.on_missing is not None:
                self.on_missing(peer)
        except:
            fs_engine_ask_again(self.engine, peer)
            raise
        return 0

    # ---- errors ----

    cdef object failure(self, const fs_request *request):
        cdef char reason[REASON]
        cdef const char *path = NULL
        cdef bint sending = request.kind == FS_SENDING
        cdef int code = FS_PEER_FAILED if request.error == FS_PEER_LEFT else request.error
        cdef int peer = request.peer if sending or request.peer != FS_ANY else request.envelope.source
        cdef bint known = fs_engine_reason(self.engine, peer, reason, REASON, &path)
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
            text = why or ("there is no such rank" if not 0 <= peer < self.size else "the peer is gone")
        elif code == FS_PROTOCOL:
            text = f"the peer broke the protocol: {why}; check that both run the same version of fastsock"
        elif code == FS_CANCELLED:
            text = "the sender withdrew the message"
        elif code == FS_CLOSED:
            text = "the engine is closed, or was inherited over a fork"
        else:
            text = "no memory for the message"
        return MessageError(code, peer, f"{what}: {text}")

    # ---- requests ----

    cdef int begun(self, Request request, int result) except -1:
        """After starting it with a reference for the engine: gives that back where nothing will be heard of it."""
        if result == FS_DONE:
            request.request.owner = NULL
            Py_DECREF(request)
            request.settle()
        return 0

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
        matched.told = envelope
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

    def promise(self):
        """A Promise: a request among others. It completes when its complete() is called."""
        cdef Promise promise = Promise.__new__(Promise)
        self.alive()
        promise.engine = self
        fs_engine_promise(self.engine, &promise.request)
        return promise

    # ---- schedules ----

    cdef int c_start(self, Request request, BoundSchedule bound, const int *tags) except -1:
        cdef int result
        self.alive()
        bound.schedule.ask(self)
        request.engine = self
        request.follows = bound
        fs_engine_promise(self.engine, &request.request)
        request.request.length = bound.schedule.total
        request.request.owner = <void *>request
        Py_INCREF(request)
        if bound.schedule.total < LONG_COPY:
            result = fs_collective_start(self.engine, bound.collective, &request.request, tags)
        else:
            with nogil:
                result = fs_collective_start(self.engine, bound.collective, &request.request, tags)
        self.begun(request, result)
        return 0

    def start(self, BoundSchedule bound not None, tags):
        """Follows a schedule: a request that completes with its last step. `tags`: one for each of its channels.

        It goes on whenever some call makes progress. A bound schedule is followed once at a time.
        """
        cdef int[FS_CHANNELS] given
        cdef Request request = Request.__new__(Request)
        if len(tags) != <Py_ssize_t>bound.schedule.schedule.channel_count:
            raise ValueError(f"{len(tags)} tags for {bound.schedule.schedule.channel_count} channels")
        for i, tag in enumerate(tags):
            given[i] = tag
        self.c_start(request, bound, given)
        return request

    # ---- waiting ----

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

    cdef int wait_many(self, requests, bint all, timeout, Py_ssize_t *which) except -1:
        cdef fs_request *here[MANY]
        cdef fs_request **list_ = here
        cdef fs_wait wait
        cdef Py_ssize_t i, count = len(requests)
        cdef int result
        if count > MANY:
            list_ = <fs_request **>PyMem_Malloc(count * sizeof(fs_request *))
            if list_ == NULL:
                raise MemoryError()
        try:
            for i in range(count):
                list_[i] = &(<Request?>requests[i]).request
            fs_wait_prepare(&wait, self.engine, list_, count, all, deadline_after(-1 if timeout is None else timeout))
            result = self.wait_until(&wait)
        finally:
            if list_ != here:
                PyMem_Free(list_)
        which[0] = wait.first
        return result

    def wait_any(self, requests, timeout=None):
        """The index of a request that is done, None after `timeout` seconds or for no requests. Raises no request's error."""
        cdef Py_ssize_t which = 0
        if len(requests) == 0 or not self.wait_many(requests, False, timeout, &which):
            return None
        (<Request>requests[which]).settle()
        (<Request>requests[which]).collect()
        return which

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

    def wait_all(self, requests, timeout=None):
        """Whether all are done, before `timeout` seconds have passed. Raises no request's error."""
        cdef Py_ssize_t which = 0
        if not self.wait_many(requests, True, timeout, &which):
            return False
        for request in requests:
            (<Request>request).settle()
            (<Request>request).collect()
        return True

    def complete(self, requests):
        """Returns when all are done. Raises the error of the first that has one."""
        self.wait_all(requests)
        for request in requests:
            error = request.error
            if error is not None:
                raise error

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

    def peek(self, timeout=None):
        """The request that completed last and was not collected by wait(), test() or peek() yet; None after `timeout`.

        Those that other compiled modules have made for themselves are not among them.
        """
        cdef Request request
        cdef fs_wait wait
        while True:
            request = self.take_newest()
            if request is not None:
                return request
            if fs_engine_has_finished(self.engine):
                self.drain()
                continue
            self.alive()
            fs_wait_prepare(&wait, self.engine, NULL, 0, 0, deadline_after(-1 if timeout is None else timeout))
            wait.any_finished = 1
            if not self.wait_until(&wait):
                return self.take_newest()

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

    # ---- leaving ----

    def leave(self, timeout=5.0):
        """Sends what is still to be sent, for `timeout` seconds at most, and says goodbye.

        Over TCP it waits until the other ranks' kernels have all of that: what this process's kernel still holds is
        lost when the process ends.
        """
        cdef uint64_t deadline = deadline_after(timeout)
        cdef unsigned int pause = 20  # microseconds
        cdef bint left
        while fs_engine_is_usable(self.engine):
            with nogil:
                left = fs_engine_leave(self.engine)
            self.drain()
            if left or fs_now_ns() >= deadline:
                break
            with nogil:
                usleep(pause)
            if pause < 1000:
                pause += pause >> 2
            PyErr_CheckSignals()

    def close(self, timeout=5.0):
        """Leaves, and ends whatever is pending."""
        self.leave(timeout)
        if fs_engine_is_usable(self.engine):
            with nogil:
                fs_engine_close(self.engine)
        self.drain()
        while FREE_THREADED and self.take_newest() is not None:
            pass  # the list would hold them for ever, and they this engine

    @property
    def closed(self):
        return not fs_engine_is_usable(self.engine)


def _after_fork():
    cdef Engine engine
    for engine in list(_engines):
        forget_lock(engine)
        fs_engine_after_fork(engine.engine)


_os.register_at_fork(after_in_child=_after_fork)
