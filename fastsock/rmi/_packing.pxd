# The C types of _packing.py.
cimport cython
from fastsock.rmi._memory cimport store_64
from fastsock.rmi._numbers cimport *
from fastsock.rmi._packing_objects cimport ObjectPacker, Outgoing
from fastsock.rmi._packing_values cimport Writer


@cython.final
cdef class Packer(ObjectPacker):
    cdef bint numbers_classes, is_open
    cdef readonly bint is_packing

    cpdef start(self, Py_ssize_t reserved=*)
    cpdef pack(self, object value)
    cpdef pack_written(self, Writer writer)
    cpdef finish(self)
    cpdef pack_frame(self, Py_ssize_t reserved, object values)
    cpdef close(self)
    @cython.locals(outgoing=Outgoing, place=Py_ssize_t)
    cpdef abandon(self)
