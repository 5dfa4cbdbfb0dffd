# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""Blocking collective calls on objects among ranks that share memory.

Each message lies in a slot of a few hundred bytes, and the core moves slots as it moves any blocks of one size. A longer
message leaves only its length there, and goes by itself from the rank that has it to those that need it.
"""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.number cimport PyNumber_Index
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from fastsock.core.binding._team cimport Team
from fastsock.core.binding.team cimport FS_TEAM_MOST, fs_blocks

from functools import reduce as fold

from fastsock.core.binding._requests import STANDARD, MessageError
from fastsock.system.forkable import new_lock

from fastsock.mpj.messages._plain cimport PLAIN_MOST, is_plain, plain_message, plain_object

from .object_collectives import ObjectCalls
from .object_collectives import items as items_of
from .object_collectives import spread
from ..tags import TAGS
from ..handle import Handle

cdef enum:
    SLOT = 256              # bytes
    ROOM = SLOT - 8
    MOST_AT_ONE = 16        # ranks whose objects one of them reduces alone; among more all take part

cdef struct Slot:
    uint64_t length  # of the message, whether it is here or not
    char[ROOM] data


cdef object opened(object codec, Slot *slot):
    if is_plain(slot.data, slot.length):
        return plain_object(slot.data, slot.length)
    return codec.load(PyBytes_FromStringAndSize(slot.data, slot.length))


cdef object fill(object codec, object obj, Slot *slot):
    """Writes an object's message into a slot; returns the message where it does not fit there, else None."""
    cdef char[PLAIN_MOST] memory
    cdef Py_ssize_t length = 0
    cdef Py_buffer view
    if codec.beside is not None and codec.find()._standard:
        length = plain_message(obj, memory)
    if length == 0 or length > ROOM:
        data = codec.message(obj)
        length = len(data)
        slot.length = length
        if length > ROOM:
            return data
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        memcpy(slot.data, view.buf, length)
        PyBuffer_Release(&view)
        return None
    slot.length = length
    memcpy(slot.data, memory, length)
    return None


@cython.final
cdef class TeamObjectCalls:
    """The calls of one communicator. Those of several threads go on one at a time."""
    cdef Team team
    cdef object communicator, by_messages, engine, numbers, ranks, context, lock
    cdef int size, rank
    cdef size_t[FS_TEAM_MOST] sizes, offsets
    cdef fs_blocks blocks  # a slot for each member

    def __init__(self, communicator, members):
        cdef int i
        self.communicator, self.engine = communicator, communicator.engine
        self.by_messages = ObjectCalls(communicator)
        self.team, self.numbers = members.team, members.numbers
        self.size, self.rank, self.ranks, self.context = members.size, members.rank, members.ranks, members.context
        self.lock = new_lock()
        for i in range(self.size):
            self.sizes[i] = SLOT
            self.offsets[i] = <size_t>i * SLOT
        self.blocks.sizes, self.blocks.offsets = self.sizes, self.offsets

    cdef Slot *slots(self) except NULL:
        cdef Slot *made = <Slot *>malloc(<size_t>self.size * SLOT)
        if made == NULL:
            raise MemoryError()
        return made

    cdef object turn(self, name):
        """The lock of the calls of that name: one for all, as they share the team's memory."""
        found = self.communicator.locks.get(name)
        return self.communicator.locks.setdefault(name, self.lock) if found is None else found

    cdef int root(self, root) except -1:
        return self.communicator.root(root, self.size)

    cdef object send(self, data, int to, tag):
        """A message that has no room in a slot, on its way."""
        return self.engine.isend(data, self.ranks[to], tag, self.context, STANDARD)

    cdef list read(self, codec, Slot *slots, own, tag, list sent, int end):
        """The objects of the slots before `end`; `own` is the message of this rank where it has no room in its slot."""
        cdef int i
        cdef dict coming = {}
        for i in range(self.size):
            if slots[i].length > ROOM and i != self.rank:
                coming[i] = self.engine.irecv_new(self.ranks[i], tag, self.context)
        if coming or sent:
            self.engine.complete([*coming.values(), *sent])
        found = []
        for i in range(end):
            if slots[i].length <= ROOM:
                found.append(opened(codec, &slots[i]))
            else:
                found.append(codec.load(own if i == self.rank else coming[i].payload))
        return found

    cdef object gathered(self, codec, obj, int root):
        """All objects, in order, at the root."""
        cdef Slot own
        cdef Slot *all_
        big = fill(codec, obj, &own)
        tag = next(self.numbers) % TAGS
        if self.rank != root:
            sent = None if big is None else self.send(big, root, tag)
            self.team.c_gather(&own, SLOT, NULL, NULL, root)
            if sent is not None:
                self.engine.complete([sent])
            return None
        all_ = self.slots()
        try:
            self.team.c_gather(&own, 0, all_, &self.blocks, root)
            return self.read(codec, all_, big, tag, [], self.size)
        finally:
            free(all_)

    cdef list shared(self, codec, obj, int end):
        """The objects of the ranks before `end`, in order; all take part."""
        cdef Slot own
        cdef Slot *all_
        cdef int i
        big = fill(codec, obj, &own)
        tag = next(self.numbers) % TAGS
        sent = [] if big is None else [self.send(big, i, tag) for i in range(self.size) if i != self.rank]
        all_ = self.slots()
        try:
            self.team.c_allgather(&own, all_, &self.blocks)
            return self.read(codec, all_, big, tag, sent, end)
        finally:
            free(all_)

    cdef object spread(self, codec, obj, int root):
        """The root's object."""
        cdef Slot slot
        big = fill(codec, obj, &slot) if self.rank == root else None
        next(self.numbers)
        self.team.c_bcast(&slot, SLOT, root)
        if slot.length <= ROOM:
            return opened(codec, &slot)
        return codec.load(spread(self.communicator, big, root))

    def bcast(self, codec, obj, root):
        """Returns the root's object."""
        cdef int source = self.root(root)
        try:
            with self.turn("bcast"):
                return self.spread(codec, obj, source)
        except MessageError as error:
            raise self.communicator.failed(error) from error

    cdef object at_root(self, name, codec, obj, root):
        """All objects, in order, at the root: a call of that name."""
        cdef int target = self.root(root)
        try:
            with self.turn(name):
                return self.gathered(codec, obj, target)
        except MessageError as error:
            raise self.communicator.failed(error) from error

    cdef list everywhere(self, name, codec, obj, int end):
        """The objects of the ranks before `end`, in order: a call of that name."""
        try:
            with self.turn(name):
                return self.shared(codec, obj, end)
        except MessageError as error:
            raise self.communicator.failed(error) from error

    def gather(self, codec, obj, root):
        """Returns every rank's object, at the root."""
        return self.at_root("gather", codec, obj, root)

    def allgather(self, codec, obj):
        """Returns every rank's object."""
        return self.everywhere("allgather", codec, obj, self.size)

    def integers(self, *own):
        """The integers that the members gave, as many each, one after the other."""
        cdef Slot mine
        cdef Slot *all_
        cdef int64_t *values = <int64_t *>mine.data
        cdef int i, place, count = len(own)
        if count * <int>sizeof(int64_t) > ROOM:
            raise ValueError(f"{count} integers have no room in a slot")
        for place in range(count):
            values[place] = PyNumber_Index(own[place])
        all_ = self.slots()
        try:
            with self.turn("allgather"):
                next(self.numbers)
                self.team.c_allgather(&mine, all_, &self.blocks)
            return [(<int64_t *>all_[i].data)[place] for i in range(self.size) for place in range(count)]
        except MessageError as error:
            raise self.communicator.failed(error) from error
        finally:
            free(all_)

    def scatter(self, codec, objects, root):
        """Returns this rank's object of those that the root has for each."""
        cdef int source = self.root(root)
        try:
            with self.turn("scatter"):
                return self.parted(codec, objects, source)
        except MessageError as error:
            raise self.communicator.failed(error) from error

    cdef object parted(self, codec, objects, int root):
        cdef Slot own
        cdef Slot *all_
        cdef int i
        if self.rank != root:
            tag = next(self.numbers) % TAGS
            self.team.c_scatter(NULL, NULL, &own, SLOT, root)
            if own.length <= ROOM:
                return opened(codec, &own)
            return codec.load(self.engine.recv_new(self.ranks[root], tag, self.context)[0])
        items = items_of(objects, self.size)
        all_ = self.slots()
        try:
            big = [fill(codec, items[i], &all_[i]) for i in range(self.size)]
            tag = next(self.numbers) % TAGS
            sent = [self.send(big[i], i, tag) for i in range(self.size) if big[i] is not None and i != root]
            self.team.c_scatter(all_, &self.blocks, NULL, 0, root)
            if sent:
                self.engine.complete(sent)
            return opened(codec, &all_[root]) if big[root] is None else codec.load(big[root])
        finally:
            free(all_)

    def alltoall(self, codec, objects):
        """Returns what each rank had for this one."""
        try:
            with self.turn("alltoall"):
                return self.swapped(codec, objects)
        except MessageError as error:
            raise self.communicator.failed(error) from error

    cdef list swapped(self, codec, objects):
        cdef int i
        cdef Slot *out
        cdef Slot *into = NULL
        items = items_of(objects, self.size)
        out = self.slots()
        try:
            into = self.slots()
            big = [fill(codec, items[i], &out[i]) for i in range(self.size)]
            tag = next(self.numbers) % TAGS
            sent = [self.send(big[i], i, tag) for i in range(self.size) if big[i] is not None and i != self.rank]
            self.team.c_alltoall(out, &self.blocks, into, &self.blocks)
            return self.read(codec, into, big[self.rank], tag, sent, self.size)
        finally:
            free(out)
            free(into)

    def reduce(self, codec, obj, op, root):
        """Returns the reduction of all objects in the order of ranks, at the root."""
        if self.size > MOST_AT_ONE:
            return self.by_messages.reduce(codec, obj, op, root)
        found = self.at_root("reduce", codec, obj, root)
        return None if found is None else fold(op, found)

    def allreduce(self, codec, obj, op):
        """Returns the reduction of all objects in the order of ranks. A program's own function is called by one rank."""
        if self.size > MOST_AT_ONE:
            return self.by_messages.allreduce(codec, obj, op)
        if isinstance(op, Handle) and op.is_predefined:
            return fold(op, self.everywhere("allreduce", codec, obj, self.size))
        try:
            with self.turn("allreduce"):  # of two exchanges, which no other call may come between
                found = self.gathered(codec, obj, 0)
                return self.spread(codec, None if found is None else fold(op, found), 0)
        except MessageError as error:
            raise self.communicator.failed(error) from error

    def scan(self, codec, obj, op):
        """Returns the reduction of the objects of the ranks up to this one."""
        return fold(op, self.everywhere("scan", codec, obj, self.rank + 1))

    def exscan(self, codec, obj, op):
        """Returns the reduction of the objects of the ranks below this one; None at rank 0."""
        below = self.everywhere("exscan", codec, obj, self.rank)
        return fold(op, below) if below else None
