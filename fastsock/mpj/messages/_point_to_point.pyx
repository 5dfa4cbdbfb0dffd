# cython: language_level=3, freethreading_compatible=True
# The calls that programs make most, with simple arguments, straight to the engine.
# All other calls go the general way. That one also finds the words for errors.
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
cimport cython
from cpython.exc cimport PyErr_Clear
from libc.stdint cimport uint32_t
from libc.stdlib cimport free, malloc

from fastsock.core.binding._core cimport Engine
from fastsock.core.binding._core cimport Request as EngineRequest
from fastsock.core.binding.engine cimport FS_FINE, FS_RECEIVING, FS_SENDING, fs_envelope, fs_request, fs_request_is_done

from fastsock.mpj.datatypes._memory cimport Span, give_room, pack_span, read_span, release_span, take_room, unpack_span
from fastsock.mpj.messages._plain cimport PLAIN_MOST, is_plain, plain_message, plain_object

from pickle import dumps as _dumps

from fastsock.core.binding._core import STANDARD, SYNCHRONOUS, MessageError

from ..constants import ERR_REQUEST
from ..handle import Handle, numbered
from .pickling import BESIDE, CODEC, assembled
from .operation_records import COMPLETE, Persistent
from .pickling import pickle as _pickle

cdef extern from "Python.h":
    int get_buffer "PyObject_GetBuffer" (object exporter, Py_buffer *view, int flags) noexcept
    int PyObject_CheckBuffer(object)
    ctypedef struct PyTypeObject
    object PyType_GenericAlloc(PyTypeObject *kind, Py_ssize_t items)
    void PyBuffer_Release(Py_buffer *view)
    int PyBUF_SIMPLE

cdef enum:
    ANY = -1

cdef int MODE = STANDARD
cdef int SYNCHRONOUS_MODE = SYNCHRONOUS
cdef Py_ssize_t BESIDE_LEAST = BESIDE

# ---- memory ----

cdef inline bint span_of(object argument, Span *span, bint writable) except -1:
    """Whether the memory that an argument names is held now; else the general way is to look at it. What is to be sent is
    without gaps then."""
    if read_span(argument, span, writable, 0, True) is None:
        return False
    if span.type != NULL and not writable:
        try:
            pack_span(span)
        except:
            release_span(span)
            raise
    return True


cdef inline void *room_of(Span *span) except NULL:
    """Where the data arrive: in the memory itself, or in new memory where items have gaps, to be put there by landed()."""
    cdef void *room = span.view.buf
    if span.type != NULL:
        try:
            room = take_room(span.view.len)
        except:
            release_span(span)
            raise
    return room if room != NULL else &nowhere


cdef char nowhere


cdef inline int landed(Span *span, void *room, size_t length) except -1:
    return 0 if span.type == NULL else unpack_span(span, room, length)


cdef inline void leave(Span *span, void *room) noexcept:
    if span.type != NULL:
        give_room(room)
    release_span(span)


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
        self.plain = record.index is None
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

    cdef int fill(self, status, int source, const fs_envelope *envelope) except -1:
        """Says in a status, where there is one, what came from `source`."""
        if status is not None:
            if source == ANY:
                source = envelope.source if self.plain else self.record.rank_of(envelope.source)
            status._set(source, envelope.tag, envelope.length)
        return 0


cdef error_class(error):
    from ..failures import error_class

    return error_class(error)


# ---- non-blocking ----

cdef enum:
    MANY = 128  # requests waited for without an allocation


cdef class Started(EngineRequest):
    """A message under way: the engine's request, and what a handle refers to, as operation_records.Transfer is."""

    persistent = False
    predefined = False
    constant = None
    constant_name = ""
    active = True

    @property
    def number(self):
        """An integer that stands for it, given on first request."""
        with cython.critical_section(self):
            if not self._number:
                self._number = numbered(self)
            return self._number

    def ready(self):
        return fs_request_is_done(&self.request) != 0

    def waits_for(self):
        return [self]

    def wait(self, timeout=None):
        """Waits until it is complete, well or not."""
        cdef fs_request *one = &self.request
        self.engine.c_wait_all(&one, 1)
        self.settle()
        self.collect()
        return True

    def look(self, status):
        if status is None:
            return
        code = 0 if self.request.error == FS_FINE else error_class(self.error)
        if self.request.cancelled:
            status._set(ANY, ANY, 0, 0, True)
        elif self.request.kind == FS_SENDING:
            status._set(ANY, ANY, 0, code)
        else:
            self.communicator.fill(status, self.envelope, code)

    def finish(self, status):
        if status is not None:
            self.look(status)
        if self.request.error != FS_FINE and not self.request.cancelled:
            raise self.communicator.failed(self.error)
        self.own(None)

    @property
    def failed(self):
        return fs_request_is_done(&self.request) != 0 and self.request.error != FS_FINE

    def result(self):
        return None

    def free(self):
        pass


@cython.final
cdef class StartedCollective(Started):
    """A collective operation under way, which the engine brings further by itself."""

    def look(self, status):
        if status is not None:
            status._set(ANY, ANY, 0, 0 if self.request.error == FS_FINE else error_class(self.error))

    def cancel(self):
        raise self.communicator.fail(ERR_REQUEST, "collective operations cannot be cancelled")


@cython.final
cdef class Landing(Started):
    """A receive into items with gaps: what arrived is put there when it is complete."""
    cdef Span span
    cdef void *room

    def __dealloc__(self):
        leave(&self.span, self.room)

    @cython.critical_section
    cdef int land(self) except -1:
        if self.span.held:
            try:
                if self.request.error == FS_FINE and not self.request.cancelled:
                    landed(&self.span, self.room, self.request.envelope.length)
            finally:
                give_room(self.room)
                self.room = NULL
                release_span(&self.span)
        return 0

    def finish(self, status):
        self.land()
        Started.finish(self, status)

    def free(self):
        self.callback = land_later


def land_later(request):
    """Puts what arrived in its place, for a program that gave its request up."""
    (<Landing>request).land()


cdef Landing new_landing(Path path, Span *span):
    cdef Landing landing = Landing.__new__(Landing)
    landing.communicator = path.record
    landing.room = room_of(span)
    landing.span = span[0]
    landing.take_memory(path.engine, landing.room, span.view.len, NULL, FS_RECEIVING)
    return landing


cdef Started new_started(Path path, Span *span, int kind):
    """With the memory that span_of() found; keeps it until the message is complete."""
    cdef Started started = Started.__new__(Started)
    started.communicator = path.record
    started.take_memory(path.engine, span.view.buf, span.view.len, <Py_buffer *>&span.view, kind)
    return started


cdef object request_class = None  # MPI.Request, which is written on what is here


cdef object handle_of(Started started):
    global request_class
    cdef object handle
    if request_class is None:
        request_class = Handle.wrapper(Started)
    handle = PyType_GenericAlloc(<PyTypeObject *>request_class, 0)
    handle._constant = False
    handle.ob = started
    return handle


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


cdef class Beside:
    """Takes the buffers of an object that travel beside its pickle."""

    cdef list buffers

    def __call__(self, given):
        cdef Py_buffer view
        try:
            raw = given.raw()
        except BufferError:  # not in one piece
            return True
        if raw.nbytes < BESIDE_LEAST:
            return True
        if self.buffers is None:
            self.buffers = []
        self.buffers.append(raw)
        return False


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


class NativePointToPoint:
    """Messages of memory and of objects."""

    __slots__ = ()

    def Send(self, buf, int dest, int tag=0):
        """Send a message; returns when its memory may be used again."""
        cdef Path path = self.ob.path
        cdef Span span
        if dest < 0 or dest >= path.count or tag < 0:
            return super().Send(buf, dest, tag)
        if not span_of(buf, &span, False):
            return super().Send(buf, dest, tag)
        try:
            path.engine.c_send(span.view.buf, span.view.len, path.peers[dest], tag, path.context, MODE)
        except MessageError as error:
            raise path.record.failed(error) from error
        finally:
            release_span(&span)

    def Recv(self, buf, int source=ANY, int tag=ANY, status=None):
        """Receive a message; returns when it is in the memory."""
        cdef Path path = self.ob.path
        cdef Span span
        cdef fs_envelope envelope
        if not path.is_origin(source, tag):
            return super().Recv(buf, source, tag, status)
        cdef void *room
        if not span_of(buf, &span, True):
            return super().Recv(buf, source, tag, status)
        room = room_of(&span)
        try:
            path.engine.c_recv(room, span.view.len, path.peer(source), tag, path.context, &envelope)
            landed(&span, room, envelope.length)
        except MessageError as error:
            if status is not None:
                status.error = error_class(error)
            raise path.record.failed(error) from error
        finally:
            leave(&span, room)
        path.fill(status, source, &envelope)

    def Sendrecv(self, sendbuf, int dest, int sendtag=0, recvbuf=None, int source=ANY, int recvtag=ANY, status=None):
        """Send one message and receive another at the same time; returns when both are done."""
        cdef Path path = self.ob.path
        cdef Span out, into
        cdef fs_envelope envelope
        cdef void *room
        if not (0 <= dest < path.count and sendtag >= 0 and 0 <= source < path.count and recvtag >= ANY
                and span_of(recvbuf, &into, True)):
            return super().Sendrecv(sendbuf, dest, sendtag, recvbuf, source, recvtag, status)
        room = room_of(&into)
        out.held = False
        try:
            if not span_of(sendbuf, &out, False):
                return super().Sendrecv(sendbuf, dest, sendtag, recvbuf, source, recvtag, status)
            path.engine.c_sendrecv(out.view.buf, out.view.len, path.peers[dest], sendtag, room, into.view.len,
                                   path.peers[source], recvtag, path.context, MODE, &envelope)
            landed(&into, room, envelope.length)
        except MessageError as error:
            raise path.record.failed(error) from error
        finally:
            release_span(&out)
            leave(&into, room)
        if status is not None:
            status._set(source, envelope.tag, envelope.length)

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
        if source < ANY or source >= path.count or tag < ANY:
            return super().Irecv(buf, source, tag)
        if not span_of(buf, &span, True):
            return super().Irecv(buf, source, tag)
        started = new_started(path, &span, FS_RECEIVING) if span.type == NULL else new_landing(path, &span)
        try:
            path.engine.c_irecv(started, ANY if source == ANY else path.peers[source], tag, path.context)
        except MessageError as error:
            raise path.record.failed(error) from error
        return handle_of(started)

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
                path.engine.send(assembled(data, beside.buffers), path.peers[dest], tag, path.context, MODE)
        except MessageError as error:
            raise path.record.failed(error) from error

    def recv(self, buf=None, int source=ANY, int tag=ANY, status=None):
        """Wait for an object and return it. `buf` is deprecated: memory for the message, or its length in bytes."""
        cdef Path path = self.ob.path
        cdef Py_buffer view
        if buf is not None or source < ANY or source >= path.count or tag < ANY or self._codec is not CODEC:
            return super().recv(buf, source, tag, status)
        try:
            payload, envelope = path.engine.recv_new(ANY if source == ANY else path.peers[source], tag, path.context)
        except MessageError as error:
            raise path.record.failed(error) from error
        if status is not None:
            path.record.fill(status, envelope)
        if get_buffer(payload, &view, PyBUF_SIMPLE) == 0:
            try:
                if is_plain(<char *>view.buf, view.len):
                    return plain_object(<char *>view.buf, view.len)
            finally:
                PyBuffer_Release(&view)
        else:
            PyErr_Clear()
        return CODEC.load(payload)


# ---- requests ----

cdef inline int completed(Started started) except -1:
    if type(started) is Landing:
        (<Landing>started).land()
    started.settle()
    started.collect()
    started.own(None)
    return 0


cdef bint wait_for_all(list handles, list operations) except -1:
    """Waits for all where all are messages of one engine; whether they are, and all went well."""
    cdef fs_request *here[MANY]
    cdef fs_request **requests = here
    cdef Engine engine = None
    cdef Started started
    cdef Py_ssize_t i, count = len(handles)
    for handle in handles:
        if type(handle) is not request_class:
            return False
        operation = handle.ob
        if not isinstance(operation, Started):
            return False
        started = <Started>operation
        if engine is None:
            engine = started.engine
        elif engine is not started.engine:
            return False
        operations.append(started)
    if count > MANY:
        requests = <fs_request **>malloc(count * sizeof(fs_request *))
        if requests == NULL:
            raise MemoryError()
    try:
        for i in range(count):
            requests[i] = &(<Started>operations[i]).request
        if count:
            engine.c_wait_all(requests, count)
        for i in range(count):
            if requests[i].error != FS_FINE:
                return False
    finally:
        if requests != here:
            free(requests)
    return True


class NativeRequest:
    """Waiting for messages that were started here."""

    __slots__ = ()

    def Wait(self, status=None):
        """Wait until the operation is complete, and take its result: its error is raised. Returns True."""
        cdef Started started
        cdef fs_request *one
        operation = self.ob
        again = type(operation) is Persistent
        current = operation.current if again else operation
        if not isinstance(current, Started):
            return super().Wait(status)
        started = <Started>current
        one = &started.request
        started.engine.c_wait_all(&one, 1)
        if status is not None or one.error != FS_FINE:
            return super().Wait(status)
        completed(started)
        if again:
            operation.current = None
        else:
            self.ob = COMPLETE
        return True

    def Test(self, status=None):
        """Return whether the operation is complete. If it is, its result is taken as `Wait` does."""
        cdef Started started
        operation = self.ob
        if not isinstance(operation, Started):
            return super().Test(status)
        started = <Started>operation
        if not fs_request_is_done(&started.request):
            started.engine.progress()
            if not fs_request_is_done(&started.request):
                started.engine.give_way()
                return False
        if status is not None or started.request.error != FS_FINE:
            return super().Test(status)
        completed(started)
        self.ob = COMPLETE
        return True

    @classmethod
    def Waitall(cls, requests, statuses=None):
        """Wait until all operations are complete. Returns True."""
        cdef list operations = [], handles
        cdef Py_ssize_t i
        if type(requests) is not list and type(requests) is not tuple:
            return super().Waitall(requests, statuses)
        handles = list(requests)
        if not wait_for_all(handles, operations) or statuses is not None:
            return super().Waitall(requests, statuses)
        for i in range(len(handles)):
            completed(<Started>operations[i])
            handles[i].ob = COMPLETE
        return True
