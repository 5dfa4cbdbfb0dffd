# The numbers of frames.py in C, and what it does to bytes.
from cpython.bytearray cimport PyByteArray_AS_STRING
from libc.stdint cimport uint16_t, uint32_t

from fastsock.rmi.codec._memory cimport load_u16, load_u32, store_16, store_32
from fastsock.rmi.codec._packing cimport Packer

cdef enum:
    CALL = 1
    ONEWAY = 2
    RESULT = 3
    ERROR = 4
    CANCEL = 5
    ITEM = 6
    GOODBYE = 11
    BATCH = 12

cdef enum:
    DEADLINE = 1
    BEHALF = 2
    KEYWORDS = 4
    FREE = 16
    CHAIN = 32
    LASTING = 64

cdef enum:
    WINDOW = 256
    WINDOW_BYTES = 4194304

cdef enum:
    HEADER_BYTES = 16
    LENGTH_BYTES = 8


cdef inline void put_header(Packer packer, Py_ssize_t length, int kind, int flags, Py_ssize_t segments,
                            unsigned int number, unsigned int object_number, unsigned int method) noexcept:
    cdef unsigned char *data = packer.data
    store_32(data, 0, length)
    data[4] = <unsigned char>kind
    data[5] = <unsigned char>flags
    store_16(data, 6, <int>segments)
    store_32(data, 8, number)
    store_16(data, 12, <int>object_number)
    store_16(data, 14, <int>method)


cdef inline uint16_t word_16(bytearray memory, Py_ssize_t at) noexcept:
    return load_u16(<unsigned char *>PyByteArray_AS_STRING(memory), at)


cdef inline uint32_t word_32(bytearray memory, Py_ssize_t at) noexcept:
    return load_u32(<unsigned char *>PyByteArray_AS_STRING(memory), at)


cdef inline unsigned char byte_at(bytearray memory, Py_ssize_t at) noexcept:
    return (<unsigned char *>PyByteArray_AS_STRING(memory))[at]
