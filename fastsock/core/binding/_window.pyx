# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
# cython: binding=False, embedsignature=True, embedsignature.format=clinic
"""Windows in memory that their members share: how members wait for each other, and how they combine."""
cimport cython
from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_FillInfo
from libc.errno cimport EFAULT, EINVAL, ENOENT, ENOSPC, ESTALE
from libc.stdint cimport int64_t, uint64_t

from ._core cimport checked
from ._engine cimport Engine
from ._team cimport Team, Waiter, enter_interpreter, leave_interpreter, look_for_signals, progress_engine, propagate
from .engine cimport FS_CLOSED, FS_CONTEXT_REVOKED, FS_PEER_FAILED
from .team cimport fs_team_hooks
from .window cimport (
    FS_WINDOW_MOST, fs_layout, fs_window, fs_window_accumulate, fs_window_accumulate_items, fs_window_await_origins,
    fs_window_call, fs_window_close, fs_window_compare_and_swap, fs_window_complete, fs_window_create_memory,
    fs_window_attach, fs_window_data, fs_window_detach, fs_window_fence, fs_window_hold, fs_window_is_attached,
    fs_window_is_inherited, fs_window_lock, fs_window_meet_doors, fs_window_open, fs_window_open_door, fs_window_post,
    fs_window_read, fs_window_read_items, fs_window_release, fs_window_shut_door, fs_window_start, fs_window_table_bytes,
    fs_window_unlock, fs_window_write, fs_window_write_items,
)

import posix as _os

from ._requests import MessageError

cdef extern from *:
    """
    #include <errno.h>
    """
    enum: ECANCELED, EOWNERDEAD

cdef extern from "Python.h":
    void *PyErr_Occurred()


def create_window_memory(int size, uint64_t nbytes, bint crowded):
    """The descriptor of the memory for a window of so many members, whose data are so many bytes in all."""
    return checked(fs_window_create_memory(size, nbytes, crowded))


def window_table_bytes(int size):
    """How many bytes of data a window of so many members has that attach memory to it."""
    return fs_window_table_bytes(size)


class MemoryGone(Exception):
    """Memory of a member is not there, or may not be written."""


cdef struct Call:
    Waiter waiter
    fs_window_call call


cdef void prepare(Window self, Call *call) noexcept:
    """What a call does beside a wait. Several threads may be in calls of one window: this is the thread's own."""
    call.waiter.looked_at = 0
    call.waiter.asks = False
    call.waiter.heeds, call.waiter.context = self.team.waiter.heeds, self.team.waiter.context
    call.call.left, call.call.culprit = 0, -1
    call.call.hooks = fs_team_hooks(&call.waiter, leave_interpreter, enter_interpreter, NULL, look_for_signals)
    if self.engine is not None:
        call.waiter.owner = <void *>self.engine
        call.waiter.engine = self.engine.engine
        call.call.hooks.progress = progress_engine


cdef class Window:
    """The part of one rank in a window, whose members share one memory.

    Made by fastsock.mpj.windows. `team`: of the same ranks; its descriptors tell who died. Any thread may call. The memory
    stays mapped as long as this object lives: whoever has an address of it keeps this object. Raises MessageError: PEER_FAILED
    names the member that died and was waited for, CLOSED where the process was forked from the member; ValueError; what a
    signal handler raised.
    """

    def __init__(self, Engine engine, int memory, Team team not None, uint64_t nbytes, bint threads):
        cdef int[FS_WINDOW_MOST] watches
        cdef int error = 0, i
        self.engine, self.team, self.ranks = engine, team, team.ranks
        self.index, self.size, self.nbytes = team.index, team.size, nbytes
        for i in range(self.size):
            watches[i] = team.watches[i]
        self.window = fs_window_open(memory, self.index, self.size, nbytes, watches, threads, &error)
        if self.window == NULL:
            raise OSError(-error, f"window: {_os.strerror(-error)}")
        self.data = fs_window_data(self.window)

    def __dealloc__(self):
        if self.window != NULL:
            fs_window_shut_door(self.window)
            fs_window_close(self.window)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.data, <Py_ssize_t>self.nbytes, False, flags)

    cdef int refuse(self, int result, int culprit) except -1:
        if PyErr_Occurred() != NULL:
            return propagate()
        if result == -EINVAL:
            raise ValueError("window: no such rank, or an operation that is not defined for the type")
        if result == -ESTALE:
            raise MessageError(FS_CLOSED, -1, "window: inherited over a fork; only the rank itself, which this process was"
                               " forked from, takes part")
        if result == -EFAULT:
            raise MemoryGone("window: that memory is not there")
        if result == -EOWNERDEAD and culprit >= 0:
            rank = self.ranks[culprit]
            raise MessageError(FS_PEER_FAILED, rank, f"window: rank {rank} died, and this rank waits for it")
        if result == -ECANCELED:
            raise MessageError(FS_CONTEXT_REVOKED, -1, "a member of the window has called Revoke on its communicator")
        raise OSError(-result, f"window: {_os.strerror(-result)}")

    # ---- plain memory: for other compiled modules ----

    cdef bint c_is_inherited(self) noexcept:
        return fs_window_is_inherited(self.window)

    cdef int c_lock(self, int target, bint alone) except -1:
        cdef Call call
        prepare(self, &call)
        cdef int result = fs_window_lock(self.window, &call.call, target, alone)
        return 0 if result == 0 else self.refuse(result, call.call.culprit)

    cdef int c_unlock(self, int target, bint alone) except -1:
        cdef int result = fs_window_unlock(self.window, target, alone)
        return 0 if result == 0 else self.refuse(result, -1)

    cdef int c_fence(self) except -1:
        cdef Call call
        prepare(self, &call)
        cdef int result = fs_window_fence(self.window, &call.call)
        return 0 if result == 0 else self.refuse(result, call.call.culprit)

    cdef int c_read(self, int target, const void *memory, void *into, size_t length) except -1:
        cdef Call call
        prepare(self, &call)
        cdef int result = fs_window_read(self.window, &call.call, target, memory, into, length)
        return 0 if result == 0 else self.refuse(result, call.call.culprit)

    cdef int c_write(self, int target, void *memory, const void *source, size_t length) except -1:
        cdef Call call
        prepare(self, &call)
        cdef int result = fs_window_write(self.window, &call.call, target, memory, source, length)
        return 0 if result == 0 else self.refuse(result, call.call.culprit)

    cdef bint c_is_attached(self, int target, uint64_t low, uint64_t high) except -1:
        cdef Call call
        prepare(self, &call)
        cdef int result = fs_window_is_attached(self.window, &call.call, target, low, high)
        if result < 0:
            self.refuse(result, call.call.culprit)
        return result

    cdef int c_accumulate(self, int target, uint64_t offset, unsigned char *memory, const void *source, void *result,
                          size_t count, int type, int operation) except -1:
        cdef Call call
        prepare(self, &call)
        cdef int code = fs_window_accumulate(self.window, &call.call, target, offset, memory, <const unsigned char *>source,
                                             <unsigned char *>result, count, type, operation)
        return 0 if code == 0 else self.refuse(code, call.call.culprit)

    cdef int c_accumulate_items(self, int target, unsigned char *memory, const fs_layout *layout, int64_t extent,
                                const void *source, void *result, size_t length, int type, int operation) except -1:
        cdef Call call
        prepare(self, &call)
        cdef int code = fs_window_accumulate_items(self.window, &call.call, target, memory, layout, extent,
                                                   <const unsigned char *>source, <unsigned char *>result, length, type,
                                                   operation)
        return 0 if code == 0 else self.refuse(code, call.call.culprit)

    cdef int c_compare_and_swap(self, int target, uint64_t offset, unsigned char *memory, const void *source,
                                const void *compare, void *result, size_t length) except -1:
        cdef Call call
        prepare(self, &call)
        cdef int code = fs_window_compare_and_swap(self.window, &call.call, target, offset, memory, source, compare,
                                                   result, length)
        return 0 if code == 0 else self.refuse(code, call.call.culprit)

    cdef int c_read_items(self, int target, unsigned char *memory, const fs_layout *layout, int64_t extent,
                          void *packed, size_t length) except -1:
        cdef Call call
        prepare(self, &call)
        cdef int result = fs_window_read_items(self.window, &call.call, target, memory, layout, extent,
                                               <unsigned char *>packed, 0, length)
        return 0 if result == 0 else self.refuse(result, call.call.culprit)

    cdef int c_write_items(self, int target, unsigned char *memory, const fs_layout *layout, int64_t extent,
                           const void *packed, size_t length) except -1:
        cdef Call call
        prepare(self, &call)
        cdef int result = fs_window_write_items(self.window, &call.call, target, memory, layout, extent,
                                                <const unsigned char *>packed, 0, length)
        return 0 if result == 0 else self.refuse(result, call.call.culprit)

    # ---- for Python ----

    def open_door(self):
        """Opens the memory of this process to the others. All members call it, and go over a fence."""
        self.is_apart = True
        cdef int result = fs_window_open_door(self.window)
        if result != 0:
            self.refuse(result, -1)

    def meet_doors(self):
        """Whether this process may read and write the memory of all others."""
        return bool(fs_window_meet_doors(self.window))

    def shut_door(self):
        """Ends that: nobody writes here any more."""
        with nogil:
            fs_window_shut_door(self.window)

    def attach(self, uint64_t address, uint64_t length):
        """Opens memory that overlaps nothing that is open. Whether there was room to say so."""
        cdef int result = fs_window_attach(self.window, address, length)
        if result != 0 and result != -ENOSPC:
            self.refuse(result, -1)
        return result == 0

    def detach(self, uint64_t address):
        """Closes memory. Whether it was open."""
        cdef int result = fs_window_detach(self.window, address)
        if result != 0 and result != -ENOENT:
            self.refuse(result, -1)
        return result == 0

    def is_attached(self, int target, uint64_t low, uint64_t high):
        """Whether a member has opened the memory between two addresses, as a whole."""
        return self.c_is_attached(target, low, high)

    def hold(self, int target):
        """Until release() nobody else combines anything with a member's part."""
        cdef Call call
        prepare(self, &call)
        cdef int result = fs_window_hold(self.window, &call.call, target)
        if result != 0:
            self.refuse(result, call.call.culprit)

    def release(self, int target):
        """Ends what hold() began."""
        cdef int result = fs_window_release(self.window, target)
        if result != 0:
            self.refuse(result, -1)

    def fence(self):
        """Returns when every member has called it as often."""
        self.c_fence()

    def post(self, members):
        """Tells these members that they may begin."""
        cdef int[FS_WINDOW_MOST] many
        cdef int count = self.numbers(members, many)
        cdef int result = fs_window_post(self.window, many, count)
        if result != 0:
            self.refuse(result, -1)

    def start(self, members):
        """Waits until each of these members has told this one that it may begin."""
        cdef Call call
        cdef int[FS_WINDOW_MOST] many
        cdef int count = self.numbers(members, many)
        prepare(self, &call)
        cdef int result = fs_window_start(self.window, &call.call, many, count)
        if result != 0:
            self.refuse(result, call.call.culprit)

    def complete(self, members):
        """Tells these members that it has ended what it had started."""
        cdef int[FS_WINDOW_MOST] many
        cdef int count = self.numbers(members, many)
        cdef int result = fs_window_complete(self.window, many, count)
        if result != 0:
            self.refuse(result, -1)

    def await_origins(self, members, bint waits):
        """Whether all these members have ended what this one's post let them begin; `waits`: until they have."""
        cdef Call call
        cdef int[FS_WINDOW_MOST] many
        cdef int count = self.numbers(members, many)
        prepare(self, &call)
        cdef int result = fs_window_await_origins(self.window, &call.call, many, count, waits)
        if result < 0:
            self.refuse(result, call.call.culprit)
        return result > 0

    cdef int numbers(self, members, int *into) except -1:
        cdef int count = 0
        for member in members:
            if count == self.size:
                raise ValueError(f"window: more members than the {self.size} that there are")
            into[count] = member
            count += 1
        return count
