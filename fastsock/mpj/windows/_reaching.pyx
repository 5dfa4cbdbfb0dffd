# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""Items of a datatype in memory that the RDMA device of this rank reaches."""
from libc.stdint cimport uint32_t, uint64_t

from fastsock.core.binding._engine cimport Engine
from fastsock.core.binding.engine cimport FS_REMOTE_READ, FS_REMOTE_WRITE, fs_layout
from fastsock.mpj.datatypes._memory cimport TypeRecord


def reach(Engine engine not None, data, int peer, uint32_t context, uint64_t address, uint32_t key,
          TypeRecord type_ not None, bint writes):
    """Starts to write data over items of a peer, or to read them. Returns the engine's request; None: messages are to do it.

    The caller keeps the datatype until it is done.
    """
    cdef const fs_layout *layout = NULL if type_.dense else <const fs_layout *><const void *>&type_.layout
    return engine.c_reach(FS_REMOTE_WRITE if writes else FS_REMOTE_READ, data, peer, context, address, key, layout,
                          type_.extent)
