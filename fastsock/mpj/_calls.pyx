# The calls that programs make most, with simple arguments, straight to the engine.
# Whatever is not simple goes the general way, which also finds the words for errors.
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_Clear
from libc.stdint cimport uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, strchr

from fastsock.core._core cimport Engine
from fastsock.core.core cimport fs_envelope

from ._memory cimport Simple, dense_bytes, simple

from pickle import dumps as _dumps

from fastsock.core._core import STANDARD, MessageError

from .datatype import Datatype
from .objects import Objects
from .pickling import BESIDE, CODEC, assembled
from .pickling import pickle as _pickle

cdef extern from "Python.h":
    int get_buffer "PyObject_GetBuffer" (object exporter, Py_buffer *view, int flags) noexcept
    int PyObject_CheckBuffer(object)
    void PyBuffer_Release(Py_buffer *view)
    int PyBUF_ND, PyBUF_FORMAT, PyBUF_WRITABLE, PyBUF_SIMPLE
    ctypedef struct Py_buffer:
        void *buf
        Py_ssize_t len
        char *format

cdef enum:
    ANY = -1

cdef int MODE = STANDARD
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
    cdef Py_ssize_t size, number = len(spec)
    datatype = spec[number - 1] if 2 <= number <= 3 else None
    if not isinstance(datatype, Datatype) or not PyObject_CheckBuffer(spec[0]):
        return False
    type_ = datatype.ob
    if not type_.dense or number == 3 and type(spec[1]) is not int:
        return False
    size = type_.size
    if get_buffer(spec[0], &span.view, PyBUF_ND | PyBUF_WRITABLE if writable else PyBUF_ND) < 0:
        PyErr_Clear()
        return False
    span.data = span.view.buf
    span.length = span.view.len if number == 2 else <Py_ssize_t>spec[1] * size
    if size <= 0 or span.length <= 0 or span.length > span.view.len or span.length % size:
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
        path.engine.c_send(span.data, span.length, path.peers[dest], sendtag, path.context, MODE)
        request.wait()
    except MessageError as error:
        raise path.record.failed(error) from error
    finally:
        let_go(&span)
    if status is not None:
        path.record.fill(status, request.envelope)


# ---- objects ----

include "_plain.pxi"


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


CALLS = (Send, Recv, Sendrecv, send, recv)
