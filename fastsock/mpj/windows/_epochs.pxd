cdef class Epochs:
    cdef object fail
    cdef public bint fenced, used
    cdef public object started, posted, all_locked
    cdef public dict locked

    cdef bint may_access(self, int rank)
    cdef bint may_flush(self, int rank)
    cdef bint begin_lock(self, int rank) except -1

    cdef object refuse(self, text)
    cdef int check_assertion(self, int assertion, int known) except -1
    cdef int leave_fence(self, str call) except -1
    cdef int check_no_locks(self, str call) except -1
    cdef int check_no_groups(self, str call) except -1
    cdef int open_passive(self, str call) except -1
