# cython: language_level=3, freethreading_compatible=True
"""What the record of a communicator holds, and the numbers of communicators.

A program makes and frees communicators by the thousand, and most of these never send anything. So what a call needs is made
when the first call asks for it.
"""
cimport cython
from libc.stdint cimport uint32_t
from libc.stdlib cimport free, malloc

from fastsock.core.binding._engine cimport Engine

from fastsock.system.forkable import new_recursive_lock

from ..collectives.object_collectives import ObjectCalls
from ..constants import ERR_COMM, ERR_INTERN
from ..exceptions import Exception as MPIException
from ..handle import numbered
from ..messages._point_to_point import Path
from .context_numbers import FIRST, OUTSIDE
from ..tags import APART as _APART
from .declining import NO_TEAM

cdef enum:
    MANY = 64  # members that are told to the engine without an allocation

cdef uint32_t APART = _APART

cdef int LAST = OUTSIDE
# Held for the moment in which a record gets what it has one of. A finalizer or a signal handler may come in between.
_making = new_recursive_lock()


@cython.final
cdef class ContextNumbers:
    """The numbers that this process gives to communicators: the rank is part of each."""

    cdef int first, step, next
    cdef list unused  # taken and given back
    cdef set given

    def __cinit__(self, int rank, int size):
        self.first = FIRST + rank
        self.step = 1
        while self.step < size:
            self.step *= 2
        self.next = self.first
        self.unused, self.given = [], set()

    def take(self):
        """Returns a number. One that was in use is given again only when all others were."""
        cdef Py_ssize_t tries
        with cython.critical_section(self):
            if self.unused:
                number = self.unused.pop()
                self.given.add(number)
                return number
            for tries in range(len(self.given) + 1):
                if self.next >= LAST:
                    self.next = self.first
                number = self.next
                self.next += self.step
                if number not in self.given:
                    self.given.add(number)
                    return number
        raise MPIException(ERR_INTERN, "too many communicators: free those that are not needed")

    def give_back(self, number):
        """Takes back a number that nothing was made with."""
        with cython.critical_section(self):
            self.given.discard(number)
            self.unused.append(number)

    def claim(self, number):
        """Takes a number that somebody proposes. Returns whether it was free."""
        with cython.critical_section(self):
            if number in self.given:
                return False
            self.given.add(number)
            return True

    cpdef int free(self, number) except -1:
        """Takes back the number of a communicator that was freed, if it came from here."""
        with cython.critical_section(self):
            self.given.discard(number)
        return 0


cdef tuple as_ranks(ranks):
    return ranks if type(ranks) is tuple else tuple(ranks)


cdef bint any_beyond(tuple ranks, int size) except -1:
    """Whether one of them is a rank of another job."""
    cdef object rank
    for rank in ranks:
        if <int>rank >= size:
            return True
    return False


cdef bint are_places(tuple ranks) except -1:
    """Whether each rank is its own place."""
    cdef int place, rank
    for place in range(len(ranks)):
        rank = ranks[place]
        if rank != place:
            return False
    return True


cdef class CommunicatorState:
    """What the methods of a communicator's record work on.

    `ranks`: the members' ranks in the world; `peers`: those of the ranks that messages go to. `plain`: a peer's rank here is its
    rank in the world. `mixed`: some members are ranks of other jobs. `like`: a communicator of the same ranks in the same order, where there is one.
    """

    cdef object __weakref__
    cdef int number_  # of the handle
    cdef public object constant, constant_name
    cdef public bint predefined

    cdef readonly object world
    cdef readonly Engine engine
    cdef ContextNumbers numbers
    cdef readonly tuple ranks, peers
    cdef readonly int rank, size, context
    cdef int world_size
    cdef readonly bint inter, plain, mixed

    cdef public object topology
    cdef public bint teamed
    cdef public unsigned int acknowledged  # failures up to this one of the engine's
    cdef public bint heeded  # it is told when its context is revoked
    cdef public object team_calls     # blocking collective calls on plain arrays
    cdef public object team_objects   # the same on objects, where all members share memory
    cdef readonly dict attributes, locks
    cdef object name_, errhandler_, info_, buffered_
    cdef dict index_
    cdef object path_, by_messages
    cdef public object making_, members_, remote_, neighbour_calls, starting

    def __cinit__(self, world, int number, ranks, remote=None, CommunicatorState like=None):
        self.number_ = self.context = -1
        self.constant_name = self.name_ = ""
        self.inter = remote is not None
        if like is None:
            self.world, self.engine, self.numbers = world, world.engine, world.numbers
            self.world_size = world.size
            self.ranks = as_ranks(ranks)
            self.rank = self.ranks.index(world.rank)
            self.peers = as_ranks(remote) if self.inter else self.ranks
            self.plain = are_places(self.peers)
            self.mixed = any_beyond(self.ranks, self.world_size) or (
                self.inter and any_beyond(self.peers, self.world_size))
        else:
            self.world, self.engine, self.numbers = like.world, like.engine, like.numbers
            self.world_size = like.world_size
            self.ranks, self.rank, self.peers, self.plain = like.ranks, like.rank, like.peers, like.plain
            self.mixed = like.mixed
        self.size = len(self.ranks)
        self.errhandler_ = world.default_errhandler
        self.team_calls = NO_TEAM
        self.attributes, self.locks = {}, {}
        if number >= 0:
            self.open(number)

    cdef tuple everybody(self):
        """The ranks in the world of all who use the contexts."""
        return self.ranks + self.peers if self.inter else self.ranks

    cpdef open(self, int number):
        """Gives it its contexts: one for messages between two ranks, the next one for collective operations."""
        cdef tuple everybody = self.everybody()
        cdef Py_ssize_t place, count = len(everybody)
        cdef int[MANY] here
        cdef int *members = here
        self.context = 2 * number
        if not self.among_some(count):
            return
        if count > MANY:
            members = <int *>malloc(count * sizeof(int))
            if members == NULL:
                raise MemoryError()
        try:
            for place in range(count):
                members[place] = everybody[place]
            self.engine.c_set_members(<uint32_t>self.context, members, count)
            self.engine.c_set_members(<uint32_t>self.context + 1, members, count)
        finally:
            if members != here:
                free(members)
        if self.mixed:
            self.world.others.opened(everybody)

    cdef bint among_some(self, Py_ssize_t count) noexcept:
        """Whether its contexts are not for all ranks of the job, and for them alone."""
        return self.mixed or count < self.world_size

    def close(self):
        """Forgets all that the process keeps for it. Operations under way complete. Nothing new can start."""
        if self.among_some(len(self.everybody())):
            self.engine.c_clear_members(<uint32_t>self.context)
            self.engine.c_clear_members(<uint32_t>self.context + 1)
        self.forget_fate()
        self.numbers.free(self.context // 2)
        if self.mixed:
            self.world.others.closed(self.everybody())
            if self.world.parent is self:
                self.world.parent = None
        self.members_ = self.remote_ = self.neighbour_calls = self.starting = self.team_objects = None
        self.team_calls = NO_TEAM

    cdef int forget_fate(self) except -1:
        cdef uint32_t context = <uint32_t>self.context
        self.engine.c_forget_fate(context)
        self.engine.c_forget_fate(context + 1)
        self.engine.c_forget_fate(APART + context + 1)
        if self.heeded:
            self.world.revocations.forget(context)
        return 0

    def alive(self):
        """Does nothing; the null communicator refuses it, as it refuses everything."""

    def opened(self):
        """Raises where it has no contexts yet: the operation that makes it goes on."""
        if self.context < 0:
            raise MPIException(ERR_COMM, "the communicator is not there yet: wait for the request that makes it")

    @property
    def number(self):
        """An integer that stands for this record, given on first request."""
        if self.number_ < 0:
            with _making:
                if self.number_ < 0:
                    self.number_ = numbered(self)
        return self.number_

    @property
    def path(self):
        """The calls that programs make most go by it."""
        if self.path_ is None:
            self.opened()
            with _making:
                if self.path_ is None:
                    self.path_ = Path(self)
        return self.path_

    @property
    def objects(self):
        """Blocking collective calls on objects, by messages where members do not share memory yet."""
        if self.team_objects is not None:
            return self.team_objects
        if self.by_messages is None:
            with _making:
                if self.by_messages is None:
                    self.by_messages = ObjectCalls(self)
        return self.by_messages

    @property
    def index(self):
        """The place of each peer, by its rank in the world; None where these are the same."""
        if self.index_ is None and not self.plain:
            with _making:
                if self.index_ is None:
                    self.index_ = {peer: place for place, peer in enumerate(self.peers)}
        return self.index_

    # A program may set these from several threads

    @property
    def name(self):
        with cython.critical_section(self):
            return self.name_

    @name.setter
    def name(self, value):
        with cython.critical_section(self):
            self.name_ = value

    @property
    def errhandler(self):
        with cython.critical_section(self):
            return self.errhandler_

    @errhandler.setter
    def errhandler(self, value):
        with cython.critical_section(self):
            self.errhandler_ = value

    @property
    def info(self):
        """The hints; None where there are none."""
        with cython.critical_section(self):
            return self.info_

    @info.setter
    def info(self, value):
        with cython.critical_section(self):
            self.info_ = value

    @property
    def buffered(self):
        """The buffered sends of this communicator, where a program attached a buffer to it."""
        with cython.critical_section(self):
            return self.buffered_

    @buffered.setter
    def buffered(self, value):
        with cython.critical_section(self):
            self.buffered_ = value
