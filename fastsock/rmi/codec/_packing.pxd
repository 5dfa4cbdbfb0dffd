# What other compiled modules may know of _packing.pyx.
cimport cython
from fastsock.rmi.codec._packing_objects cimport ObjectPacker
from fastsock.rmi.codec._packing_values cimport Writer


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
    cpdef abandon(self)
