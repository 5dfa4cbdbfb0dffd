# cython: language_level=3, freethreading_compatible=True
# The calls that programs make most, with simple arguments, straight to the engine.
# All other calls go the general way. That one also finds the words for errors.
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
cimport cython
from cpython.exc cimport PyErr_Clear
from cpython.ref cimport Py_DECREF
from libc.stdint cimport uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from fastsock.core.binding._engine cimport Engine
from fastsock.core.binding._messages cimport Matched as EngineMatched
from fastsock.core.binding._requests cimport Request as EngineRequest
from fastsock.core.binding._requests cimport aim, awaits_others, prepare_items, prepare_memory
from fastsock.core.binding.engine cimport (
    FS_CONTEXT_REVOKED, FS_FINE, FS_RECEIVING, FS_SENDING, fs_envelope, fs_layout, fs_request, fs_request_is_done,
)

from fastsock.mpj._slots cimport find_slots, new_handle, record_of, refer
from fastsock.mpj.datatypes._memory cimport Span, TypeRecord, gather, pack_span, read_span, release_span
from fastsock.mpj.messages._status cimport fill_status
from fastsock.mpj.messages._plain cimport PLAIN_MOST, is_plain, plain_message, plain_object


from fastsock.core.binding._requests import STANDARD, SYNCHRONOUS, MessageError
from fastsock.system.pickles import dumps as _dumps

from ..constants import BSEND_OVERHEAD, ERR_REQUEST, UNDEFINED
from ..exceptions import Exception as MPIException
from ..handle import Handle, numbered
from .pickling import BESIDE, CODEC
from ._embedding import embedded
from .operation_records import COMPLETE, Persistent, fill_empty
from .pickling import pickle as _pickle

cdef extern from "Python.h":
    int get_buffer "PyObject_GetBuffer" (object exporter, Py_buffer *view, int flags) noexcept
    int PyObject_CheckBuffer(object)
    void PyBuffer_Release(Py_buffer *view)
    int PyBUF_SIMPLE

cdef enum:
    ANY = -1

cdef int MODE = STANDARD
cdef int SYNCHRONOUS_MODE = SYNCHRONOUS
cdef Py_ssize_t BESIDE_LEAST = BESIDE

# ---- memory ----

cdef inline bint span_of(object argument, Span *span, bint writable) except -1:
    """Whether the memory that an argument names is held now; else the general way is to look at it."""
    return read_span(argument, span, writable, 0, True) is not None


cdef inline bint packed_span_of(object argument, Span *span) except -1:
    """The same of what is to be sent; items with gaps are copied."""
    if not span_of(argument, span, False):
        return False
    if span.type != NULL:
        try:
            pack_span(span)
        except:
            release_span(span)
            raise
    return True


cdef inline const fs_layout *layout_of(TypeRecord type_) noexcept:
    return <const fs_layout *><const void *>&type_.layout


cdef inline TypeRecord items_of(Span *span):
    """The type of items with gaps, which is the caller's now; None of others."""
    cdef TypeRecord type_ = None
    if span.type != NULL:
        type_ = <TypeRecord>span.type
        span.type = NULL
        Py_DECREF(type_)
    return type_


cdef inline void prepare(fs_request *request, Span *span, int kind) noexcept:
    """A request of that memory."""
    cdef TypeRecord type_
    if span.type == NULL:
        prepare_memory(request, kind, span.view.buf, span.view.len)
    else:
        type_ = <TypeRecord>span.type
        prepare_items(request, kind, span.view.buf, layout_of(type_), type_.extent, span.view.len)


# ---- communicators ----

cdef class Path:
    """What the calls here need of a communicator."""

    cdef Engine engine
    cdef object record
    cdef uint32_t context
    cdef int count
    cdef int *peers
    cdef bint plain  # peers are known by their ranks here

    def __cinit__(self, record):
        cdef int place
        peers = record.peers
        self.plain = record.plain
        self.count = len(peers)
        self.peers = <int *>malloc(max(self.count, 1) * sizeof(int))
        if self.peers == NULL:
            raise MemoryError()
        for place, peer in enumerate(peers):
            self.peers[place] = peer
        self.record = record
        self.engine = record.engine
        self.context = record.context

    def __dealloc__(self):
        free(self.peers)


    cdef inline bint is_origin(self, int source, int tag) noexcept:
        """Whether messages may come from there; what is said of others is for the general way to say."""
        return ANY <= source < self.count and tag >= ANY

    cdef inline int peer(self, int source) noexcept:
        return ANY if source == ANY else self.peers[source]

    cdef int exchange(self, fs_request *both, int source, int recvtag, int dest, int sendtag) except -1:
        """Receives the first and sends the second at the same time, from and to these ranks of the world."""
        aim(&both[0], source, recvtag, self.context)
        aim(&both[1], dest, sendtag, self.context)
        self.engine.c_exchange(both, 1, 2, MODE)
        return 0

    cdef int fill(self, status, int source, const fs_envelope *envelope) except -1:
        """Says in a status, where there is one, what came from `source`."""
        if status is not None:
            if source == ANY:
                source = envelope.source if self.plain else self.record.rank_of(envelope.source)
            fill_status(status, source, envelope.tag, envelope.length)
        return 0


cdef error_class(error):
    from ..failures import error_class

    return error_class(error)


cdef enum:
    MANY = 128   # requests waited for without an allocation
    SHORT = 2048  # bytes of a message that are copied without one

include "_operations.pxi"
include "_objects.pxi"


# ---- non-blocking ----

cdef start_sending(self, buf, int dest, int tag, int mode):
    """None where the arguments are not simple."""
    cdef Path path = self.ob.path
    cdef Span span
    cdef Started started
    if dest < 0 or dest >= path.count or tag < 0:
        return None
    if not span_of(buf, &span, False):
        return None
    started = new_started(path, &span, FS_SENDING)
    try:
        path.engine.c_isend(started, path.peers[dest], tag, path.context, mode)
    except MessageError as error:
        raise path.record.failed(error) from error
    return handle_of(started)


cdef repeated(self, buf, int rank, int tag, int kind, int mode):
    """None where the arguments are not simple."""
    cdef Path path = self.ob.path
    cdef Repeated found
    cdef Span span
    if not (path.is_origin(rank, tag) if kind == FS_RECEIVING else 0 <= rank < path.count and tag >= 0):
        return None
    if not span_of(buf, &span, kind == FS_RECEIVING):
        return None
    found = Repeated.__new__(Repeated)
    found.path, found.peer, found.tag, found.kind, found.mode = path, path.peer(rank), tag, kind, mode
    found.view, found.holds = <Py_buffer>span.view, True
    found.items = items_of(&span)
    if prequest_class is None:
        find_classes()
    return new_handle(prequest_class, found)


cdef bint send_copy(Path path, const void *data, Py_ssize_t length, int dest, int tag) except -1:
    """A buffered send, where nothing else needs the buffer; whether there is room for it."""
    cdef EngineRequest request
    buffered = path.record.buffered or path.record.world.buffered
    capacity = buffered.capacity
    if buffered.messages or capacity is not None and length + BSEND_OVERHEAD > capacity:
        return False
    request = EngineRequest.__new__(EngineRequest)
    request.engine = path.engine
    request.take_buffers(PyBytes_FromStringAndSize(<const char *>data, length), PyBUF_SIMPLE, FS_SENDING)
    path.engine.c_isend(request, path.peers[dest], tag, path.context, MODE)
    if request.request.error == FS_CONTEXT_REVOKED:
        raise path.engine.failure(&request.request)
    if not fs_request_is_done(&request.request):
        buffered.keep(request, length)
    return True


# ---- the calls ----

cdef bint await_message(Path path, int source, int tag, status) except -1:
    cdef fs_envelope envelope
    try:
        path.engine.c_await(path.peer(source), tag, path.context, &envelope)
    except MessageError as error:
        raise path.record.failed(error) from error
    path.fill(status, source, &envelope)
    return True


cdef bint look_for_message(Path path, int source, int tag, status) except -1:
    cdef fs_envelope envelope
    try:
        if not path.engine.c_probe(path.peer(source), tag, path.context, &envelope):
            path.engine.c_give_way()
            return False
    except MessageError as error:
        raise path.record.failed(error) from error
    path.fill(status, source, &envelope)
    return True


cdef object take_message(Path path, int source, int tag, status, bint waits):
    cdef EngineMatched matched
    cdef Matched taken
    try:
        if waits:
            matched = path.engine.c_await_match(path.peer(source), tag, path.context)
        else:
            matched = path.engine.c_match(path.peer(source), tag, path.context)
            if matched is None:
                path.engine.c_give_way()
                return None
    except MessageError as error:
        raise path.record.failed(error) from error
    if status is not None:
        path.record.fill(status, matched.envelope)
    if message_class is None:
        find_classes()
    taken = Matched.__new__(Matched)
    taken.communicator, taken.matched = path.record, matched
    return new_handle(message_class, taken)


class NativePointToPoint:
    """Messages of memory and of objects."""

    __slots__ = ()

    def Send(self, buf, int dest, int tag=0):
        """Send a message; returns when its memory may be used again."""
        cdef Path path = self.ob.path
        cdef Span span
        cdef fs_request request
        if dest < 0 or dest >= path.count or tag < 0:
            return super().Send(buf, dest, tag)
        if not span_of(buf, &span, False):
            return super().Send(buf, dest, tag)
        try:
            prepare(&request, &span, FS_SENDING)
            path.engine.c_send_it(&request, path.peers[dest], tag, path.context, MODE)
        except MessageError as error:
            raise path.record.failed(error) from error
        finally:
            release_span(&span)

    def Recv(self, buf, int source=ANY, int tag=ANY, status=None):
        """Receive a message; returns when it is in the memory."""
        cdef Path path = self.ob.path
        cdef Span span
        cdef fs_request request
        if not path.is_origin(source, tag):
            return super().Recv(buf, source, tag, status)
        if not span_of(buf, &span, True):
            return super().Recv(buf, source, tag, status)
        try:
            prepare(&request, &span, FS_RECEIVING)
            path.engine.c_recv_it(&request, path.peer(source), tag, path.context)
        except MessageError as error:
            if status is not None:
                status.error = error_class(error)
            raise path.record.failed(error) from error
        finally:
            release_span(&span)
        path.fill(status, source, &request.envelope)

    def Sendrecv(self, sendbuf, int dest, int sendtag=0, recvbuf=None, int source=ANY, int recvtag=ANY, status=None):
        """Send one message and receive another at the same time; returns when both are done."""
        cdef Path path = self.ob.path
        cdef Span out, into
        cdef fs_request[2] both
        if not (0 <= dest < path.count and sendtag >= 0 and 0 <= source < path.count and recvtag >= ANY
                and span_of(recvbuf, &into, True)):
            return super().Sendrecv(sendbuf, dest, sendtag, recvbuf, source, recvtag, status)
        out.held = False
        try:
            if not span_of(sendbuf, &out, False):
                return super().Sendrecv(sendbuf, dest, sendtag, recvbuf, source, recvtag, status)
            prepare(&both[0], &into, FS_RECEIVING)
            prepare(&both[1], &out, FS_SENDING)
            path.exchange(both, path.peers[source], recvtag, path.peers[dest], sendtag)
        except MessageError as error:
            raise path.record.failed(error) from error
        finally:
            release_span(&out)
            release_span(&into)
        if status is not None:
            fill_status(status, source, both[0].envelope.tag, both[0].envelope.length)

    def Isend(self, buf, int dest, int tag=0):
        """Start to send; the memory must stay as it is until the request is complete."""
        request = start_sending(self, buf, dest, tag, MODE)
        return super().Isend(buf, dest, tag) if request is None else request

    def Issend(self, buf, int dest, int tag=0):
        """Start to send; the request is complete when the receiver has begun to receive the message."""
        request = start_sending(self, buf, dest, tag, SYNCHRONOUS_MODE)
        return super().Issend(buf, dest, tag) if request is None else request

    def Irsend(self, buf, int dest, int tag=0):
        """Start to send in ready mode. Here it does what `Isend` does."""
        request = start_sending(self, buf, dest, tag, MODE)
        return super().Irsend(buf, dest, tag) if request is None else request

    def Irecv(self, buf, int source=ANY, int tag=ANY):
        """Start to receive; the memory holds the message when the request is complete."""
        cdef Path path = self.ob.path
        cdef Span span
        cdef Started started
        if not path.is_origin(source, tag):
            return super().Irecv(buf, source, tag)
        if not span_of(buf, &span, True):
            return super().Irecv(buf, source, tag)
        started = new_started(path, &span, FS_RECEIVING)
        try:
            path.engine.c_irecv(started, path.peer(source), tag, path.context)
        except MessageError as error:
            raise path.record.failed(error) from error
        return handle_of(started)

    def Sendrecv_replace(self, buf, int dest, int sendtag=0, int source=ANY, int recvtag=ANY, status=None):
        """Send what is in the memory, and receive another message into it."""
        cdef Path path = self.ob.path
        cdef Span span
        cdef fs_request[2] both
        cdef char[SHORT] here
        cdef char *copy = here
        if not (0 <= dest < path.count and sendtag >= 0 and path.is_origin(source, recvtag)
                and span_of(buf, &span, True)):
            return super().Sendrecv_replace(buf, dest, sendtag, source, recvtag, status)
        try:
            if span.view.len > SHORT:
                copy = <char *>malloc(span.view.len)
                if copy == NULL:
                    raise MemoryError()
            if span.type == NULL:
                memcpy(copy, span.view.buf, span.view.len)
            else:
                gather(<TypeRecord>span.type, span.view.buf, 0, copy, span.view.len)
            prepare(&both[0], &span, FS_RECEIVING)
            prepare_memory(&both[1], FS_SENDING, copy, span.view.len)
            path.exchange(both, path.peer(source), recvtag, path.peers[dest], sendtag)
        except MessageError as error:
            raise path.record.failed(error) from error
        finally:
            if copy != here:
                free(copy)
            release_span(&span)
        path.fill(status, source, &both[0].envelope)

    def Bsend(self, buf, int dest, int tag=0):
        """Send in buffered mode: returns when the message is copied."""
        cdef Path path = self.ob.path
        cdef Span span
        if dest < 0 or dest >= path.count or tag < 0 or not packed_span_of(buf, &span):
            return super().Bsend(buf, dest, tag)
        try:
            sent = send_copy(path, span.view.buf, span.view.len, dest, tag)
        except MessageError as error:
            raise path.record.failed(error) from error
        finally:
            release_span(&span)
        if not sent:
            super().Bsend(buf, dest, tag)

    def Send_init(self, buf, int dest, int tag=0):
        """Create a persistent request for a standard send."""
        request = repeated(self, buf, dest, tag, FS_SENDING, MODE)
        return super().Send_init(buf, dest, tag) if request is None else request

    def Ssend_init(self, buf, int dest, int tag=0):
        """Create a persistent request for a send in synchronous mode."""
        request = repeated(self, buf, dest, tag, FS_SENDING, SYNCHRONOUS_MODE)
        return super().Ssend_init(buf, dest, tag) if request is None else request

    def Rsend_init(self, buf, int dest, int tag=0):
        """Create a persistent request for a send in ready mode. Here it does what `Send_init` does."""
        request = repeated(self, buf, dest, tag, FS_SENDING, MODE)
        return super().Rsend_init(buf, dest, tag) if request is None else request

    def Recv_init(self, buf, int source=ANY, int tag=ANY):
        """Create a persistent request for a receive."""
        request = repeated(self, buf, source, tag, FS_RECEIVING, MODE)
        return super().Recv_init(buf, source, tag) if request is None else request

    def Probe(self, int source=ANY, int tag=ANY, status=None):
        """Wait until a matching message is there, and leave it there. Returns True."""
        cdef Path path = self.ob.path
        if not path.is_origin(source, tag):
            return super().Probe(source, tag, status)
        return await_message(path, source, tag, status)

    def Iprobe(self, int source=ANY, int tag=ANY, status=None):
        """Return whether a matching message is there, and leave it there."""
        cdef Path path = self.ob.path
        if not path.is_origin(source, tag):
            return super().Iprobe(source, tag, status)
        return look_for_message(path, source, tag, status)

    def probe(self, int source=ANY, int tag=ANY, status=None):
        """Wait until a matching message is there, and leave it there. Returns True."""
        cdef Path path = self.ob.path
        if not path.is_origin(source, tag):
            return super().probe(source, tag, status)
        return await_message(path, source, tag, status)

    def iprobe(self, int source=ANY, int tag=ANY, status=None):
        """Return whether a matching message is there, and leave it there."""
        cdef Path path = self.ob.path
        if not path.is_origin(source, tag):
            return super().iprobe(source, tag, status)
        return look_for_message(path, source, tag, status)

    def Mprobe(self, int source=ANY, int tag=ANY, status=None):
        """Wait for a matching message and return it; no other receive can get it."""
        cdef Path path = self.ob.path
        if not path.is_origin(source, tag):
            return super().Mprobe(source, tag, status)
        return take_message(path, source, tag, status, True)

    def Improbe(self, int source=ANY, int tag=ANY, status=None):
        """Return a matching message, or None where none is there. No other receive can get it."""
        cdef Path path = self.ob.path
        if not path.is_origin(source, tag):
            return super().Improbe(source, tag, status)
        return take_message(path, source, tag, status, False)

    def mprobe(self, int source=ANY, int tag=ANY, status=None):
        """Wait for a matching message and return it; no other receive can get it."""
        cdef Path path = self.ob.path
        if not path.is_origin(source, tag):
            return super().mprobe(source, tag, status)
        return take_message(path, source, tag, status, True)

    def improbe(self, int source=ANY, int tag=ANY, status=None):
        """Return a matching message, or None where none is there. No other receive can get it."""
        cdef Path path = self.ob.path
        if not path.is_origin(source, tag):
            return super().improbe(source, tag, status)
        return take_message(path, source, tag, status, False)

    def send(self, obj, int dest, int tag=0):
        """Send an object; returns when it may be changed again."""
        cdef Path path = self.ob.path
        cdef Beside beside
        cdef char[PLAIN_MOST] memory
        cdef Py_ssize_t length
        if dest < 0 or dest >= path.count or tag < 0 or self._codec is not CODEC or not _pickle._standard:
            return super().send(obj, dest, tag)
        try:
            length = plain_message(obj, memory)
            if length:
                path.engine.c_send(memory, length, path.peers[dest], tag, path.context, MODE)
                return
            beside = Beside.__new__(Beside)
            data = _dumps(obj, 5, buffer_callback=beside)
            if beside.buffers is None:
                path.engine.c_send(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), path.peers[dest], tag, path.context,
                                   MODE)
            else:
                path.engine.send(embedded(data, beside.buffers), path.peers[dest], tag, path.context, MODE)
        except MessageError as error:
            raise path.record.failed(error) from error

    def recv(self, buf=None, int source=ANY, int tag=ANY, status=None):
        """Wait for an object and return it. `buf` is deprecated: memory for the message, or its length in bytes."""
        cdef Path path = self.ob.path
        if buf is not None or not path.is_origin(source, tag) or self._codec is not CODEC:
            return super().recv(buf, source, tag, status)
        try:
            payload, envelope = path.engine.recv_new(path.peer(source), tag, path.context)
        except MessageError as error:
            raise path.record.failed(error) from error
        if status is not None:
            path.record.fill(status, envelope)
        return object_of(payload)

    def sendrecv(self, sendobj, int dest, int sendtag=0, recvbuf=None, int source=ANY, int recvtag=ANY, status=None):
        """Send an object and receive another at the same time; return the one that arrived."""
        cdef Path path = self.ob.path
        if not (0 <= dest < path.count and sendtag >= 0 and recvbuf is None and path.is_origin(source, recvtag)
                and self._codec is CODEC and _pickle._standard):
            return super().sendrecv(sendobj, dest, sendtag, recvbuf, source, recvtag, status)
        return exchange_objects(path, sendobj, dest, sendtag, source, recvtag, status)

    def isend(self, obj, int dest, int tag=0):
        """Start to send a copy of an object. The object may be changed at once."""
        request = start_object(self, obj, dest, tag, MODE)
        return super().isend(obj, dest, tag) if request is None else request

    def issend(self, obj, int dest, int tag=0):
        """Start to send a copy of an object; the request is complete when the receiver has begun to receive it."""
        request = start_object(self, obj, dest, tag, SYNCHRONOUS_MODE)
        return super().issend(obj, dest, tag) if request is None else request

    def irecv(self, buf=None, int source=ANY, int tag=ANY):
        """Start to receive an object; `Request.wait` returns it. `buf`: memory for it, or its length in bytes."""
        cdef Path path = self.ob.path
        cdef StartedObject started
        if buf is not None or not path.is_origin(source, tag) or self._codec is not CODEC:
            return super().irecv(buf, source, tag)
        started = StartedObject.__new__(StartedObject)
        started.communicator = path.record
        started.take_memory(path.engine, NULL, 0, NULL, FS_RECEIVING)
        started.request.allocates = 1
        try:
            path.engine.c_irecv(started, path.peer(source), tag, path.context)
        except MessageError as error:
            raise path.record.failed(error) from error
        return handle_of(started)


include "_requests.pxi"
