# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
# cython: binding=False, embedsignature=True, embedsignature.format=clinic
"""The path of each message: from a request to its frame, from a frame to its handler.

Frames, credits and their turns are the core's (core/active). Here bytes go out and come in, and Python's objects begin.
Each part stands on those above it:

    arguments.pxi    the arguments of a call, and of a handler
    leader_lock.pxi  who may use a shared bundle now
    token.pxi        what handlers get
    link.pxi         the bytes of a connection, in shared memory or over a descriptor
    outgoing.pxi     frames that go, at once or when there is room
    arriving.pxi     where a bulk that is coming in belongs
    connection.pxi   frames that have come, and their handlers
    progress.pxi     what a bundle does with its connections
    requests.pxi     what an endpoint sends
"""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from cpython.list cimport PyList_GET_SIZE
from cpython.number cimport PyNumber_Index
from cpython.object cimport PyObject, PyTypeObject
from cpython.tuple cimport PyTuple_GET_SIZE
from libc.errno cimport EAGAIN, EALREADY, EINTR, ENOBUFS, errno as last_error
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from ..core.binding._carrier cimport c_spin, carrier_put, carrier_ring, carrier_settle, carrier_take
from ..core.binding.stream cimport FS_TOGETHER, fs_end, fs_end_has_data
from ..core.binding.switch cimport fs_carry_is_by_ring, fs_record
from ..core.binding.system cimport (
    atomic_int, atomic_store, fs_parts, fs_parts_advance, fs_parts_of, fs_parts_send, iovec,
)

from _thread import allocate_lock
from collections import deque

from ..core.binding._carrier import carrier_of
from ..system.delivering import deliver, deliver_at_exit
from ..system.originals import originals
from .errors import BadFrame, HandlerRule, LostPeer, NoEntry, NotReady, Returned, reason_text

cdef extern from "active/active.h" nogil:
    enum: FS_AM_HEADER, FS_AM_WORDS, FS_AM_WORD, FS_AM_MEDIUM, FS_AM_HEAD, FS_AM_ROOM, FS_AM_MOST_SLOTS
    enum: FS_AM_ASKS, FS_AM_ANSWERS, FS_AM_SHORT, FS_AM_LONG
    enum: FS_AM_REQUEST, FS_AM_BULK, FS_AM_PUT, FS_AM_GET, FS_AM_REPLY, FS_AM_BULK_REPLY, FS_AM_PUT_REPLY
    enum: FS_AM_DONE, FS_AM_RETURNED
    enum: FS_AM_NO_HANDLER, FS_AM_OUTSIDE, FS_AM_TOO_LONG, FS_AM_RAISED

    struct fs_am_frame:
        int kind
        int words
        int handler
        uint32_t number
        uint64_t length
        uint64_t offset
        const unsigned char *body
        const unsigned char *payload

    struct fs_am_short:
        int64_t words[FS_AM_WORDS]

    struct fs_am:
        int side
        uint32_t limits[2]
        uint32_t credits[2]
        size_t filled
        size_t from_ "from"
        uint64_t most_bulk
        uint64_t bulk_left
        unsigned char *room
        const char *wrong

    int fs_am_open(fs_am *am, int side, uint32_t shorts, uint32_t longs, uint64_t most_bulk)
    void fs_am_close(fs_am *am)
    uint32_t fs_am_ask(fs_am *am, int kind)
    int fs_am_answer(fs_am *am, uint32_t number)
    uint32_t fs_am_index(uint32_t number)
    uint32_t fs_am_under_way(const fs_am *am)
    size_t fs_am_put(unsigned char *out, int kind, int handler, uint32_t number, const int64_t *words, int count,
                     uint64_t length, uint64_t offset)
    void fs_am_words(const fs_am_frame *frame, int64_t *words)
    int64_t fs_am_word(const unsigned char *at)
    unsigned char *fs_am_space(fs_am *am, size_t *length)
    void fs_am_received(fs_am *am, size_t length)
    int fs_am_take(fs_am *am, fs_am_frame *frame)
    int fs_am_has_bulk(int kind)
    size_t fs_am_spill(fs_am *am, void *target, size_t room)
    void fs_am_spilled(fs_am *am, uint64_t length)

cdef extern from * nogil:
    """
    #include <poll.h>
    #include <sys/socket.h>
    /* What this thread is doing for whom: a handler may not send as others may. */
    static _Thread_local int am_handling __attribute__((tls_model("initial-exec")));
    """
    int am_handling
    enum: POLLIN, POLLOUT, POLLRDHUP
    enum: MSG_DONTWAIT, MSG_NOSIGNAL
    struct pollfd:
        int fd
        short events
        short revents
    int poll(pollfd *list, unsigned long count, int timeout)
    ssize_t send(int descriptor, const void *data, size_t length, int flags)
    ssize_t recv(int descriptor, void *target, size_t length, int flags)

cdef extern from *:
    """
    /* Without an interpreter's lock another thread may put something else there meanwhile. */
    #ifdef Py_GIL_DISABLED
    #define am_item_of PyList_GetItemRef
    #else
    static inline PyObject *am_item_of(PyObject *list, Py_ssize_t at)
    {
        PyObject *item = PyList_GET_ITEM(list, at);
        Py_INCREF(item);
        return item;
    }
    #endif
    """
    object item_of "am_item_of" (list items, Py_ssize_t at)

cdef extern from "Python.h":
    size_t PY_VECTORCALL_ARGUMENTS_OFFSET
    PyObject *call "PyObject_Vectorcall" (PyObject *callable, PyObject **arguments, size_t count, PyObject *names)
    PyObject *new_int "PyLong_FromLongLong" (long long value)
    void drop "Py_DECREF" (PyObject *counted)
    PyObject **items_of "PySequence_Fast_ITEMS" (tuple items)
    enum: METH_FASTCALL, METH_KEYWORDS
    ctypedef void *PyCFunction
    struct PyMethodDef:
        const char *ml_name
        PyCFunction ml_meth
        int ml_flags
        const char *ml_doc
    object PyDescr_NewMethod(type owner, PyMethodDef *method)
    void PyType_Modified(type changed)
    unsigned long PyThread_get_thread_ident()

cdef enum:
    IN_REQUEST = 1  # values of am_handling
    IN_REPLY = 2
    TOKEN_OPEN = 0  # states of a token
    TOKEN_USED = 1
    TOKEN_REPLY = 2
    TOKEN_OVER = 3
    NOW = MSG_DONTWAIT | MSG_NOSIGNAL
    ROUND = 64  # messages that one connection may bring before the others have their turn
    MOST_POLLED = 64
    MOST_DONE = 16

MEDIUM = FS_AM_MEDIUM
MOST_WORDS = FS_AM_WORDS
MOST_CREDITS = FS_AM_MOST_SLOTS
NOT_EMPTY, CAN_SEND = 1, 2

cdef double LOOK = 2e-3       # seconds to wait in the ring of one connection, before a sleep that hears all
cdef double LAST = 1.0        # seconds that a close gives the replies that are still to go
cdef double SPIN_US = 50.0    # the rings of many connections, before a sleep
cdef double PATIENCE = LOOK   # seconds for a receiver to take a part of a bulk, before this end looks what has come


include "arguments.pxi"
include "leader_lock.pxi"
include "token.pxi"
include "link.pxi"
include "outgoing.pxi"
include "arriving.pxi"
include "connection.pxi"
include "progress.pxi"
include "requests.pxi"

find_small()
