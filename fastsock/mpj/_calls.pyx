# cython: language_level=3, freethreading_compatible=True
# The calls that programs make most, with simple arguments, straight to the engine.
# Whatever is not simple goes the general way, which also finds the words for errors.
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
cimport cython
from cpython.exc cimport PyErr_Clear
from cpython.object cimport PyObject
from libc.stdint cimport uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, strchr

from fastsock.core._core cimport Engine
from fastsock.core._core cimport Request as EngineRequest
from fastsock.core.core cimport FS_FINE, FS_RECEIVING, FS_SENDING, fs_envelope, fs_request, fs_request_is_done

from ._memory cimport Simple, dense_bytes, simple
from ._plain cimport PLAIN_MOST, is_plain, plain_message, plain_object

from pickle import dumps as _dumps

from os import sched_yield as _sched_yield

from fastsock.core._core import STANDARD, SYNCHRONOUS, MessageError

from .datatype import Datatype
from .handle import numbered
from .objects import Objects
from .pickling import BESIDE, CODEC, assembled
from .operations import Kept
from .pickling import pickle as _pickle
from .request import Request

cdef extern from "Python.h":
    int get_buffer "PyObject_GetBuffer" (object exporter, Py_buffer *view, int flags) noexcept
    int PyObject_CheckBuffer(object)
    ctypedef struct PyTypeObject
    object PyType_GenericAlloc(PyTypeObject *kind, Py_ssize_t items)
    void PyBuffer_Release(Py_buffer *view)
    int PyBUF_ND, PyBUF_FORMAT, PyBUF_WRITABLE, PyBUF_SIMPLE

cdef enum:
    ANY = -1

cdef int MODE = STANDARD
cdef int SYNCHRONOUS_MODE = SYNCHRONOUS
cdef Py_ssize_t BESIDE_LEAST = BESIDE
general = Objects
"""Where the general forms of all calls are found."""

# ---- memory ----

cdef struct Span:
    void *data
    Py_ssize_t length
    bint held
    Py_buffer view


cdef inline bint plain_format(const char *format) noexcept:
    """Whether items of that format are just bytes that any datatype of their kind describes."""
    if format == NULL:
        return True
    if format[0] == c'Z':
        return (format[1] == c'd' or format[1] == c'f') and format[2] == 0
    return format[0] != 0 and format[1] == 0 and strchr(b"bBhHiIlLqQfdg?", format[0]) != NULL


cdef bint listed_span(spec, Span *span, bint writable) except -1:
    """Whether it is [buffer, datatype] or [buffer, count, datatype] with a datatype that has no gaps."""
    cdef Py_ssize_t size, count, number = len(spec)
    datatype = spec[number - 1] if 2 <= number <= 3 else None
    if not isinstance(datatype, Datatype) or not PyObject_CheckBuffer(spec[0]):
        return False
    type_ = datatype.ob
    if not type_.dense or number == 3 and type(spec[1]) is not int:
        return False
    size = type_.size
    count = spec[1] if number == 3 else 0
    if size <= 0:
        return False
    if get_buffer(spec[0], &span.view, PyBUF_ND | PyBUF_WRITABLE if writable else PyBUF_ND) < 0:
        PyErr_Clear()
        return False
    span.data = span.view.buf
    span.length = span.view.len
    if number == 3:
        span.length = count * size if count <= span.view.len // size else 0  # a large product would be another number
    if span.length <= 0 or span.length % size:
        PyBuffer_Release(&span.view)
        return False
    span.held = True
    return True


cdef object span_of(object spec, Span *span, bint writable):
    """The memory that an argument names, and who owns it; None where the argument is not simple."""
    cdef Simple message
    cdef int flags
    span.held = False
    if PyObject_CheckBuffer(spec):
        flags = PyBUF_ND | PyBUF_FORMAT
        if writable:
            flags |= PyBUF_WRITABLE
        if get_buffer(spec, &span.view, flags) < 0:
            PyErr_Clear()
            return None
        if span.view.len == 0 or not plain_format(span.view.format):
            PyBuffer_Release(&span.view)
            return None
        span.held = True
        span.data = span.view.buf
        span.length = span.view.len
        return spec
    if not isinstance(spec, (list, tuple)):
        return None
    if listed_span(spec, span, writable):
        return spec
    message = simple(spec, not writable, 0)
    span.length = dense_bytes(message.datatype, message.count)
    if span.length < 0:
        return None
    span.data = <void *>message.address
    return message


cdef inline void let_go(Span *span) noexcept:
    if span.held:
        span.held = False
        PyBuffer_Release(&span.view)


# ---- communicators ----

cdef class Path:
    """What the calls here need of a communicator."""

    cdef Engine engine
    cdef object record
    cdef uint32_t context
    cdef int count
    cdef int *peers

    def __cinit__(self, record):
        cdef int place
        peers = record.peers
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


# ---- point to point ----

def Send(self, buf, int dest, int tag=0):
    """Blocking send."""
    cdef Path path = self.ob.path
    cdef Span span
    if dest < 0 or dest >= path.count or tag < 0:
        return general.Send(self, buf, dest, tag)
    owner = span_of(buf, &span, False)
    if owner is None:
        return general.Send(self, buf, dest, tag)
    try:
        path.engine.c_send(span.data, span.length, path.peers[dest], tag, path.context, MODE)
    except MessageError as error:
        raise path.record.failed(error) from error
    finally:
        let_go(&span)


def Recv(self, buf, int source=ANY, int tag=ANY, status=None):
    """Blocking receive."""
    cdef Path path = self.ob.path
    cdef Span span
    cdef fs_envelope envelope
    if source < ANY or source >= path.count or tag < ANY or status is not None and source == ANY:
        return general.Recv(self, buf, source, tag, status)
    owner = span_of(buf, &span, True)
    if owner is None:
        return general.Recv(self, buf, source, tag, status)
    try:
        path.engine.c_recv(span.data, span.length, ANY if source == ANY else path.peers[source], tag, path.context,
                           &envelope)
    except MessageError as error:
        if status is not None:
            status.error = error_class(error)
        raise path.record.failed(error) from error
    finally:
        let_go(&span)
    if status is not None:
        status._set(source, envelope.tag, envelope.length)


cdef error_class(error):
    from .failures import error_class

    return error_class(error)


def Sendrecv(self, sendbuf, int dest, int sendtag=0, recvbuf=None, int source=ANY, int recvtag=ANY, status=None):
    """Send and receive a message."""
    cdef Path path = self.ob.path
    cdef Span span
    owner = None
    if (0 <= dest < path.count and sendtag >= 0 and 0 <= source < path.count and recvtag >= ANY
            and PyObject_CheckBuffer(recvbuf)):
        owner = span_of(recvbuf, &span, True)
    if owner is None:
        return general.Sendrecv(self, sendbuf, dest, sendtag, recvbuf, source, recvtag, status)
    let_go(&span)
    owner = span_of(sendbuf, &span, False)
    if owner is None:
        return general.Sendrecv(self, sendbuf, dest, sendtag, recvbuf, source, recvtag, status)
    try:
        try:
            request = path.engine.irecv(recvbuf, path.peers[source], recvtag, path.context)
        except (BufferError, ValueError, TypeError):  # not in one piece as it lies
            let_go(&span)
            return general.Sendrecv(self, sendbuf, dest, sendtag, recvbuf, source, recvtag, status)
        try:
            path.engine.c_send(span.data, span.length, path.peers[dest], sendtag, path.context, MODE)
            request.wait()
        except:  # a receive that nobody waits for would take the next message
            request.cancel()
            raise
    except MessageError as error:
        raise path.record.failed(error) from error
    finally:
        let_go(&span)
    if status is not None:
        path.record.fill(status, request.envelope)


# ---- non-blocking ----

cdef object NULL_REQUEST = Request.null
cdef enum:
    MANY = 128  # requests waited for without an allocation


@cython.final
cdef class Started(EngineRequest):
    """A message under way: the engine's request, and what a handle refers to, as operations.Transfer is."""

    cdef object communicator
    cdef int _number

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

    def handle_class(self):
        return Request

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

    def result(self):
        return None

    def free(self):
        pass


cdef Started new_started(Path path, Span *span, owner, int kind):
    """With the memory that span_of() found; keeps it until the message is complete."""
    cdef Started started = Started.__new__(Started)
    started.communicator = path.record
    started.take_memory(path.engine, span.data, span.length, &span.view if span.held else NULL, kind)
    if not span.held:
        started.own(Kept(owner))
    return started


cdef inline handle_of(Started started):
    cdef object handle = PyType_GenericAlloc(<PyTypeObject *>Request, 0)
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
    owner = span_of(buf, &span, False)
    if owner is None:
        return None
    started = new_started(path, &span, owner, FS_SENDING)
    try:
        path.engine.c_isend(started, path.peers[dest], tag, path.context, mode)
    except MessageError as error:
        raise path.record.failed(error) from error
    return handle_of(started)


def Isend(self, buf, int dest, int tag=0):
    """Non-blocking send."""
    request = start_sending(self, buf, dest, tag, MODE)
    return general.Isend(self, buf, dest, tag) if request is None else request


def Issend(self, buf, int dest, int tag=0):
    """Non-blocking send in synchronous mode."""
    request = start_sending(self, buf, dest, tag, SYNCHRONOUS_MODE)
    return general.Issend(self, buf, dest, tag) if request is None else request


def Irsend(self, buf, int dest, int tag=0):
    """Non-blocking send in ready mode."""
    request = start_sending(self, buf, dest, tag, MODE)
    return general.Irsend(self, buf, dest, tag) if request is None else request


def Irecv(self, buf, int source=ANY, int tag=ANY):
    """Non-blocking receive."""
    cdef Path path = self.ob.path
    cdef Span span
    cdef Started started
    if source < ANY or source >= path.count or tag < ANY:
        return general.Irecv(self, buf, source, tag)
    owner = span_of(buf, &span, True)
    if owner is None:
        return general.Irecv(self, buf, source, tag)
    started = new_started(path, &span, owner, FS_RECEIVING)
    try:
        path.engine.c_irecv(started, ANY if source == ANY else path.peers[source], tag, path.context)
    except MessageError as error:
        raise path.record.failed(error) from error
    return handle_of(started)


_general_wait, _general_test, _general_waitall = Request.Wait, Request.Test, Request.Waitall


cdef inline int completed(Started started) except -1:
    started.settle()
    started.collect()
    started.own(None)
    return 0


def Wait(self, status=None):
    """Wait for a non-blocking operation to complete."""
    cdef Started started
    cdef fs_request *one
    operation = self.ob
    if type(operation) is not Started:
        return _general_wait(self, status)
    started = <Started>operation
    one = &started.request
    started.engine.c_wait_all(&one, 1)
    if status is not None or one.error != FS_FINE:
        return _general_wait(self, status)
    completed(started)
    self.ob = NULL_REQUEST
    return True


def Test(self, status=None):
    """Test for the completion of a non-blocking operation."""
    cdef Started started
    operation = self.ob
    if type(operation) is not Started:
        return _general_test(self, status)
    started = <Started>operation
    if not fs_request_is_done(&started.request):
        started.engine.progress()
        if not fs_request_is_done(&started.request):
            _sched_yield()  # who tests again and again may keep its peer from the core
            return False
    if status is not None or started.request.error != FS_FINE:
        return _general_wait(self, status)
    completed(started)
    self.ob = NULL_REQUEST
    return True


cdef bint wait_for_all(list handles, list operations) except -1:
    """Waits for all where all are messages of one engine; whether they are, and all went well."""
    cdef fs_request *here[MANY]
    cdef fs_request **requests = here
    cdef Engine engine = None
    cdef Started started
    cdef Py_ssize_t i, count = len(handles)
    for handle in handles:
        if type(handle) is not Request:
            return False
        operation = handle.ob
        if type(operation) is not Started:
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


def Waitall(cls, requests, statuses=None):
    """Wait for all previously initiated requests to complete."""
    cdef list operations = [], handles
    cdef Py_ssize_t i
    if type(requests) is not list and type(requests) is not tuple:
        return _general_waitall(requests, statuses)
    handles = list(requests)
    if not wait_for_all(handles, operations) or statuses is not None:
        return _general_waitall(requests, statuses)
    for i in range(len(handles)):
        completed(<Started>operations[i])
        handles[i].ob = NULL_REQUEST
    return True


REQUEST_CALLS = {"Wait": Wait, "Test": Test, "Waitall": classmethod(Waitall)}

# ---- objects ----



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


def send(self, obj, int dest, int tag=0):
    """Send in standard mode."""
    cdef Path path = self.ob.path
    cdef Beside beside
    cdef char[PLAIN_MOST] memory
    cdef Py_ssize_t length
    if dest < 0 or dest >= path.count or tag < 0 or self._codec is not CODEC or not _pickle._standard:
        return general.send(self, obj, dest, tag)
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
    """Receive."""
    cdef Path path = self.ob.path
    cdef Py_buffer view
    if buf is not None or source < ANY or source >= path.count or tag < ANY or self._codec is not CODEC:
        return general.recv(self, buf, source, tag, status)
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


CALLS = (Send, Recv, Sendrecv, Isend, Issend, Irsend, Irecv, send, recv)
