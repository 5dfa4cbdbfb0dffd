# The C types of _unpacking_special.py.
cimport cython
from fastsock.rmi._kinds cimport PATHS, PLAIN, SIZES, later, load_numpy, plain_types
from fastsock.rmi._memory cimport load_double, load_i32, make_clock, make_date, make_datetime, new_instance, set_field
from fastsock.rmi._numbers cimport *
from fastsock.rmi._unpacking_values cimport ValueUnpacker


cdef class SpecialUnpacker(ValueUnpacker):
    @cython.locals(at=Py_ssize_t)
    cdef object read_special(self, int tag)
    @cython.locals(at=Py_ssize_t)
    cdef object read_nested(self, int tag)
    cdef int next_tag(self) except -1
    cdef object read_str(self)
    @cython.locals(tag=int)
    cdef object read_recursive(self)
    cdef object read_typed_array(self)
    cdef object read_memory(self)
    @cython.locals(place=Py_ssize_t)
    cdef object read_view(self)
    @cython.locals(code=int, count=int)
    cdef object read_array(self, int tag)
    cdef object read_scalar(self)
