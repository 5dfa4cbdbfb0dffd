# Foreign memory: what DLPack tells of it, and whether the processor can read it.
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "<sys/uio.h>" nogil:
    struct iovec:
        void *iov_base
        size_t iov_len
    Py_ssize_t process_vm_readv(int, const iovec *, unsigned long, const iovec *, unsigned long, unsigned long)

cdef extern from "<unistd.h>" nogil:
    int getpid()

# Of dlpack.h.
ctypedef struct Device:
    int32_t kind
    int32_t number

ctypedef struct Number:
    uint8_t code
    uint8_t bits
    uint16_t lanes

ctypedef struct Tensor:
    void *data
    Device device
    int32_t ndim
    Number dtype
    int64_t *shape
    int64_t *strides
    uint64_t byte_offset

ctypedef struct Versioned:
    uint32_t major
    uint32_t minor
    void *manager
    void *deleter
    uint64_t flags
    Tensor tensor

cdef uint64_t TENSOR_READ_ONLY = 1


def tensor(capsule, bint versioned):
    """Returns what a capsule of DLPack tells, or None where it is none that may be used.

    (address, shape, strides or None, (code, bits, lanes), whether it is read-only, major version or None)
    """
    cdef const char *name = b"dltensor_versioned" if versioned else b"dltensor"
    cdef Versioned *whole
    cdef Tensor *found
    cdef bint readonly = False
    major = None
    if not PyCapsule_IsValid(capsule, name):
        return None
    if versioned:
        whole = <Versioned *>PyCapsule_GetPointer(capsule, name)
        major = whole.major
        if major < 1:
            return 0, (), None, (0, 8, 1), False, major
        readonly = (whole.flags & TENSOR_READ_ONLY) != 0
        found = &whole.tensor
    else:
        found = <Tensor *>PyCapsule_GetPointer(capsule, name)
    if found.ndim < 0:
        raise BufferError("dlpack: number of dimensions is negative")
    if found.ndim > 0 and found.shape == NULL:
        raise BufferError("dlpack: shape is NULL")
    shape = tuple([found.shape[i] for i in range(found.ndim)])
    strides = None if found.strides == NULL else tuple([found.strides[i] for i in range(found.ndim)])
    kind = found.dtype.code, found.dtype.bits, found.dtype.lanes
    return <uintptr_t>found.data + found.byte_offset, shape, strides, kind, readonly, major


def is_readable(uintptr_t address, Py_ssize_t nbytes):
    """Returns whether the processor can read the first and the last byte of this memory."""
    cdef char byte = 0
    cdef iovec here, there
    here.iov_base = &byte
    here.iov_len = there.iov_len = 1
    if nbytes <= 0:
        return True
    for place in (address, address + nbytes - 1):
        there.iov_base = <void *><uintptr_t>place
        if process_vm_readv(getpid(), &here, 1, &there, 1, 0) != 1:
            return False
    return True
