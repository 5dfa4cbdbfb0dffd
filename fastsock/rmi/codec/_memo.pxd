# The memo: a value, by its identity, to its number. It holds the value, so that its identity is not given away. A table
# with open addressing, at most half full.
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport uint64_t, uintptr_t

from fastsock.rmi.codec._format cimport NEW


cdef enum:
    FEW = 8

cdef struct Memo:
    PyObject **values
    Py_ssize_t *numbers
    size_t mask
    size_t used
    size_t first[FEW]  # the places that were taken first: a table with no others is cleared without a look at all

cdef inline Memo *new_memo() except NULL:
    cdef Memo *memo = <Memo *>PyMem_Calloc(1, sizeof(Memo))
    if memo == NULL:
        raise MemoryError
    return memo

cdef inline void memo_clear(Memo *memo) noexcept:
    """Lets go of all. A large table is given back."""
    cdef PyObject **values = memo.values
    cdef size_t at, room = memo.mask + 1
    if memo.used == 0:
        return
    if memo.used <= FEW:
        room = memo.used
        memo.used = 0
        for at in range(room):
            value = <object>values[memo.first[at]]
            values[memo.first[at]] = NULL
            Py_DECREF(value)
        return
    if room <= 256:
        memo.used = 0
        for at in range(room):
            if values[at] != NULL:
                value = <object>values[at]
                values[at] = NULL
                Py_DECREF(value)
        return
    PyMem_Free(memo.numbers)
    memo.values = NULL
    memo.numbers = NULL
    memo.mask = memo.used = 0
    for at in range(room):
        if values[at] != NULL:
            Py_DECREF(<object>values[at])
    PyMem_Free(values)

cdef inline void free_memo(Memo *memo) noexcept:
    if memo != NULL:
        memo_clear(memo)
        PyMem_Free(memo.values)
        PyMem_Free(memo.numbers)
        PyMem_Free(memo)

cdef inline size_t memo_slot(const Memo *memo, const PyObject *value) noexcept:
    cdef size_t at = (((<uintptr_t>value) >> 4) * <uint64_t>0x9E3779B97F4A7C15) >> 32
    while memo.values[at & memo.mask] != NULL and memo.values[at & memo.mask] != value:
        at += 1
    return at & memo.mask

cdef inline Py_ssize_t memo_get(const Memo *memo, object value) noexcept:
    cdef size_t at
    if memo.used == 0:
        return NEW
    at = memo_slot(memo, <PyObject *>value)
    return NEW if memo.values[at] == NULL else memo.numbers[at]

cdef inline int memo_grow(Memo *memo) except -1:
    cdef Memo larger
    cdef size_t at, to
    larger.mask = 4 * (memo.mask + 1) - 1 if memo.values != NULL else 63
    larger.used = memo.used  # none, or more than FEW
    larger.values = <PyObject **>PyMem_Calloc(larger.mask + 1, sizeof(PyObject *))
    larger.numbers = <Py_ssize_t *>PyMem_Calloc(larger.mask + 1, sizeof(Py_ssize_t))
    if larger.values == NULL or larger.numbers == NULL:
        PyMem_Free(larger.values)
        PyMem_Free(larger.numbers)
        raise MemoryError
    if memo.values != NULL:
        for at in range(memo.mask + 1):
            if memo.values[at] != NULL:
                to = memo_slot(&larger, memo.values[at])
                larger.values[to] = memo.values[at]
                larger.numbers[to] = memo.numbers[at]
    PyMem_Free(memo.values)
    PyMem_Free(memo.numbers)
    memo[0] = larger
    return 0

cdef inline int memo_set(Memo *memo, object value, Py_ssize_t number) except -1:
    cdef size_t at
    if memo.values == NULL or 2 * memo.used > memo.mask:
        memo_grow(memo)
    at = memo_slot(memo, <PyObject *>value)
    if memo.values[at] == NULL:
        memo.values[at] = <PyObject *>value
        Py_INCREF(value)
        if memo.used < FEW:
            memo.first[memo.used] = at
        memo.used += 1
    memo.numbers[at] = number
    return 0
