"""What lies in memory: datatypes, the buffers that calls name, and operations on their elements.

datatype, predefined    the handles, and the types of MPI's own
buffers                 message arguments by mpi4py's rules
_memory                 natively: type maps as the core copies them, how they are made, and the usual message arguments
typemap, array_types    what a type is made of, for whoever asks; flattening: its list of runs
packing, elements       Pack and Unpack, and counting what arrived
op                      operations; kernels and native_kernels: how they work on elements
allocation, foreign     memory to be had, and that of other libraries

Above the ground (constants, handle, exceptions, ...), below messages. Tests: tests/mpj/test_specs.py,
test_type_maps.py, test_reductions.py.
"""
