# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
# cython: binding=False, embedsignature=True, embedsignature.format=clinic
"""The message engine of a rank: its peers, and waiting for what it does."""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE
from cpython.exc cimport PyErr_CheckSignals
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.ref cimport Py_INCREF
from libc.errno cimport EEXIST
from libc.stdint cimport int64_t, uint32_t, uint64_t
from posix.unistd cimport usleep

from ._channel cimport Channel
from ._core cimport FREE_THREADED, LONG_COPY, checked, deadline_after, forget_lock
from ._requests cimport Request, UserRequest, REASON
from .engine cimport (
    FS_CHANNELS, FS_DONE, FS_REMOTE_WRITE, FS_UNREACHED, fs_collective_start, fs_engine, fs_engine_after_fork, fs_engine_ask_for, fs_engine_attach_descriptor,
    fs_engine_add_peers, fs_engine_attach_end, fs_engine_attach_local, fs_engine_attach_memory, fs_engine_attach_verbs,
    fs_engine_acknowledge, fs_engine_begin_user_request, fs_engine_clear_members, fs_engine_close, fs_engine_fail,
    fs_engine_failure, fs_engine_forget_fate, fs_engine_has_collectives, fs_engine_has_finished, fs_engine_is_revoked, fs_engine_revoke,
    fs_engine_conceal, fs_engine_expose, fs_engine_is_usable, fs_engine_leave, fs_engine_left, fs_engine_new, fs_engine_note_collective,
    fs_engine_open_verbs, fs_engine_options, fs_engine_pin, fs_engine_reach, fs_engine_release, fs_engine_set_members, fs_engine_show,
    fs_engine_verbs_counts, fs_engines_heed_interpreter, fs_ibvx_counts, fs_ibvx_options, fs_layout, fs_request, fs_wait,
    fs_wait_prepare,
)
from .system cimport atomic_store, fs_now_ns

import posix as _os
import weakref as _weakref

cdef extern from *:
    """
    #if PY_VERSION_HEX < 0x030D0000
    #define PyThreadState_GetUnchecked _PyThreadState_UncheckedGet
    #endif

    static void *leave_interpreter_for_engine(void)
    {
        PyThreadState *here = PyThreadState_GetUnchecked(); /* up to Python 3.11 whoever has the lock, in any thread */
        return here != NULL && here == PyGILState_GetThisThreadState() ? PyEval_SaveThread() : NULL;
    }

    static void enter_interpreter_again(void *left) { PyEval_RestoreThread((PyThreadState *)left); }
    """
    void *leave_interpreter_for_engine() noexcept nogil
    void enter_interpreter_again(void *left) noexcept nogil

fs_engines_heed_interpreter(leave_interpreter_for_engine, enter_interpreter_again)

cdef enum:
    MANY = 64  # requests waited for without an allocation


_engines = _weakref.WeakSet()


cdef int *c_numbers(numbers, Py_ssize_t *count) except NULL:
    """Integers as an array that its caller frees."""
    cdef list given = list(numbers)
    cdef Py_ssize_t place
    cdef int *found = <int *>PyMem_Malloc(max(<Py_ssize_t>1, len(given)) * sizeof(int))
    if found == NULL:
        raise MemoryError()
    try:
        for place in range(len(given)):
            found[place] = given[place]
    except BaseException:
        PyMem_Free(found)
        raise
    count[0] = len(given)
    return found


@cython.final
cdef class CollectiveNumbers:
    """As itertools.count()."""
    cdef Engine engine
    cdef uint64_t following

    def __iter__(self):
        return self

    def __next__(self):
        cdef uint64_t number
        with cython.critical_section(self):
            number = self.following
            self.following += 1
        fs_engine_note_collective(self.engine.engine)
        return number


cdef class Engine(Messages):
    """The message engine of one rank among `size`; every method may be called by several threads at once.

    eager_limit: bytes up to which a message travels with its envelope; credit: bytes of such messages that each peer may
    have unconsumed here; spin_us: longest busy wait; crowded: there are more ranks than cores on this host.
    """

    def __cinit__(self, int rank, int size, *, size_t eager_limit=131072, size_t credit=4 << 20, double spin_us=200.0,
                  bint crowded=False):
        cdef fs_engine_options options
        cdef int error = 0
        options.eager_limit = eager_limit
        options.credit = credit
        options.spin_us = spin_us
        options.crowded = crowded
        self.engine = fs_engine_new(rank, size, &options, &error)
        if self.engine == NULL:
            raise OSError(-error, f"message engine of rank {rank} among {size}: {_os.strerror(-error)}")
        self.rank = rank
        self.size = self.peers = size
        _engines.add(self)

    def __dealloc__(self):
        if self.engine != NULL:
            fs_engine_close(self.engine)
            fs_engine_release(self.engine)

    def show(self):
        """Other processes of this user see what goes through it from now on. Before its first message."""
        self.alive()
        fs_engine_show(self.engine)

    def collective_numbers(self):
        """0, 1, 2 and so on, for the calls of a communicator. Each call takes one: so the engine counts them."""
        cdef CollectiveNumbers numbers = CollectiveNumbers.__new__(CollectiveNumbers)
        numbers.engine = self
        return numbers

    # ---- peers ----

    def add_peers(self, ranks):
        """Ranks of other jobs, by the numbers that they have there. Returns the first of their numbers here, which follow
        each other. Raises OSError where there are too many."""
        cdef Py_ssize_t count = 0
        cdef int first
        cdef int *given
        self.alive()
        given = c_numbers(ranks, &count)
        first = fs_engine_add_peers(self.engine, given, count)
        PyMem_Free(given)
        if first < 0:
            raise OSError(-first, f"rank {self.rank} knows too many ranks of other jobs: {_os.strerror(-first)}")
        self.peers = max(self.peers, first + <int>count)
        return first

    def ask_for(self, int peer):
        """Has a connection made to a peer, unless there is one: so its death is heard of."""
        self.alive()
        if fs_engine_ask_for(self.engine, peer):
            self.call_missing(peer)

    cdef int check_attached(self, int peer, int error) except -1:
        if error == 0:
            return 0
        if error == -EEXIST:
            raise OSError(EEXIST, f"rank {peer} is attached to rank {self.rank} already")
        raise OSError(-error, f"attaching rank {peer} to rank {self.rank}: {_os.strerror(-error)}")

    def attach_channel(self, int peer, Channel channel not None):
        """Messages with `peer` go through this shared-memory channel. It belongs to the engine from now on."""
        cdef int error, descriptor
        self.alive()
        with cython.critical_section(channel):
            channel.alive()
            if channel.users or channel.shared.open_channels != 1:
                raise ValueError("a channel that others use cannot be attached")
            descriptor, channel.descriptor = channel.descriptor, -1  # before a wait for the engine lets others in
        error = fs_engine_attach_end(self.engine, peer, channel.shared.end, descriptor)
        if error == 0:
            atomic_store(&channel.shared.open_channels, 0)
        else:
            channel.rebind(descriptor)
        self.check_attached(peer, error)

    def attach_descriptor(self, int peer, int fd):
        """Messages with `peer` go through this connected stream's descriptor. It belongs to the engine from now on."""
        self.alive()
        self.check_attached(peer, fs_engine_attach_descriptor(self.engine, peer, fd))

    def attach_memory(self, int peer, int fd):
        """Messages with `peer` go through the memory that this TCP connection has gained (`carriers.is_in_memory`).

        The descriptor belongs to the engine from now on.
        """
        self.alive()
        self.check_attached(peer, fs_engine_attach_memory(self.engine, peer, fd))

    def open_verbs(
        self, device=None, local=None, size_t memory=(<size_t>1) << 30, bint keeps=True, bint offers=False,
        bint rings=False
    ):
        """Opens the RDMA device of that name, or the one with the IP address `local`, or the first. Raises OSError.

        memory: bytes of messages' memory that it may know at once. keeps: after the message too, where it can. offers:
        the receiver's device reads long messages, instead of the sender's writing them. rings: short ones are written into
        memory that the receiver looks at, so it never sleeps.
        """
        cdef bytes name = b"" if device is None else device.encode()
        cdef bytes address = b"" if local is None else local.encode()
        cdef const char *wanted = name
        cdef const char *here = address
        cdef fs_ibvx_options options
        cdef int error
        options.device = wanted if wanted[0] else NULL
        options.local = here if here[0] else NULL
        options.memory, options.keeps, options.rings = memory, keeps, rings
        self.alive()
        with nogil:
            error = fs_engine_open_verbs(self.engine, &options, offers)
        if error:
            raise OSError(-error, f"opening RDMA: {_os.strerror(-error)}")

    def attach_verbs(self, int peer, int fd):
        """Messages with `peer` go through a queue pair. This connected stream introduces the ends to each other, and ends
        with them. It belongs to the engine from now on."""
        cdef int error
        self.alive()
        with nogil:
            error = fs_engine_attach_verbs(self.engine, peer, fd)
        self.check_attached(peer, error)

    def pin(self, uint64_t address, size_t length, bint pins):
        """The RDMA device knows that memory until it is unpinned. The caller keeps it mapped so long. Raises OSError."""
        cdef int error
        self.alive()
        with nogil:
            error = fs_engine_pin(self.engine, <void *>address, length, pins)
        checked(error)

    def expose(self, uint64_t address, size_t length):
        """Other ranks' devices may write and read that memory from now on. Returns the key that they need; None where
        there is no device, or it takes no more. The caller keeps the memory mapped until conceal()."""
        cdef uint32_t key = 0
        cdef int error
        self.alive()
        with nogil:
            error = fs_engine_expose(self.engine, <void *>address, length, &key)
        return None if error else key

    def conceal(self, uint32_t key):
        """Undoes expose(). What another rank still begins there ends its connection with this one."""
        with nogil:
            fs_engine_conceal(self.engine, key)

    cdef Request c_reach(self, int kind, data, int peer, uint32_t context, uint64_t address, uint32_t key,
                         const fs_layout *layout, int64_t extent):
        cdef Request request = Request.__new__(Request)
        cdef int result
        self.alive()
        request.engine, request.unpeeked = self, True
        request.take_buffers(data, PyBUF_SIMPLE if kind == FS_REMOTE_WRITE else PyBUF_WRITABLE, kind)
        Py_INCREF(request)
        with nogil:
            result = fs_engine_reach(self.engine, &request.request, peer, context, address, key, layout, extent)
        self.begun(request, FS_DONE if result == FS_UNREACHED else result)
        return None if result == FS_UNREACHED else request

    def verbs_counts(self, int peer):
        """What went through the queue pair to `peer`, and the device's name; None where there is no such pair."""
        cdef fs_ibvx_counts counts
        cdef char device[64]
        if not fs_engine_verbs_counts(self.engine, peer, &counts, device, sizeof(device)):
            return None
        return {"device": device.decode(), **counts}

    def attach_local(self, int peer, Engine engine not None):
        """`peer` is a rank of this process; attach both to each other."""
        cdef int error
        cdef fs_engine *other = engine.engine
        self.alive()
        with nogil:
            error = fs_engine_attach_local(self.engine, peer, other)
        self.check_attached(peer, error)

    def fail(self, int peer, str reason not None):
        """The peer is gone: every pending and later operation with it ends with an error that says why."""
        cdef bytes text = reason.encode("utf-8", "replace")[:REASON - 1]
        fs_engine_fail(self.engine, peer, text)
        self.drain()

    def left(self, int peer):
        """The peer has finished, and was never attached. Where it was, it says so itself, behind its messages."""
        fs_engine_left(self.engine, peer)
        self.drain()

    # ---- recovery ----

    def has_collectives(self):
        """Contexts of odd numbers below 2**31 are of collective operations: nobody waits in one for long once a member of it
        has failed."""
        fs_engine_has_collectives(self.engine)

    def failures(self, ranks):
        """Those of these ranks that have failed, in the order in which this engine heard of it, and each one's place in it."""
        cdef int rank
        cdef list found = []
        for rank in ranks:
            failure = fs_engine_failure(self.engine, rank)
            if failure:
                found.append((failure, rank))
        found.sort()
        return [(rank, failure) for failure, rank in found]

    def acknowledge(self, uint32_t context, uint32_t failure):
        """Receives from anybody in that context go on without those who failed up to that place."""
        if fs_engine_acknowledge(self.engine, context, failure) < 0:
            raise MemoryError()

    def revoke(self, uint32_t context, uint32_t second, uint32_t third):
        """What is pending in these contexts ends with an error, and so does what begins. Who sees one of them revoked sees
        all."""
        cdef uint32_t[3] contexts
        cdef int error
        contexts[0], contexts[1], contexts[2] = context, second, third
        with nogil:
            error = fs_engine_revoke(self.engine, contexts, 3)
        self.drain()
        if error < 0:
            raise MemoryError()

    def is_revoked(self, uint32_t context):
        """Whether it was revoked here."""
        return fs_engine_is_revoked(self.engine, context) != 0

    cdef void c_forget_fate(self, uint32_t context) noexcept:
        fs_engine_forget_fate(self.engine, context)

    cdef int c_set_members(self, uint32_t context, const int *ranks, size_t count) except -1:
        if fs_engine_set_members(self.engine, context, ranks, count) < 0:
            raise MemoryError()
        return 0

    cdef void c_clear_members(self, uint32_t context) noexcept:
        fs_engine_clear_members(self.engine, context)

    def set_members(self, uint32_t context, ranks):
        """Which ranks may send in that context: their failures end receives from anybody. None: all ranks again."""
        cdef int *given
        cdef Py_ssize_t count = 0
        if ranks is None:
            self.c_clear_members(context)
            return
        given = c_numbers(ranks, &count)
        try:
            self.c_set_members(context, given, count)
        finally:
            PyMem_Free(given)

    def user_request(self):
        """A UserRequest: a request among others. It completes when its complete() is called."""
        cdef UserRequest user_request = UserRequest.__new__(UserRequest)
        self.alive()
        user_request.engine = self
        fs_engine_begin_user_request(self.engine, &user_request.request)
        return user_request

    # ---- schedules ----

    cdef int ask_targets(self, Schedule schedule) except -1:
        """Nobody connects when a step comes to a peer for the first time: so that is done before."""
        cdef int peer
        if schedule.asked is self:
            return 0
        for peer in schedule.targets:
            if fs_engine_ask_for(self.engine, peer):
                self.call_missing(peer)
        schedule.asked = self
        return 0

    cdef int c_start(self, Request request, BoundSchedule bound, const int *tags) except -1:
        cdef int result
        self.alive()
        self.ask_targets(bound.schedule)
        request.engine = self
        request.follows = bound
        fs_engine_begin_user_request(self.engine, &request.request)
        request.request.length = bound.schedule.total
        request.request.owner = <void *>request
        Py_INCREF(request)
        if bound.schedule.total < LONG_COPY:
            result = fs_collective_start(self.engine, bound.collective, &request.request, tags)
        else:
            with nogil:
                result = fs_collective_start(self.engine, bound.collective, &request.request, tags)
        self.begun(request, result)
        return 0

    def start(self, BoundSchedule bound not None, tags):
        """Follows a schedule: a request that completes with its last step. `tags`: one for each of its channels.

        It goes on whenever some call makes progress. A bound schedule is followed once at a time.
        """
        cdef int[FS_CHANNELS] given
        cdef Request request = Request.__new__(Request)
        if len(tags) != <Py_ssize_t>bound.schedule.schedule.channel_count:
            raise ValueError(f"{len(tags)} tags for {bound.schedule.schedule.channel_count} channels")
        for i, tag in enumerate(tags):
            given[i] = tag
        self.c_start(request, bound, given)
        return request

    # ---- waiting ----

    cdef int wait_many(self, requests, bint all, timeout, Py_ssize_t *which) except -1:
        cdef fs_request *here[MANY]
        cdef fs_request **list_ = here
        cdef fs_wait wait
        cdef Py_ssize_t i, count = len(requests)
        cdef int result
        if count > MANY:
            list_ = <fs_request **>PyMem_Malloc(count * sizeof(fs_request *))
            if list_ == NULL:
                raise MemoryError()
        try:
            for i in range(count):
                list_[i] = &(<Request?>requests[i]).request
            fs_wait_prepare(&wait, self.engine, list_, count, all, deadline_after(-1 if timeout is None else timeout))
            result = self.wait_until(&wait)
        finally:
            if list_ != here:
                PyMem_Free(list_)
        which[0] = wait.first
        return result

    def wait_any(self, requests, timeout=None):
        """The index of a request that is done, None after `timeout` seconds or for no requests. Raises no request's error."""
        cdef Py_ssize_t which = 0
        if len(requests) == 0 or not self.wait_many(requests, False, timeout, &which):
            return None
        (<Request>requests[which]).settle()
        (<Request>requests[which]).collect()
        return which

    def wait_all(self, requests, timeout=None):
        """Whether all are done, before `timeout` seconds have passed. Raises no request's error."""
        cdef Py_ssize_t which = 0
        if not self.wait_many(requests, True, timeout, &which):
            return False
        for request in requests:
            (<Request>request).settle()
            (<Request>request).collect()
        return True

    def complete(self, requests):
        """Returns when all are done. Raises the error of the first that has one."""
        self.wait_all(requests)
        for request in requests:
            error = request.error
            if error is not None:
                raise error

    def peek(self, timeout=None):
        """The request that completed last and was not collected by wait(), test() or peek() yet; None after `timeout`.

        Those that other compiled modules have made for themselves are not among them.
        """
        cdef Request request
        cdef fs_wait wait
        while True:
            request = self.take_newest()
            if request is not None:
                return request
            if fs_engine_has_finished(self.engine):
                self.drain()
                continue
            self.alive()
            fs_wait_prepare(&wait, self.engine, NULL, 0, 0, deadline_after(-1 if timeout is None else timeout))
            wait.any_finished = 1
            if not self.wait_until(&wait):
                return self.take_newest()

    # ---- leaving ----

    def leave(self, timeout=5.0):
        """Sends what is still to be sent, for `timeout` seconds at most, and says goodbye.

        Over TCP it waits until the other ranks' kernels have all of that: what this process's kernel still holds is
        lost when the process ends.
        """
        cdef uint64_t deadline = deadline_after(timeout)
        cdef unsigned int pause = 20  # microseconds
        cdef bint left
        while fs_engine_is_usable(self.engine):
            with nogil:
                left = fs_engine_leave(self.engine)
            self.drain()
            if left or fs_now_ns() >= deadline:
                break
            with nogil:
                usleep(pause)
            if pause < 1000:
                pause += pause >> 2
            PyErr_CheckSignals()

    def close(self, timeout=5.0):
        """Leaves, and ends whatever is pending."""
        self.leave(timeout)
        if fs_engine_is_usable(self.engine):
            with nogil:
                fs_engine_close(self.engine)
        self.drain()
        while FREE_THREADED and self.take_newest() is not None:
            pass  # the list would hold them for ever, and they this engine

    @property
    def closed(self):
        return not fs_engine_is_usable(self.engine)


def _after_fork():
    cdef Engine engine
    for engine in list(_engines):
        forget_lock(engine)
        fs_engine_after_fork(engine.engine)


_os.register_at_fork(after_in_child=_after_fork)
