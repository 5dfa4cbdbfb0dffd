# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
# cython: binding=False, embedsignature=True, embedsignature.format=clinic
"""A buffer on its way to another process and back: the book of loans, what is said of them, what both note.

What is rare is written in fastsock/registered, in subclasses: new links, new memories, processes that have ended.
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t

from ._exports cimport Exporter, Memory
from .registered cimport (
    FS_LEDGER_SLOTS, FS_LOAN_FREE, FS_LOAN_RETURNED, FS_LOAN_SPENT, FS_MEMO_BYTES, FS_MEMO_FORGET, FS_MEMO_HELLO,
    FS_MEMO_MEMORY, FS_PARCEL_BYTES, FS_PARCEL_COPY, FS_PARCEL_HAND, FS_PARCEL_LEND, fs_ledger, fs_ledger_bytes,
    fs_ledger_cancel, fs_ledger_decline, fs_ledger_news, fs_ledger_return, fs_ledger_send, fs_ledger_state,
    fs_ledger_take, fs_ledger_wait, fs_memo, fs_memo_put, fs_memo_take, fs_parcel, fs_parcel_put, fs_parcel_take,
    fs_region_is_within,
)
from .system cimport fs_generation

from collections import deque

cdef enum:
    HOME = 0
    AWAY = 1
    LOST = 2
    CONNECTION_BITS = 28  # of an importer's word: the low bits tell its connections apart

PARCEL_BYTES = FS_PARCEL_BYTES
MEMO_BYTES = FS_MEMO_BYTES
LEDGER_SLOTS = FS_LEDGER_SLOTS
LEDGER_BYTES = fs_ledger_bytes()
LOAN_RETURNED = FS_LOAN_RETURNED
PARCEL_COPY, PARCEL_HAND, PARCEL_LEND = FS_PARCEL_COPY, FS_PARCEL_HAND, FS_PARCEL_LEND
MEMO_HELLO, MEMO_MEMORY, MEMO_FORGET = FS_MEMO_HELLO, FS_MEMO_MEMORY, FS_MEMO_FORGET
LOAN_AWAY = AWAY
IMPORTER_CONNECTION_BITS = CONNECTION_BITS


# ---- the book, and the words for it ----

@cython.final
cdef class Ledger:
    """The book of the loans between two processes. A loan has a slot, and a serial that tells it from others there."""
    cdef Memory memory

    def __init__(self, Memory memory not None):
        if memory.nbytes != <Py_ssize_t>fs_ledger_bytes():
            raise ValueError("no ledger has such a size")
        self.memory = memory

    cdef fs_ledger *at(self, uint32_t slot) except NULL:
        if slot >= FS_LEDGER_SLOTS:
            raise ValueError("no loan has such a slot")
        return <fs_ledger *>self.memory.start

    def send(self, uint32_t slot, uint64_t serial, uint32_t connection):
        """The owner lends."""
        fs_ledger_send(self.at(slot), slot, serial, connection)

    def state(self, uint32_t slot, uint64_t serial):
        """A state: LOAN_RETURNED or another; -1 where the other process wrote what this loan cannot have."""
        return fs_ledger_state(self.at(slot), slot, serial)

    def news(self):
        """Changes with each return."""
        return fs_ledger_news(self.at(0))

    def wait(self, uint32_t seen, double seconds):
        """Until news() is not `seen`, or the seconds are over. Signals are heard."""
        cdef fs_ledger *ledger = self.at(0)
        cdef uint64_t limit = <uint64_t>(seconds * 1e9)
        with nogil:
            fs_ledger_wait(ledger, seen, limit)
        PyErr_CheckSignals()

    def decline(self, uint32_t connection):
        """Gives back what came over that connection and was not taken; how many."""
        return fs_ledger_decline(self.at(0), connection)


def pack_parcel(uint32_t kind, uint64_t length, uint64_t offset=0, uint64_t importer=0, uint64_t link=0,
                uint32_t number=0,uint32_t slot=0, uint64_t serial=0):
    """The bytes that say in the stream that a buffer comes."""
    cdef unsigned char bytes_[FS_PARCEL_BYTES]
    cdef fs_parcel parcel
    parcel.kind, parcel.length, parcel.offset, parcel.importer, parcel.link = kind, length, offset, importer, link
    parcel.number, parcel.slot, parcel.serial = number, slot, serial
    fs_parcel_put(bytes_, &parcel)
    return PyBytes_FromStringAndSize(<char *>bytes_, FS_PARCEL_BYTES)


def unpack_parcel(bytes data not None):
    """(kind, length, offset, importer, link, number, slot, serial). Raises ValueError: what is wrong with it."""
    cdef fs_parcel parcel
    cdef const char *wrong
    if len(data) != FS_PARCEL_BYTES:
        raise ValueError("these bytes are no buffer")
    wrong = fs_parcel_take(<const unsigned char *>PyBytes_AS_STRING(data), &parcel)
    if wrong != NULL:
        raise ValueError(wrong.decode())
    return (parcel.kind, parcel.length, parcel.offset, parcel.importer, parcel.link, parcel.number, parcel.slot,
            parcel.serial)


def pack_memo(uint32_t kind, uint64_t link, uint64_t size=0, uint32_t number=0):
    """The bytes of a memo beside the stream."""
    cdef unsigned char bytes_[FS_MEMO_BYTES]
    cdef fs_memo memo
    memo.kind, memo.link, memo.size, memo.number = kind, link, size, number
    fs_memo_put(bytes_, &memo)
    return PyBytes_FromStringAndSize(<char *>bytes_, FS_MEMO_BYTES)


def unpack_memo(bytes data not None):
    """(kind, link, size, number). Raises ValueError: what is wrong with it."""
    cdef fs_memo memo
    cdef const char *wrong = fs_memo_take(<const unsigned char *>PyBytes_AS_STRING(data), len(data), &memo)
    if wrong != NULL:
        raise ValueError(wrong.decode())
    return memo.kind, memo.link, memo.size, memo.number


# ---- the owner's side, and the borrower's ----

cdef class ExportLink:
    """The owner's side of a link to another process: which slots of the ledger are free, which memories went there.

    A subclass has is_dead(), and prepare(memory): what is to be done before a loan; whether that one is possible now.
    One thread at a time calls lend() and free().
    """
    cdef readonly Ledger ledger
    cdef readonly uint64_t number   # of the link
    cdef readonly dict numbers      # id of a memory: (its number there, a weak reference that ends the entry)
    cdef readonly object forgotten  # a deque: numbers of memories that are no more
    cdef readonly object abandoned  # a deque: loans that nobody will settle
    cdef list slots                 # that are free
    cdef uint64_t serial

    def __init__(self, Memory ledger not None, uint64_t number):
        self.ledger = Ledger(ledger)
        self.number = number
        self.numbers = {}
        self.forgotten = deque()
        self.abandoned = deque()
        self.slots = list(range(FS_LEDGER_SLOTS))

    def prepare(self, Memory memory):
        return False

    def is_dead(self):
        return False

    cdef Loan lend(self, Memory memory, bint only_read, uint64_t importer):
        """None: the other process must look first."""
        cdef Loan loan
        known = self.numbers.get(<size_t><PyObject *>memory)
        if known is None or self.forgotten or self.abandoned:
            if not self.prepare(memory):
                return None
            known = self.numbers[<size_t><PyObject *>memory]
        if not self.slots:
            return None
        self.serial += 1
        loan = Loan.__new__(Loan)
        loan.link = self
        loan.memory = memory
        loan.number = (<tuple>known)[0]
        loan.slot = self.slots.pop()
        loan.serial = self.serial
        loan.only_read = only_read
        fs_ledger_send(self.ledger.at(loan.slot), loan.slot, loan.serial,
                       <uint32_t>(importer & ((1 << CONNECTION_BITS) - 1)))
        return loan

    def free(self, Loan loan not None):
        """The loan is settled."""
        self.slots.append(loan.slot)

    def hand_over(self, sock, carrier not None, uint64_t importer, Lendable buffer not None, uint64_t offset,
                  uint64_t nbytes, bint lend):
        """Announces the region to that importer over the socket; whether it did. Raises what sock.sendall() raises:
        then nothing was lent."""
        cdef Loan loan
        cdef fs_parcel parcel
        cdef unsigned char bytes_[FS_PARCEL_BYTES]
        with buffer._lock:
            loan = self.lend(buffer.memory, lend, importer)
        if loan is None:
            return False
        # behind that: whoever closed the connection before has not seen the loan
        if carrier.other_importer() != importer:
            loan.cancel()
            with buffer._lock:
                self.free(loan)
            return False
        parcel.kind = FS_PARCEL_LEND if lend else FS_PARCEL_HAND
        parcel.length, parcel.offset, parcel.link = nbytes, buffer.offset + offset, self.number
        parcel.importer = importer
        parcel.number, parcel.slot, parcel.serial = loan.number, loan.slot, loan.serial
        fs_parcel_put(bytes_, &parcel)
        buffer._loans.append(loan)
        try:
            sock.sendall(PyBytes_FromStringAndSize(<char *>bytes_, FS_PARCEL_BYTES))
        except OSError:
            loan.cancel()
            raise
        return True


@cython.final
cdef class Loan:
    """A buffer that another process has, or will have. memory: stays until the loan is settled."""
    cdef readonly ExportLink link
    cdef readonly Memory memory
    cdef readonly uint32_t number, slot
    cdef readonly uint64_t serial
    cdef readonly bint only_read

    cpdef int look(self) except -1:
        """HOME, AWAY or LOST. LOST: that process has ended, and somebody may have the memory for ever."""
        cdef fs_ledger *ledger = self.link.ledger.at(self.slot)
        cdef int state = fs_ledger_state(ledger, self.slot, self.serial)
        if state == FS_LOAN_RETURNED or state == FS_LOAN_FREE:
            return HOME
        if state == FS_LOAN_SPENT:
            return LOST
        if self.link.is_dead():
            # what it did last counts: it may have returned the buffer and died then
            return HOME if fs_ledger_state(ledger, self.slot, self.serial) == FS_LOAN_RETURNED else LOST
        return AWAY

    def cancel(self):
        """Takes it back; whether nobody had taken it."""
        return fs_ledger_cancel(self.link.ledger.at(self.slot), self.slot, self.serial) != 0


cdef class ImportLink:
    """The borrower's side of a link: another process's ledger, None before its hello, and its memories by number."""
    cdef public Ledger ledger
    cdef readonly dict memories

    def __init__(self):
        self.memories = {}


@cython.final
cdef class Borrowed:
    """What this process has of another one's."""
    cdef readonly ImportLink owner
    cdef readonly bint only_read
    cdef uint32_t slot
    cdef uint64_t serial

    cpdef give_back(self, bint spent):
        """The owner may use the memory again. spent: it may not, for somebody else may have it for ever."""
        fs_ledger_return(self.owner.ledger.at(self.slot), self.slot, self.serial, spent)


cdef class Lendable(Exporter):
    """An exporter whose memory other processes can have, or that has another one's.

    A subclass has `_lock`, which all loans of the process share, _renew() for memory that others may have for ever, and
    _left() for a buffer that nobody released.
    """
    cdef public list _loans
    cdef readonly Borrowed _borrowed
    cdef public bint _spent      # others may have its memory for ever
    cdef public bint _released
    cdef public object _registered  # the device that has it pinned, and the memory

    def __cinit__(self):
        self._loans = []

    cpdef look(self):
        """Takes back what others have finished with."""
        cdef Loan loan
        cdef int state
        if not self._loans:
            return
        with self._lock:
            for loan in list(self._loans):
                state = loan.look()
                if state == AWAY:
                    continue
                self._loans.remove(loan)
                loan.link.free(loan)
                if state == LOST and not loan.only_read:
                    self._spent = True
            if not self._loans and not self._released:
                self._came_home()

    cpdef _came_home(self):
        """No other process has it."""
        if self._spent and self._borrowed is None:
            self._renew()
        self.closed = self._spent
        self.readonly = self._borrowed is not None and self._borrowed.only_read

    def close_to_send(self, bint lend):
        """Nobody here writes to it from now on, or sees it at all, until settle(); whether it is so. False where more
        is to be asked, or it cannot be sent."""
        if self._loans:
            self.look()
        if self._loans or self._released or self._borrowed is not None or self.process != fs_generation():
            return False
        return self.close_if_unexported(lend)

    def give_back(self):
        """Whether it was released before, or was borrowed and is given back now. False where more is to be asked."""
        if self._released:
            return True
        if self._borrowed is None or self._loans or self._registered is not None or self.process != fs_generation():
            return False
        if not self.close_if_unexported():
            return False
        self._released = True
        self._borrowed.give_back(self._spent)
        self.memory = None
        return True

    def __del__(self):
        self.going = True
        if not self._released and self.memory is not None and self.process == fs_generation():
            self._left()
            if self._borrowed is not None or self._loans:  # another finalizer may bring it back, but not what it had
                self._loans, self._released, self.closed = [], True, True

    def settle(self):
        """A sending is over."""
        if not self._loans and not self._released:
            self._came_home()


def borrow(kind, bytes data not None, uint64_t importer, dict owners not None, most):
    """A buffer of that class, a Lendable, which the bytes announce; taken from its owner with that. most: bytes of it.

    None where it is to be copied, where importer or owner do not know it, and where it was taken back.
    """
    cdef fs_parcel parcel
    cdef Lendable buffer
    cdef Borrowed borrowed
    cdef ImportLink owner
    cdef Memory memory
    if len(data) != FS_PARCEL_BYTES or fs_parcel_take(<const unsigned char *>PyBytes_AS_STRING(data), &parcel) != NULL:
        return None
    if parcel.kind == FS_PARCEL_COPY or parcel.importer >> CONNECTION_BITS != importer or parcel.length > most:
        return None
    owner = owners.get(parcel.link)
    if owner is None or owner.ledger is None:
        return None
    memory = owner.memories.get(parcel.number)
    if memory is None or not fs_region_is_within(memory.nbytes, parcel.offset, parcel.length):
        return None
    buffer = kind.__new__(kind)
    borrowed = Borrowed.__new__(Borrowed)
    borrowed.owner = owner
    borrowed.slot, borrowed.serial = parcel.slot, parcel.serial
    borrowed.only_read = parcel.kind == FS_PARCEL_LEND
    buffer.set_memory(memory, parcel.offset, parcel.length)
    buffer.readonly = borrowed.only_read
    buffer._released = True  # so far
    if not fs_ledger_take(owner.ledger.at(parcel.slot), parcel.slot, parcel.serial):
        return None
    buffer._borrowed = borrowed
    buffer._released = False
    return buffer
