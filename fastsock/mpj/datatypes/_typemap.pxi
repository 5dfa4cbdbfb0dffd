# What calls ask of every type map.

cdef class TypeMap:
    """The sizes of a datatype's items; typemap.py has the rest."""
