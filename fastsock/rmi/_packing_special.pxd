# The C types of _packing_special.py.
cimport cython
from fastsock.rmi._kinds cimport PATHS, load_numpy, plain_codes
from fastsock.rmi._memory cimport copy_in, is_utc, store_32, store_clock, store_date, store_double
from fastsock.rmi._numbers cimport *
from fastsock.rmi._packing_values cimport ValuePacker


cdef class SpecialPacker(ValuePacker):
    cdef int write_special(self, object value, object kind, int tag) except -1
    @cython.locals(before=Py_ssize_t)
    cdef int write_set(self, object values, int tag) except -1
    @cython.locals(count=Py_ssize_t)
    cdef int put_set(self, object values, int tag) except -1
    cdef int write_inner(self, object value) except -1
    cdef int write_numbered(self, object value, int tag) except -1
    cdef int write_memory(self, object value, Py_ssize_t size, bint changes) except -1
    cdef int write_view(self, object value) except -1
    @cython.locals(size=Py_ssize_t, code=int, fortran=bint, lent=bint)
    cdef int write_array(self, object value) except -1
    cdef int write_scalar(self, object value, object kind) except -1
    cdef int write_dtype(self, object value) except -1
