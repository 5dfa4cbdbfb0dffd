# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
# cython: binding=False, embedsignature=True, embedsignature.format=clinic
"""The collectives over shared memory: buffers in, errors that name a rank out."""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EINTR, EINVAL, ESTALE
from posix.unistd cimport close as close_descriptor, usleep

from ._core cimport LONG_COPY, checked
from .engine cimport (
    FS_ANY, FS_CLOSED, FS_CONTEXT_REVOKED, FS_PEER_FAILED, fs_engine_failed_member, fs_engine_has_finished,
    fs_engine_is_revoked, fs_engine_progress,
)
from .system cimport fs_generation, fs_ticks, fs_ticks_per_us
from .team cimport (
    FS_TEAM_BUFFERED, FS_TEAM_DIRECT, FS_TEAM_MEASURED, FS_TEAM_MOST, fs_cma_identity, fs_kernel, fs_kernel_of,
    fs_team_allgather, fs_team_allreduce, fs_team_alltoall, fs_team_barrier, fs_team_bcast, fs_team_close,
    fs_team_create_memory, fs_team_culprit, fs_team_exscan, fs_team_gather, fs_team_hooks, fs_team_identify,
    fs_team_keep, fs_team_kept, fs_team_meet, fs_team_open, fs_team_reduce, fs_team_reduce_scatter, fs_team_scan,
    fs_team_scatter, fs_type_size,
)

import posix as _os

from ._requests import MessageError

cdef extern from *:
    """
    #include <errno.h>
    static int fs_propagate(void) { return -1; }
    """
    int fs_propagate() except -1
    enum: ECANCELED, EOWNERDEAD

cdef extern from "Python.h":
    PyThreadState *PyEval_SaveThread() noexcept nogil
    void PyEval_RestoreThread(PyThreadState *state) noexcept nogil
    unsigned long this_thread "PyThread_get_thread_ident" () noexcept nogil
    int handle_signals "PyErr_CheckSignals" () noexcept nogil
    void *PyErr_Occurred()

cdef double SIGNALS_EVERY_US = 20000.0
cdef unsigned int TURN_US = 20  # between two looks of a thread whose turn it is not

OPERATIONS = {
    name: number
    for number, name in enumerate(
        "SUM PROD MAX MIN LAND LOR LXOR BAND BOR BXOR MAXLOC MINLOC REPLACE NO_OP".split()
    )
}
TYPES = {
    name: number
    for number, name in enumerate(
        "INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64 FLOAT DOUBLE LONG_DOUBLE COMPLEX_FLOAT COMPLEX_DOUBLE "
        "COMPLEX_LONG_DOUBLE BOOL QUAD COMPLEX_QUAD "
        "FLOAT_INT DOUBLE_INT LONG_INT INT_INT SHORT_INT LONG_DOUBLE_INT".split()
    )
}
TEAM_MOST = FS_TEAM_MOST


def can_reduce(int operation, int type):
    """Whether that operation (of OPERATIONS) is defined for that type (of TYPES)."""
    return fs_kernel_of(operation, type) != NULL


def type_size(int type):
    """Bytes of an element of that type (of TYPES), as the kernels count them."""
    return fs_type_size(type)


cdef int c_reduce_local(int operation, int type, const void *source, void *target, size_t count) except -1:
    """target = source operation target, for elements of a type that the operation is defined for."""
    cdef fs_kernel *kernel = fs_kernel_of(operation, type)
    if count * fs_type_size(type) < <size_t>LONG_COPY:
        kernel(source, target, target, count)
    else:
        with nogil:
            kernel(source, target, target, count)
    return 0


def reduce_local(int operation, int type, source, target, Py_ssize_t count=-1):
    """target = source operation target, for `count` elements of TYPES, or all of them. Raises ValueError."""
    cdef Py_ssize_t size = <Py_ssize_t>fs_type_size(type)
    cdef Py_buffer left, right
    if not can_reduce(operation, type):
        raise ValueError(f"reduction: operation {operation} is not defined for type {type}")
    PyObject_GetBuffer(source, &left, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(target, &right, PyBUF_WRITABLE)
        try:
            if count < 0:
                count = right.len // size
            if count > left.len // size or count > right.len // size:
                raise ValueError(f"reduction: {count} elements of {size} bytes, but buffers of {left.len} and {right.len}")
            c_reduce_local(operation, type, left.buf, right.buf, <size_t>count)
        finally:
            PyBuffer_Release(&right)
    finally:
        PyBuffer_Release(&left)


def create_team_memory(int size, bint crowded):
    """The descriptor of the memory for a team of that size; `crowded`: its host has more ranks than cores."""
    return checked(fs_team_create_memory(size, crowded))


def team_identity():
    """What the other members need to read this process's memory, where they may; see Team.meet()."""
    cdef fs_cma_identity own
    fs_team_identify(&own)
    return PyBytes_FromStringAndSize(<char *>&own, sizeof(own))


cdef int propagate() except -1:
    return fs_propagate()


cdef void leave_interpreter(void *context) noexcept nogil:
    (<Waiter *>context).outside = PyEval_SaveThread()


cdef void enter_interpreter(void *context) noexcept nogil:
    PyEval_RestoreThread((<Waiter *>context).outside)


cdef int progress_engine(void *context) noexcept nogil:
    cdef Waiter *waiter = <Waiter *>context
    cdef int did = fs_engine_progress(waiter.engine)
    if fs_engine_has_finished(waiter.engine):
        with gil:
            (<Engine>waiter.owner).drain()
    return did


cdef int look_for_signals(void *context) noexcept nogil:
    cdef Waiter *waiter = <Waiter *>context
    cdef uint64_t now = fs_ticks()
    cdef int result
    if waiter.heeds and fs_engine_is_revoked(waiter.engine, waiter.context):
        return -ECANCELED
    if waiter.asks and fs_engine_failed_member(waiter.engine, waiter.context) != FS_ANY:
        return -EOWNERDEAD
    if now - waiter.looked_at < <uint64_t>(SIGNALS_EVERY_US * fs_ticks_per_us()):
        return 0
    PyEval_RestoreThread(waiter.outside)
    result = handle_signals()
    waiter.outside = PyEval_SaveThread()
    waiter.looked_at = fs_ticks()
    return -EINTR if result != 0 else 0


@cython.no_gc_clear  # its descriptors are closed at its end, also in a cycle
cdef class Team:
    """The ranks of a communicator that share a host, and its collectives in the memory that they share.

    Made by fastsock.mpj.collectives.team, which hands `memory`, an eventfd and a descriptor of the process (or -1) per member, and
    the members' ranks. Takes the descriptors over. Several threads take turns, and all members call the same methods in
    the same order. Buffers are contiguous; a source of None means that the own part is in its place in the target.
    Raises MessageError (PEER_FAILED), which names the member that died or left; ValueError; what a signal handler raised.
    """

    def __cinit__(self):
        self.team = NULL

    def __init__(self, Engine engine, int memory, int index, bells, watches, ranks, bint threads=False):
        cdef int[FS_TEAM_MOST] bell, watch
        cdef int error = 0, i
        cdef fs_team_hooks hooks
        self.bells, self.watches, self.ranks = tuple(bells), tuple(watches), tuple(ranks)
        self.engine = engine
        self.index, self.size, self.threads = index, len(self.ranks), threads
        if not (len(self.bells) == len(self.watches) == self.size <= FS_TEAM_MOST):
            raise ValueError(f"team: {len(self.bells)} bells and {len(self.watches)} watches for {self.size} members")
        for i in range(self.size):
            bell[i], watch[i] = self.bells[i], self.watches[i]
        hooks = fs_team_hooks(&self.waiter, leave_interpreter, enter_interpreter, NULL, look_for_signals)
        if engine is not None:
            self.waiter.owner = <void *>engine
            self.waiter.engine = self.engine.engine
            hooks.progress = progress_engine
        self.team = fs_team_open(memory, index, self.size, bell, watch, threads, &hooks, &error)
        close_descriptor(memory)
        if self.team == NULL:
            raise OSError(-error, f"collective over shared memory: {_os.strerror(-error)}")

    @cython.critical_section
    def meet(self, bytes identities not None):
        """Whether the memory of all other members, whose team_identity() these are, may be read by this process. To be
        called by all before any calls a collective; where one cannot, large messages are copied twice."""
        if len(identities) != self.size * <int>sizeof(fs_cma_identity):
            raise ValueError(f"collective over shared memory: {len(identities)} bytes of identities")
        self.enter()
        cdef bint can = fs_team_meet(self.team, <const fs_cma_identity *>PyBytes_AS_STRING(identities)) != 0
        self.user = 0
        return can

    @cython.critical_section
    def keep(self, str way not None):
        """How long messages go: by what the calls' times say ("measured", as a team begins), always through the buffers,
        or always out of their givers' memory where that can be read. The member that decides in a call is followed."""
        cdef dict ways = {"measured": FS_TEAM_MEASURED, "buffers": FS_TEAM_BUFFERED, "direct": FS_TEAM_DIRECT}
        self.enter()
        try:
            fs_team_keep(self.team, <fs_team_kept><int>ways[way])
        finally:
            self.user = 0

    def heed(self, uint32_t context, bint beyond=False):
        """The context of the communicator: where that is revoked, every wait ends. `beyond`: it has members on other hosts,
        too: where one of them dies every wait ends, as a member here may wait for it and not come."""
        self.waiter.context, self.waiter.heeds = context, self.engine is not None
        self.waiter.asks = self.waiter.heeds and (self.threads or beyond)

    @cython.critical_section
    def close(self):
        """Gives the memory and the descriptors back. No collective may be under way."""
        if self.team == NULL:
            return
        self.enter()
        fs_team_close(self.team)
        self.team = NULL
        self.user = 0
        for descriptor in self.bells + self.watches:
            if descriptor >= 0:
                close_descriptor(descriptor)

    def __dealloc__(self):
        self.close()

    cdef int enter(self) except -1:
        """With its section: no other thread is in there until `user` is 0 again. A wait gives the section up."""
        cdef unsigned long me = this_thread()
        while self.user != 0 and self.user_generation == fs_generation():
            if self.user == me:  # by a signal's handler, or a callback
                raise ValueError("collective over shared memory: begun within another one of the same communicator")
            with nogil:
                usleep(TURN_US)
            PyErr_CheckSignals()
        if self.team == NULL:
            raise ValueError("collective over shared memory: closed")
        self.user, self.user_generation = me, fs_generation()
        return 0

    cdef int ended(self, int result) except -1:
        self.user = 0
        if result == 0:
            return 0
        if PyErr_Occurred() != NULL:
            return propagate()
        if result == -EINVAL:
            raise ValueError("collective over shared memory: no such root, or an operation that is not defined for the type")
        raise self.failure(result)

    cdef object failure(self, int result):
        if result == -ESTALE:
            return MessageError(FS_CLOSED, -1, "collective over shared memory: inherited over a fork; only the rank itself,"
                                " which this process was forked from, takes part")
        cdef int culprit = fs_team_culprit(self.team), rank = FS_ANY
        cdef bint revoked = self.waiter.heeds and fs_engine_is_revoked(self.waiter.engine, self.waiter.context)
        if result == -ECANCELED or revoked:  # a death may have been seen first: who knows of the other is not told of it
            return MessageError(FS_CONTEXT_REVOKED, -1, "a member has called Revoke")
        if culprit >= 0:
            rank = self.ranks[culprit]
        elif result == -EOWNERDEAD:
            rank = fs_engine_failed_member(self.engine.engine, self.waiter.context)
        if rank == FS_ANY:
            return OSError(-result, f"collective over shared memory: {_os.strerror(-result)}")
        what = "died" if result == -EOWNERDEAD else "left a collective operation unfinished"
        text = f"collective over shared memory: rank {rank} {what}; the communicator's other ranks cannot go on without it"
        return MessageError(FS_PEER_FAILED, rank, text)

    # ---- plain memory: for other compiled modules ----

    @cython.critical_section
    cdef int c_barrier(self) except -1:
        self.enter()
        return self.ended(fs_team_barrier(self.team))

    @cython.critical_section
    cdef int c_bcast(self, void *data, size_t length, int root) except -1:
        self.enter()
        return self.ended(fs_team_bcast(self.team, data, length, root))

    @cython.critical_section
    cdef int c_reduce(self, const void *source, void *target, size_t count, int type, int operation, int root) except -1:
        self.enter()
        return self.ended(fs_team_reduce(self.team, source, target, count, type, operation, root))

    @cython.critical_section
    cdef int c_allreduce(self, const void *source, void *target, size_t count, int type, int operation) except -1:
        self.enter()
        return self.ended(fs_team_allreduce(self.team, source, target, count, type, operation))

    @cython.critical_section
    cdef int c_scan(self, const void *source, void *target, size_t count, int type, int operation) except -1:
        self.enter()
        return self.ended(fs_team_scan(self.team, source, target, count, type, operation))

    @cython.critical_section
    cdef int c_exscan(self, const void *source, void *target, size_t count, int type, int operation) except -1:
        self.enter()
        return self.ended(fs_team_exscan(self.team, source, target, count, type, operation))

    @cython.critical_section
    cdef int c_reduce_scatter(self, const void *source, void *target, const size_t *counts, int type,
                              int operation) except -1:
        self.enter()
        return self.ended(fs_team_reduce_scatter(self.team, source, target, counts, type, operation))

    @cython.critical_section
    cdef int c_gather(self, const void *source, size_t length, void *target, const fs_blocks *blocks, int root) except -1:
        self.enter()
        return self.ended(fs_team_gather(self.team, source, length, target, blocks, root))

    @cython.critical_section
    cdef int c_scatter(self, const void *source, const fs_blocks *blocks, void *target, size_t length, int root) except -1:
        self.enter()
        return self.ended(fs_team_scatter(self.team, source, blocks, target, length, root))

    @cython.critical_section
    cdef int c_allgather(self, const void *source, void *target, const fs_blocks *blocks) except -1:
        self.enter()
        return self.ended(fs_team_allgather(self.team, source, target, blocks))

    @cython.critical_section
    cdef int c_alltoall(self, const void *source, const fs_blocks *out, void *target, const fs_blocks *in_) except -1:
        self.enter()
        return self.ended(fs_team_alltoall(self.team, source, out, target, in_))

    # ---- buffers ----

    def barrier(self):
        """Returns when every member has called it."""
        self.c_barrier()

    def bcast(self, data, int root):
        """Gives the root's data to all."""
        cdef Buffer view = Buffer(data, self.index != root)
        self.c_bcast(view.raw.buf, <size_t>view.raw.len, root)

    def reduce(self, source, target, int type, int operation, int root):
        """The members' sources combined in the order of their indices, in the root's target. The others' is not used."""
        cdef Buffer own, out
        if self.index == root:
            out = Buffer(target, True)
            own = self.own_part(source, out)
            self.c_reduce(own.raw.buf, out.raw.buf, elements(out, type), type, operation, root)
        else:
            own = Buffer(source, False)
            self.c_reduce(own.raw.buf, NULL, elements(own, type), type, operation, root)

    def allreduce(self, source, target, int type, int operation):
        """The members' sources combined in the order of their indices, in everybody's target; to the bit the same."""
        cdef Buffer out = Buffer(target, True)
        cdef Buffer own = self.own_part(source, out)
        self.c_allreduce(own.raw.buf, out.raw.buf, elements(out, type), type, operation)

    def scan(self, source, target, int type, int operation):
        """The sources of the members up to this one, combined."""
        cdef Buffer out = Buffer(target, True)
        cdef Buffer own = self.own_part(source, out)
        self.c_scan(own.raw.buf, out.raw.buf, elements(out, type), type, operation)

    def exscan(self, source, target, int type, int operation):
        """The sources of the members before this one, combined; the first one's target stays as it is."""
        cdef Buffer out = Buffer(target, True)
        cdef Buffer own = self.own_part(source, out)
        self.c_exscan(own.raw.buf, out.raw.buf, elements(out, type), type, operation)

    def reduce_scatter(self, source, target, counts, int type, int operation):
        """The sources combined; each member's target gets its own part of so many elements. In place, the target is the
        source, and the result lies at its start."""
        cdef size_t[FS_TEAM_MOST] elements_of
        cdef size_t total = self.sizes(counts, elements_of), size = fs_type_size(type)
        cdef Buffer out = Buffer(target, True)
        cdef Buffer own = out if source is None else Buffer(source, False)
        self.within(total * size, own)
        self.within(elements_of[self.index] * size, out)
        self.c_reduce_scatter(NULL if source is None else own.raw.buf, out.raw.buf, elements_of, type, operation)

    def gather(self, source, target, sizes, offsets, int root):
        """The members' sources in the root's target, at the bytes that the root says. The others' is not used."""
        cdef size_t[FS_TEAM_MOST] size, offset
        cdef fs_blocks blocks
        blocks.sizes, blocks.offsets = &size[0], &offset[0]
        cdef Buffer own = None if source is None else Buffer(source, False)
        cdef Buffer out
        if self.index == root:
            out = Buffer(target, True)
            self.layout(sizes, offsets, size, offset, out)
            if own is not None:
                self.within(size[root], own)
            self.c_gather(NULL if own is None else own.raw.buf, 0, out.raw.buf, &blocks, root)
        else:
            self.c_gather(own.raw.buf, <size_t>own.raw.len, NULL, NULL, root)

    def scatter(self, source, sizes, offsets, target, int root):
        """The parts of the root's source go into the members' targets. The root says at which bytes they lie."""
        cdef size_t[FS_TEAM_MOST] size, offset
        cdef fs_blocks blocks
        blocks.sizes, blocks.offsets = &size[0], &offset[0]
        cdef Buffer out = None if target is None else Buffer(target, True)
        cdef Buffer own
        if self.index == root:
            own = Buffer(source, False)
            self.layout(sizes, offsets, size, offset, own)
            if out is not None:
                self.within(size[root], out)
            self.c_scatter(own.raw.buf, &blocks, NULL if out is None else out.raw.buf, 0, root)
        else:
            self.c_scatter(NULL, NULL, out.raw.buf, <size_t>out.raw.len, root)

    def allgather(self, source, target, sizes, offsets):
        """The members' sources in everybody's target, at the bytes said."""
        cdef size_t[FS_TEAM_MOST] size, offset
        cdef fs_blocks blocks
        blocks.sizes, blocks.offsets = &size[0], &offset[0]
        cdef Buffer out = Buffer(target, True)
        cdef Buffer own = None if source is None else Buffer(source, False)
        self.layout(sizes, offsets, size, offset, out)
        if own is not None:
            self.within(size[self.index], own)
        self.c_allgather(NULL if own is None else own.raw.buf, out.raw.buf, &blocks)

    def alltoall(self, source, out_sizes, out_offsets, target, in_sizes, in_offsets):
        """Part i of the source goes to member i; what comes from member i becomes part i of the target. In place (a
        source of None, without sizes and offsets), what goes lies where what comes will be."""
        cdef size_t[FS_TEAM_MOST] out_size, out_offset, in_size, in_offset
        cdef fs_blocks out, in_
        out.sizes, out.offsets, in_.sizes, in_.offsets = &out_size[0], &out_offset[0], &in_size[0], &in_offset[0]
        cdef Buffer into = Buffer(target, True)
        cdef Buffer own = None if source is None else Buffer(source, False)
        self.layout(in_sizes, in_offsets, in_size, in_offset, into)
        if own is not None:
            self.layout(out_sizes, out_offsets, out_size, out_offset, own)
            if out_size[self.index] != in_size[self.index]:
                raise ValueError("collective over shared memory: other sizes to and from oneself")
        self.c_alltoall(NULL if own is None else own.raw.buf, &out, into.raw.buf, &in_)

    # ---- checks ----

    cdef Buffer own_part(self, source, Buffer target):
        if source is None:
            return target
        cdef Buffer own = Buffer(source, False)
        self.within(<size_t>target.raw.len, own)
        return own

    cdef int within(self, size_t bytes, Buffer buffer) except -1:
        if bytes > <size_t>buffer.raw.len:
            raise ValueError(f"collective over shared memory: {bytes} bytes asked of a buffer of {buffer.raw.len}")
        return 0

    cdef size_t sizes(self, sequence, size_t *array) except? 0:
        """Copies them; their sum."""
        cdef size_t total = 0
        cdef int i
        if len(sequence) != self.size:
            raise ValueError(f"collective over shared memory: {len(sequence)} sizes or offsets for {self.size} members")
        for i in range(self.size):
            array[i] = sequence[i]
            total += array[i]
        return total

    cdef int layout(self, sizes, offsets, size_t *size, size_t *offset, Buffer buffer) except -1:
        cdef int i
        self.sizes(sizes, size)
        self.sizes(offsets, offset)
        for i in range(self.size):
            if size[i] > <size_t>buffer.raw.len:
                self.within(size[i], buffer)
            if size[i] > 0:
                self.within(offset[i] + size[i], buffer)
        return 0


cdef size_t elements(Buffer buffer, int type) except? 0:
    cdef size_t size = fs_type_size(type)
    if size == 0 or <size_t>buffer.raw.len % size != 0:
        raise ValueError(f"collective over shared memory: {buffer.raw.len} bytes are no array of type {type}")
    return <size_t>buffer.raw.len // size
