# cython: language_level=3, freethreading_compatible=True
"""Which calls may be made on a window now: its epochs, as the standard orders them (MPI 4.1, section 12.5)."""
cimport cython

from ..constants import (
    ERR_ASSERT, ERR_LOCKTYPE, ERR_RMA_SYNC, LOCK_EXCLUSIVE, LOCK_SHARED, MODE_NOCHECK, MODE_NOPRECEDE, MODE_NOPUT,
    MODE_NOSTORE, MODE_NOSUCCEED,
)

cdef int _FENCE = MODE_NOSTORE | MODE_NOPUT | MODE_NOPRECEDE | MODE_NOSUCCEED
cdef int _POST = MODE_NOCHECK | MODE_NOSTORE | MODE_NOPUT
cdef int _NOCHECK = MODE_NOCHECK, _NOSUCCEED = MODE_NOSUCCEED


cdef class Epochs:
    """The epochs of one member. `fail` makes the exception of an error class and a text.

    `used`: whether there was an operation since the fence: until then it opens nothing. `locked`: ranks whose lock is held:
    whether the lock was taken, or the program said that nobody else wants it. `all_locked`: the same of all; None: no.
    """

    def __init__(self, fail):
        self.fail = fail
        self.locked = {}

    cdef object refuse(self, text):
        raise self.fail(ERR_RMA_SYNC, text)

    cdef int check_assertion(self, int assertion, int known) except -1:
        if assertion & ~known:
            raise self.fail(ERR_ASSERT, f"assertion {assertion} has modes that this call does not know")
        return 0

    # Operations

    cdef bint may_access(self, int rank):
        if self.all_locked is not None or self.locked and rank in self.locked:
            return True
        if self.started is not None:
            return rank in self.started
        if self.fenced:
            self.used = True
        return self.fenced

    def access(self, int rank):
        """Refuses an operation on the memory of a rank to which no epoch is open."""
        if self.may_access(rank):
            return
        if self.started is not None:
            self.refuse(f"rank {rank} is not in the group of Start")
        self.refuse(f"no epoch is open to rank {rank}: call Fence, Start, Lock or Lock_all first")

    cdef bint may_flush(self, int rank):
        return self.all_locked is not None or rank in self.locked

    def flush(self, rank=None):
        """Refuses to flush where nothing is locked. `rank`: of which the lock is needed; None: of any."""
        if self.all_locked is None and (not self.locked if rank is None else rank not in self.locked):
            self.refuse("only between Lock and Unlock, or Lock_all and Unlock_all, there is something to flush")

    # Fence

    def fence(self, int assertion):
        """Goes over a fence."""
        self.check_assertion(assertion, _FENCE)
        self.check_no_locks("Fence")
        self.check_no_groups("Fence")
        self.used = False
        self.fenced = not assertion & _NOSUCCEED

    cdef int leave_fence(self, str call) except -1:
        if self.fenced and self.used:
            self.refuse(f"the operations since the last Fence go on: call Fence before {call}")
        self.fenced = False
        return 0

    cdef int check_no_locks(self, str call) except -1:
        if self.locked:
            self.refuse(f"rank {next(iter(self.locked))} is locked: call Unlock before {call}")
        if self.all_locked is not None:
            self.refuse(f"all ranks are locked: call Unlock_all before {call}")
        return 0

    cdef int check_no_groups(self, str call) except -1:
        if self.started is not None:
            self.refuse(f"Start was called: call Complete before {call}")
        if self.posted is not None:
            self.refuse(f"Post was called: call Wait before {call}")
        return 0

    # Start, Complete, Post, Wait

    def start(self, ranks, int assertion):
        """Opens access to a group."""
        self.check_assertion(assertion, _NOCHECK)
        self.check_no_locks("Start")
        if self.started is not None:
            self.refuse("Start was called already: call Complete first")
        self.leave_fence("Start")
        self.started = frozenset(ranks)

    def complete(self):
        """Returns the group that Start opened access to."""
        if self.started is None:
            self.refuse("Complete ends what Start began: call Start first")
        return self.started

    def post(self, ranks, int assertion):
        """Opens the memory to a group."""
        self.check_assertion(assertion, _POST)
        if self.posted is not None:
            self.refuse("Post was called already: call Wait first")
        self.leave_fence("Post")
        self.posted = frozenset(ranks)

    def wait(self):
        """Returns the group that Post opened the memory to."""
        if self.posted is None:
            self.refuse("Wait and Test end what Post began: call Post first")
        return self.posted

    # Locks

    @cython.critical_section
    cdef bint begin_lock(self, int rank) except -1:
        """Whether it is simple to say that a lock may be taken: then it counts as taken, so that no other thread of this rank
        takes it meanwhile."""
        if self.all_locked is not None or self.started is not None or self.fenced and self.used:
            return False
        if self.locked and rank in self.locked:
            return False
        self.fenced = False
        self.locked[rank] = True
        return True

    def lock(self, int rank, lock_type, int assertion):
        """Refuses a lock that may not be taken now."""
        if lock_type not in (LOCK_EXCLUSIVE, LOCK_SHARED):
            raise self.fail(ERR_LOCKTYPE, f"{lock_type} is no type of lock: LOCK_EXCLUSIVE and LOCK_SHARED are")
        self.check_assertion(assertion, _NOCHECK)
        if rank in self.locked:
            self.refuse(f"rank {rank} is locked already: call Unlock first")
        self.open_passive("Lock")

    def lock_all(self, int assertion):
        """Refuses to lock all where that may not be done now."""
        self.check_assertion(assertion, _NOCHECK)
        if self.locked:
            self.refuse(f"rank {next(iter(self.locked))} is locked: call Unlock before Lock_all")
        self.open_passive("Lock_all")

    cdef int open_passive(self, str call) except -1:
        if self.all_locked is not None:
            self.refuse(f"all ranks are locked already: call Unlock_all before {call}")
        if self.started is not None:
            self.refuse(f"Start was called: call Complete before {call}")
        self.leave_fence(call)
        return 0

    def unlock(self, int rank):
        """Returns whether the lock of a rank was taken."""
        if rank not in self.locked:
            self.refuse(f"rank {rank} is not locked: Unlock ends what Lock began")
        return self.locked[rank]

    def unlock_all(self):
        """Returns whether the locks of all ranks were taken."""
        if self.all_locked is None:
            self.refuse("Unlock_all ends what Lock_all began: call Lock_all first")
        return self.all_locked

    # The end

    def free(self):
        """Refuses to free a window with an open epoch. That of a fence is none."""
        self.check_no_locks("Free")
        self.check_no_groups("Free")
