"""What lies in memory: datatypes, the buffers that calls name, and operations on their elements.

datatype, typemap       the handles, and the records of what they refer to; flattening: a type map as runs of bytes
predefined, array_types the types of MPI's own, and those of parts of arrays
buffers                 message arguments by mpi4py's rules; _memory: the usual ones natively, for all native calls
packing, elements       Pack and Unpack, and counting what arrived
op                      operations; kernels and native_kernels: how they work on elements
allocation, foreign     memory to be had, and that of other libraries

Above the ground (constants, handle, exceptions, ...), below messages. Tests: tests/mpj/test_specs.py,
test_type_maps.py, test_reductions.py.
"""
