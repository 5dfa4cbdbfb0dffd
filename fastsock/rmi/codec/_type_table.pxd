# What other compiled modules may know of _type_table.pyx.

cdef dict LATER
cdef dict BUILTIN
cdef tuple UNCOUNTED
cdef dict EXCEPTIONS
cdef tuple PATHS
cdef tuple PLAIN
cdef dict plain_codes
cdef list plain_types
cdef tuple SIZES
cdef object _np

cpdef load_numpy()
cpdef later(str module, str name)
