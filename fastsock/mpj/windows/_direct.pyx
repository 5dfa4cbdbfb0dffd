# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""Windows whose members reach each other's memory: the calls that programs make most, straight to it.

A method of NativeWindowCalls does a call where its arguments are simple. All other calls go the general way, by super(),
which also finds the words for errors.
"""
cimport cython
from libc.stdint cimport INT64_MAX, int64_t, uintptr_t
from libc.stdlib cimport calloc, free

from fastsock.core.binding._window cimport Window as Control
from fastsock.core.binding.window cimport fs_layout
from fastsock.mpj._slots cimport record_of
from fastsock.mpj.datatypes._memory cimport (
    LETTERS_MOST, Span, TypeRecord, buffer, read_span, release_span, type_named, whole_number,
)
from fastsock.mpj.windows._epochs cimport Epochs

from fastsock.core.binding._requests import MessageError
from fastsock.core.binding._window import MemoryGone
from fastsock.core.binding._team import type_size

from ..constants import LOCK_EXCLUSIVE, LOCK_SHARED
from ..datatypes._memory import LETTERS
from ..datatypes.buffers import of_format
from ..datatypes.native_kernels import kernel_of
from ..datatypes.op import SUM, Op

cdef extern from "copy.h" nogil:
    void fs_move(void *target, const void *source, size_t length)

cdef extern from "<stdatomic.h>" nogil:
    enum memory_order:
        memory_order_seq_cst
    void atomic_thread_fence(memory_order order)

cdef Py_ssize_t LONG_COPY = 32 * 1024  # from here the interpreter's lock is given up for a copy
cdef int ALONE = LOCK_EXCLUSIVE, TOGETHER = LOCK_SHARED


cdef void copy(void *target, const void *source, Py_ssize_t length) noexcept:
    if length < LONG_COPY:
        fs_move(target, source, length)  # a rank may copy within its own memory
        return
    with nogil:
        fs_move(target, source, length)


# ---- what the kernels call an operation on a type ----

@cython.final
@cython.freelist(8)
cdef class Kernel:
    """The kernels' numbers of a type and an operation on it, and how many bytes an element has."""
    cdef int type, operation
    cdef Py_ssize_t element


cdef list _kernels = [{} for _ in LETTERS]  # of plain items, by the operation's record; datatypes keep their own


cdef Kernel kernel(object op, Span *span, object datatype):
    """For the items of a message argument; None where the general way is to look."""
    cdef Kernel found
    if type(op) is not Op:
        return None
    record = record_of(op)
    if datatype is not True:
        return described(record.name, record_of(datatype))
    cdef dict known = <dict>_kernels[span.letter]
    found = known.get(record)
    if found is None:
        found = described(record.name, of_format(LETTERS[span.letter]).ob)
        if found is not None:  # so a program's own operation is not kept alive
            known[record] = found
    return found


cdef Kernel described(name, type_):
    cdef Kernel found
    numbers = kernel_of(name, type_) if name and type_.dense else None
    if numbers is None:
        return None
    found = Kernel()
    found.type, found.operation = numbers
    found.element = type_size(found.type)
    return None if type_.size % found.element else found


# ---- the memory ----

cdef class Direct:
    """Where the members' parts lie, here or in their own processes; of a dynamic window addresses are their own offsets.

    `control`: how members wait for each other. Ranks are those of the window.
    """
    cdef readonly Control control
    cdef readonly Epochs epochs
    cdef int rank, size
    cdef bint apart, dynamic
    cdef unsigned char **parts
    cdef int64_t *sizes
    cdef int64_t *units
    cdef unsigned char *alone  # of each target: whether the lock that is held is an exclusive one

    def __init__(self, Control control not None, Epochs epochs not None, addresses, sizes, units, bint dynamic):
        cdef int place
        self.control, self.epochs = control, epochs
        self.rank, self.size = control.index, control.size
        self.apart, self.dynamic = control.is_apart, dynamic
        self.parts = <unsigned char **>calloc(self.size, sizeof(void *))
        self.sizes = <int64_t *>calloc(self.size, sizeof(int64_t))
        self.units = <int64_t *>calloc(self.size, sizeof(int64_t))
        self.alone = <unsigned char *>calloc(self.size, 1)
        if self.parts == NULL or self.sizes == NULL or self.units == NULL or self.alone == NULL:
            raise MemoryError()
        for place in range(self.size):
            self.parts[place] = <unsigned char *><uintptr_t>addresses[place]
            self.sizes[place], self.units[place] = sizes[place], units[place]

    def __dealloc__(self):
        free(self.parts)
        free(self.sizes)
        free(self.units)
        free(self.alone)

    cdef inline bint reaches(self, int rank):
        """Whether an operation on that rank's memory may go the short way."""
        return (0 <= rank < self.size and not self.control.c_is_inherited()
                and self.epochs.may_access(rank))

    @cython.cdivision(True)
    cdef int64_t offset(self, int rank, int64_t displacement, int64_t length) except? -2:
        """Where that lies in the rank's part; -1 where it does not."""
        cdef int64_t size = self.sizes[rank]
        if self.dynamic:
            if displacement < 0 or displacement > INT64_MAX - length:
                return -1
            return displacement if self.control.c_is_attached(rank, displacement, displacement + length) else -1
        if displacement < 0 or displacement > size // self.units[rank]:
            return -1
        displacement *= self.units[rank]
        return displacement if length <= size - displacement else -1

    cdef int64_t place(self, int rank, object target, Span *span):
        """Where at the target data as long as the span's lie together; -1 where the general way is to look at it."""
        cdef Py_ssize_t count, many
        cdef TypeRecord type_
        cdef object named
        if span.type != NULL:
            return -1
        if target is None:
            return self.offset(rank, 0, span.view.len)
        if not isinstance(target, (list, tuple)):
            return self.offset(rank, whole_number(target), span.view.len)
        many = len(target)
        if not 1 <= many <= 3:
            return -1
        if many > 1:
            count = whole_number(target[1])
            if count < 0 or many == 2 and count * span.view.itemsize != span.view.len:
                return -1
            if many == 3:
                named = type_named(target[2])
                if named is None:
                    return -1
                type_ = <TypeRecord>record_of(named)
                if not type_.dense or type_.size <= 0 or span.view.len // type_.size != count or span.view.len % type_.size:
                    return -1
        return self.offset(rank, whole_number(target[0]), span.view.len)

    # ---- the general way ----

    def lock(self, int rank, bint alone):
        """Takes a rank's lock."""
        self.control.c_lock(rank, alone)
        self.alone[rank] = alone

    def unlock(self, int rank):
        """Gives it back."""
        self.control.c_unlock(rank, self.alone[rank])

    def order(self):
        """What was written before is there for all; what others wrote before can be seen."""
        atomic_thread_fence(memory_order_seq_cst)

    def accumulate(self, int rank, int64_t offset, TypeRecord type_ not None, Py_ssize_t length, numbers, data, result):
        """Combines packed data into `length` bytes of data of items, which the caller has found to lie in the rank's part.

        `numbers`: the type and the operation, as the kernels know them. `result`: for what was there before, or None.
        """
        cdef buffer source = buffer.frombuffer(data, True)
        cdef buffer before = None if result is None else buffer.frombuffer(result)
        cdef int element, operation
        element, operation = numbers
        self.control.c_accumulate_items(
            rank, self.parts[rank] + offset, <const fs_layout *><const void *>&type_.layout, type_.extent,
            source.view.buf, NULL if before is None else before.view.buf, length, element, operation)

    def read_items(self, int rank, int64_t offset, TypeRecord type_ not None, data):
        """Packs items of a rank's part."""
        cdef buffer room = buffer.frombuffer(data)
        self.control.c_read_items(rank, self.parts[rank] + offset, <const fs_layout *><const void *>&type_.layout, type_.extent,
                                  room.view.buf, room.view.len)

    def write_items(self, int rank, int64_t offset, TypeRecord type_ not None, data):
        """Writes packed data over items of a rank's part."""
        cdef buffer source = buffer.frombuffer(data, True)
        self.control.c_write_items(rank, self.parts[rank] + offset, <const fs_layout *><const void *>&type_.layout,
                                   type_.extent, source.view.buf, source.view.len)

    def swap(self, int rank, int64_t offset, compared, data):
        """Writes data where those equal to `compared` lie; returns what was there."""
        cdef buffer source = buffer.frombuffer(data, True), compare = buffer.frombuffer(compared, True)
        cdef buffer before = buffer.allocate(source.view.len)
        self.control.c_compare_and_swap(rank, offset, self.parts[rank] + offset, source.view.buf, compare.view.buf,
                                        before.view.buf, source.view.len)
        return before


cdef inline Direct direct_of(self):
    """None of a window of another kind."""
    cdef Direct native = self.ob.native
    return native


cdef bint transfer(Direct native, object origin, int rank, object target, bint into_origin) except -1:
    """Put, or Get; whether it did so."""
    cdef Span span
    cdef int64_t offset
    if read_span(origin, &span, into_origin, 0) is None:
        return False
    try:
        offset = native.place(rank, target, &span)
        if offset < 0:
            return False
        if native.apart:
            if into_origin:
                native.control.c_read(rank, native.parts[rank] + offset, span.view.buf, span.view.len)
            else:
                native.control.c_write(rank, native.parts[rank] + offset, span.view.buf, span.view.len)
        elif into_origin:
            copy(span.view.buf, native.parts[rank] + offset, span.view.len)
        else:
            copy(native.parts[rank] + offset, span.view.buf, span.view.len)
        return True
    except (MemoryGone, MessageError):  # the general way has the words
        return False
    finally:
        release_span(&span)


cdef bint combine(self, Direct native, object origin, object result, int rank, object target, object op,
                  bint single) except -1:
    """Accumulate and Get_accumulate, of one item at a displacement or of many; whether it did so."""
    cdef Span span, room
    cdef int64_t offset
    cdef Kernel numbers, others
    span.held = room.held = False
    try:
        datatype = read_span(origin, &span, False, 0)
        if datatype is None or span.type != NULL:
            return False
        numbers = kernel(op, &span, datatype)
        if numbers is None:
            return False
        if not single:
            offset = native.place(rank, target, &span)
        elif span.view.len == span.view.itemsize:
            offset = native.offset(rank, whole_number(target), span.view.len)
        else:
            return False
        if offset < 0:
            return False
        if result is not None:
            other = read_span(result, &room, True, 0)
            if other is None or room.type != NULL or room.view.len != span.view.len or room.view.itemsize != span.view.itemsize:
                return False
            if not (other is True and datatype is True and room.letter == span.letter):
                others = kernel(op, &room, other)
                if others is None or others.type != numbers.type:
                    return False
        native.control.c_accumulate(rank, offset, native.parts[rank] + offset, span.view.buf,
                                    room.view.buf if result is not None else NULL, span.view.len // numbers.element,
                                    numbers.type, numbers.operation)
        return True
    except MessageError as error:
        raise self.ob.failed(error) from error
    except MemoryGone as error:
        raise self.ob.gone() from error
    finally:
        release_span(&span)
        release_span(&room)


class NativeWindowCalls:
    """One-sided calls with simple arguments on memory that is within reach."""

    __slots__ = ()

    def Put(self, origin, int target_rank, target=None):
        """Write memory to a member's. It is there when the epoch ends, or after `Flush`.

        `target`: a displacement, or [displacement, count, datatype]; what is left out is as at the origin. Raises
        MPI.Exception (ERR_TRUNCATE) for more data than the target's items have.
        """
        cdef Direct native = direct_of(self)
        if native is None or not native.reaches(target_rank) or not transfer(native, origin, target_rank, target, False):
            super().Put(origin, target_rank, target)

    def Get(self, origin, int target_rank, target=None):
        """Read a member's memory into `origin`. It is there when the epoch ends, or after `Flush`. Raises as `Put`."""
        cdef Direct native = direct_of(self)
        if native is None or not native.reaches(target_rank) or not transfer(native, origin, target_rank, target, True):
            super().Get(origin, target_rank, target)

    def Accumulate(self, origin, int target_rank, target=None, op=SUM):
        """Combine memory into a member's, element by element, each atomically.

        Raises as `Put`, and MPI.Exception (ERR_OP) for an operation that is the program's own, or not defined on the
        elements.
        """
        cdef Direct native = direct_of(self)
        if native is None or not native.reaches(target_rank) or not combine(
                self, native, origin, None, target_rank, target, op, False):
            super().Accumulate(origin, target_rank, target, op)

    def Get_accumulate(self, origin, result, int target_rank, target=None, op=SUM):
        """Do what `Accumulate` does, and bring to `result` what was there before."""
        cdef Direct native = direct_of(self)
        if native is None or not native.reaches(target_rank) or not combine(
                self, native, origin, result, target_rank, target, op, False):
            super().Get_accumulate(origin, result, target_rank, target, op)

    def Fetch_and_op(self, origin, result, int target_rank, target_disp=0, op=SUM):
        """Do what `Get_accumulate` does, for one item. Raises ValueError for more, or for items of two types."""
        cdef Direct native = direct_of(self)
        if native is None or not native.reaches(target_rank) or not combine(
                self, native, origin, result, target_rank, target_disp, op, True):
            super().Fetch_and_op(origin, result, target_rank, target_disp, op)

    def Compare_and_swap(self, origin, compare, result, int target_rank, target_disp=0):
        """Write one item to a member's memory where that is equal to `compare`; bring to `result` what was there.

        Raises ValueError for several items, or for items of two types, and MPI.Exception (ERR_TYPE) for what is neither
        integer nor logical.
        """
        cdef Direct native = direct_of(self)
        cdef Span spans[3]
        if native is None or not native.reaches(target_rank) or not swap(
                self, native, spans, origin, compare, result, target_rank, target_disp):
            super().Compare_and_swap(origin, compare, result, target_rank, target_disp)

    def Lock(self, int rank, int lock_type=LOCK_EXCLUSIVE, int assertion=0):
        """Begin operations on a member's memory: alone, or with LOCK_SHARED together with others that say so.

        Raises MPI.Exception: ERR_LOCKTYPE for another type, ERR_PROC_FAILED where a rank died that had the lock alone.
        """
        cdef Direct native = direct_of(self)
        if (native is None or assertion != 0 or not 0 <= rank < native.size
                or lock_type != ALONE and lock_type != TOGETHER or not native.epochs.begin_lock(rank)):
            return super().Lock(rank, lock_type, assertion)
        try:
            native.control.c_lock(rank, lock_type == ALONE)
        except MessageError as error:
            del native.epochs.locked[rank]
            raise self.ob.failed(error) from error
        except:
            del native.epochs.locked[rank]
            raise
        native.alone[rank] = lock_type == ALONE

    def Unlock(self, int rank):
        """End the operations on a member's memory: they are complete."""
        cdef Direct native = direct_of(self)
        if native is None or native.epochs.locked.get(rank) is not True:
            return super().Unlock(rank)
        del native.epochs.locked[rank]
        try:
            native.control.c_unlock(rank, native.alone[rank])
        except MessageError as error:
            raise self.ob.failed(error) from error

    def Flush(self, int rank):
        """Wait until the operations to a member are complete, there too. Raises the first error of theirs."""
        cdef Direct native = direct_of(self)
        if (native is None or not 0 <= rank < native.size or native.control.c_is_inherited()
                or not native.epochs.may_flush(rank)):
            return super().Flush(rank)
        atomic_thread_fence(memory_order_seq_cst)

    def Fence(self, int assertion=0):
        """End the operations of all members, and begin the next. All call it, and it returns when all have."""
        cdef Direct native = direct_of(self)
        if native is None or assertion != 0:
            return super().Fence(assertion)
        native.epochs.fence(0)
        try:
            native.control.c_fence()
        except MessageError as error:
            raise self.ob.failed(error) from error


cdef bint swap(self, Direct native, Span *spans, object origin, object compare, object result, int rank,
               object target) except -1:
    """Compare_and_swap of one plain integer; whether it did so."""
    cdef int64_t offset
    cdef int place
    for place in range(3):
        spans[place].held = False
    try:
        datatype = read_span(origin, &spans[0], False, 0)
        if datatype is not True or not is_comparable[spans[0].letter] or spans[0].view.len != spans[0].view.itemsize:
            return False
        if read_span(compare, &spans[1], False, 0) is not True or read_span(result, &spans[2], True, 0) is not True:
            return False
        for place in range(1, 3):
            if spans[place].letter != spans[0].letter or spans[place].view.len != spans[0].view.len:
                return False
        offset = native.offset(rank, whole_number(target), spans[0].view.len)
        if offset < 0:
            return False
        native.control.c_compare_and_swap(rank, offset, native.parts[rank] + offset, spans[0].view.buf,
                                          spans[1].view.buf, spans[2].view.buf, spans[0].view.len)
        return True
    except MessageError as error:
        raise self.ob.failed(error) from error
    except MemoryGone as error:
        raise self.ob.gone() from error
    finally:
        for place in range(3):
            release_span(&spans[place])


cdef bint[LETTERS_MOST] is_comparable
for _place, _letter in enumerate(LETTERS):
    is_comparable[_place] = _letter != "" and _letter in "BbHhIiLlQq"
