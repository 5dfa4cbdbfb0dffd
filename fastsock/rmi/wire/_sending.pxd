# What other compiled modules may know of _sending.pyx.
from fastsock.core.binding._carrier cimport (
    CARRIER_PATIENT, CARRIER_POLLED, CARRIER_UNPOLLED, carrier_send, carrier_send_parts,
)
from fastsock.core.binding.system cimport fs_parts, fs_parts_of, iovec
from fastsock.rmi.codec._packing cimport Packer
from fastsock.rmi.wire._locks cimport Lock
from fastsock.rmi.wire._receiving cimport PyMemoryView_GET_BUFFER, Receiver
from fastsock.rmi.wire._records cimport Call


cdef enum:
    MOST_PARTS = 64  # of one send


cdef inline Py_ssize_t send_scratch(object carrier, Packer packer, Py_ssize_t length, bint polled) except -1:
    return carrier_send(carrier, <const char *>packer.data, length, CARRIER_POLLED if polled else CARRIER_UNPOLLED)


# The caller holds the views.
cdef inline Py_ssize_t send_views(object carrier, list views, bint polled) except -1:
    cdef iovec parts[MOST_PARTS]
    cdef fs_parts gather
    cdef Py_buffer *memory
    cdef Py_ssize_t count = min(len(views), MOST_PARTS)
    cdef Py_ssize_t i
    for i in range(count):
        memory = PyMemoryView_GET_BUFFER(views[i])
        parts[i].iov_base, parts[i].iov_len = memory.buf, memory.len
    gather = fs_parts_of(parts, <int>count)
    return carrier_send_parts(carrier, &gather, CARRIER_POLLED if polled else CARRIER_PATIENT)


cdef class Sender(Receiver):
    cdef public object on_blocked
    cdef public Lock sending
    cdef public unsigned long long frames_sent, bytes_sent
    cdef Packer _packer
    cdef object _send, _send_gather
    cdef list _unsent

    cpdef Py_ssize_t send_plain(self, int kind, int flags, unsigned int number, unsigned int object_number,
                                unsigned int method, object values) except -1
    cpdef Py_ssize_t send_value(self, int kind, unsigned int number, object value) except -1
    cdef int _abandon(self) except -1
    cdef Py_ssize_t _send_frame(self, int kind, int flags, unsigned int number, unsigned int object_number,
                                unsigned int method) except -1
    cdef Py_ssize_t _send_scratch(self, Py_ssize_t length) except -1
    cdef Py_ssize_t _send_parts(self, list parts) except -1
    cdef Py_ssize_t _send_with_segments(self, Py_ssize_t length) except -1
    cdef object _push(self, object parts)
    cdef int _take_off(self, Py_ssize_t sent) except -1
    cpdef bint send_unsent(self) except -1
    cdef int _await_room(self) except -1
    cpdef object cannot_send(self, object error)
    cpdef object receive_what_came(self, unsigned long long most=*)
    cpdef object wait_on(self, Call call, double deadline)
    cpdef object settle(self, Call call, object value, bint failed)
    cpdef object fail(self, object error)
