# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
# cython: binding=False, embedsignature=True, embedsignature.format=clinic
"""Schedules: what a rank does in a collective that goes on by itself."""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.mem cimport PyMem_Free, PyMem_Malloc

from .engine cimport (
    FS_CHANNELS, FS_STEP_COMBINE, FS_STEP_COPY, FS_STEP_RECEIVE, FS_STEP_SEND, FS_STEP_WAIT, fs_collective_bind,
    fs_collective_free, fs_collective_new, fs_combine,
)
from .team cimport fs_kernel_of, fs_type_size

STEP_SEND, STEP_RECEIVE, STEP_WAIT = FS_STEP_SEND, FS_STEP_RECEIVE, FS_STEP_WAIT
STEP_COPY, STEP_COMBINE = FS_STEP_COPY, FS_STEP_COMBINE


@cython.final
cdef class Schedule:
    """What one rank does in a collective, step by step; the engine follows it without Python.

    steps: (kind, channel, peer, request, first, count). STEP_SEND, STEP_RECEIVE: a message of `count` parts from `first`
    on; STEP_WAIT: for `count` requests, `awaited` from `first` on; STEP_COPY, STEP_COMBINE: two parts from `first` on,
    from one to the other. parts: (buffer, offset, length in bytes). requests: how many messages, numbered from 0.
    lengths: bytes of each buffer; the first is scratch memory. contexts: one for each channel. kernel: type and operation
    of what combines, or None.

    Raises ValueError where these do not fit each other.
    """

    def __init__(self, list steps, list parts, list awaited, size_t requests, list lengths, list contexts, kernel=None):
        cdef Py_ssize_t i
        if not 0 < len(contexts) <= FS_CHANNELS:
            raise ValueError(f"{len(contexts)} channels: there may be 1 to {FS_CHANNELS}")
        if self.steps != NULL:
            raise ValueError("a schedule never changes")
        self.steps = <fs_step *>PyMem_Malloc((len(steps) + 1) * sizeof(fs_step))
        self.parts = <fs_part *>PyMem_Malloc((len(parts) + 1) * sizeof(fs_part))
        self.awaited = <uint32_t *>PyMem_Malloc((len(awaited) + 1) * sizeof(uint32_t))
        self.lengths = <Py_ssize_t *>PyMem_Malloc((len(lengths) + 1) * sizeof(Py_ssize_t))
        if self.steps == NULL or self.parts == NULL or self.awaited == NULL or self.lengths == NULL:
            raise MemoryError()
        for i in range(len(lengths)):
            self.lengths[i] = lengths[i]
        self.scratch = self.lengths[0] if lengths else 0
        for i in range(len(contexts)):
            self.schedule.contexts[i] = contexts[i]
        self.schedule.channel_count = len(contexts)
        self.schedule.buffer_count = len(lengths)
        if kernel is not None:
            self.schedule.element = fs_type_size(kernel[0])
            self.schedule.combine = <fs_combine *>fs_kernel_of(kernel[1], kernel[0])
        self.take_steps(steps, parts, awaited, requests)

    cdef int take_steps(self, list steps, list parts, list awaited, size_t requests) except -1:
        cdef Py_ssize_t i
        cdef fs_part *part
        cdef fs_step *step
        cdef set targets = set()
        for i, (buffer, offset, length) in enumerate(parts):
            if not (0 <= buffer < <Py_ssize_t>self.schedule.buffer_count and offset >= 0 and length >= 0
                    and offset + length <= self.lengths[buffer]):
                raise ValueError(f"part {i} is beyond its buffer")
            part = &self.parts[i]
            part.buffer, part.offset, part.length = buffer, offset, length
        for i, number in enumerate(awaited):
            if not 0 <= number < requests:
                raise ValueError(f"there is no request {number}")
            self.awaited[i] = number
        for i, (kind, channel, peer, request, first, count) in enumerate(steps):
            if not FS_STEP_SEND <= kind <= FS_STEP_COMBINE or not 0 <= channel < self.schedule.channel_count:
                raise ValueError(f"step {i} is unknown")
            if first < 0 or count < 0 or first + count > len(awaited if kind == FS_STEP_WAIT else parts):
                raise ValueError(f"step {i} has what is not there")
            if kind <= FS_STEP_RECEIVE and not 0 <= request < requests:
                raise ValueError(f"step {i} has no request")
            step = &self.steps[i]
            step.kind, step.channel, step.peer, step.request = kind, channel, peer, request
            step.first, step.count = first, count
            if kind >= FS_STEP_COPY:
                if count != 2 or self.parts[step.first].length != self.parts[step.first + 1].length:
                    raise ValueError(f"step {i} is not from one part to another of its length")
                if kind == FS_STEP_COMBINE and (self.schedule.combine == NULL
                                        or self.parts[step.first].length % self.schedule.element):
                    raise ValueError(f"step {i} combines what the kernel does not")
            if kind != FS_STEP_WAIT:
                self.total += sum([self.parts[place].length for place in range(step.first, step.first + step.count)])
            if kind == FS_STEP_SEND:
                targets.add(peer)
        self.schedule.steps, self.schedule.parts, self.schedule.awaited = self.steps, self.parts, self.awaited
        self.schedule.step_count, self.schedule.part_count = len(steps), len(parts)
        self.schedule.request_count = requests
        self.targets = tuple(targets)
        return 0

    def bind(self, buffers):
        """Puts it on memory: contiguous buffers of the lengths that it was made for. They are held with the result.

        Raises ValueError for buffers of other lengths.
        """
        cdef BoundSchedule bound = new_bound(self)
        cdef void **starts
        cdef Py_ssize_t i, count = len(buffers)
        if count != <Py_ssize_t>self.schedule.buffer_count:
            raise ValueError(f"{count} buffers for a schedule of {self.schedule.buffer_count}")
        starts = <void **>PyMem_Malloc((count + 1) * sizeof(void *))
        bound.views = <Py_buffer *>PyMem_Malloc((count + 1) * sizeof(Py_buffer))
        try:
            if starts == NULL or bound.views == NULL:
                raise MemoryError()
            for i in range(count):
                PyObject_GetBuffer(buffers[i], &bound.views[i], PyBUF_SIMPLE)
                bound.view_count = i + 1
                if bound.views[i].len != self.lengths[i]:
                    raise ValueError(f"buffer {i} has {bound.views[i].len} bytes, not {self.lengths[i]}")
                starts[i] = bound.views[i].buf
            bound.bind(starts, None)
        finally:
            PyMem_Free(starts)
        return bound

    def __dealloc__(self):
        PyMem_Free(self.steps)
        PyMem_Free(self.parts)
        PyMem_Free(self.awaited)
        PyMem_Free(self.lengths)


@cython.final
cdef class BoundSchedule:
    """A schedule on memory of a program's: Engine.start() follows it."""

    cdef int bind(self, void **buffers, object memory) except -1:
        """`memory` keeps the buffers."""
        fs_collective_bind(self.collective, buffers)
        self.memory = memory
        return 0

    @cython.critical_section
    cdef bint claim(self) except -1:
        if self.claimed:
            return False
        self.claimed = True
        return True

    @cython.critical_section
    cdef int give_back(self) except -1:
        self.claimed = False
        return 0

    def __dealloc__(self):
        cdef int i
        fs_collective_free(self.collective)
        for i in range(self.view_count):
            PyBuffer_Release(&self.views[i])
        PyMem_Free(self.views)


cdef BoundSchedule new_bound(Schedule schedule):
    cdef BoundSchedule bound = BoundSchedule.__new__(BoundSchedule)
    bound.schedule = schedule
    bound.collective = fs_collective_new(&schedule.schedule)
    if bound.collective == NULL:
        raise MemoryError()
    return bound
