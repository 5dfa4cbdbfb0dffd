# What other compiled modules may use: messages under way as requests refer to them.
from fastsock.core.binding._requests cimport Request as EngineRequest
from fastsock.mpj.datatypes._memory cimport TypeRecord


cdef class Started(EngineRequest):
    cdef object communicator
    cdef TypeRecord items  # where they have gaps
    cdef int _number

    cdef int take(self) except -1


cdef class StartedCollective(Started):
    pass


cdef object handle_of(Started started)
