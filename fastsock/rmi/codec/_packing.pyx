# cython: language_level=3, freethreading_compatible=True
"""A frame from its start to its end. `_format.pxd` describes the bytes.

A packer belongs to one connection and direction: it numbers its classes and its cached values. Two threads may not use
it at once.
"""
from fastsock.rmi.codec._format cimport *
from fastsock.rmi.codec._memory cimport store_64
from fastsock.rmi.codec._packing_objects cimport Outgoing

OPTIMIZATIONS = frozenset({"class-number", "array-memory", "early-detection", "cache"})


cdef class Packer(ObjectPacker):
    """Packs values for one connection. `start`, `pack` once or more, `finish`."""

    def __init__(self, classes, references=None, trust_pickle=False, depth=100, without=frozenset()):
        if not 0 < depth <= DEEPEST:
            raise ValueError(f"depth is {depth}: it must be from 1 to {DEEPEST}")
        unknown = sorted(set(without) - OPTIMIZATIONS)
        if unknown:
            raise ValueError(f"without names {', '.join(unknown)}; there are {', '.join(sorted(OPTIMIZATIONS))}")
        ObjectPacker.__init__(self, classes, references, trust_pickle, depth, without)
        self.numbers_classes = "class-number" not in without
        self.is_open = False
        self.is_packing = False

    cpdef start(self, Py_ssize_t reserved=0):
        """Begin a frame whose first `reserved` bytes are for its header. The buffers of the one before are void."""
        if self.is_packing:
            raise RuntimeError("a pack function used the connection that it packs for: gather first what it needs")
        if self.is_open:
            self.abandon()
        if self.room > KEPT_SCRATCH:
            self._new_scratch(SCRATCH)
        if self.announced:
            self.announced = []
        if self.filled:
            self.filled = []
        if not self.numbers_classes and self.class_count:
            self._forget_classes()
        if self.segments:
            self.segments = []
            self.words = []
        if self.room - reserved < SPARE:
            self.grow(reserved + SPARE)
        self.level = 0
        self.first = reserved
        self.data[reserved] = 0 if self.numbers_classes else FORGET
        self.at = reserved + 1
        self.is_open = True

    cpdef pack(self, object value):
        """Pack one more value. Raises NotPackable or LimitExceeded: then `abandon`."""
        if self.is_packing or not self.is_open:
            raise RuntimeError("a value is packed between start and finish, and not by a pack function")
        self.is_packing = True
        try:
            self.write(value)
        finally:
            self.is_packing = False

    cpdef pack_written(self, Writer writer):
        """Pack one more value, which `writer` writes. As `pack`."""
        if self.is_packing or not self.is_open:
            raise RuntimeError("a value is packed between start and finish, and not by a pack function")
        self.is_packing = True
        try:
            writer.write_to(self)
        finally:
            self.is_packing = False

    cpdef finish(self):
        """The frame: the scratch, header room first, and the buffers that follow it. They are valid until `start`."""
        self.close()
        return self.whole[: self.at], self.segments

    cpdef pack_frame(self, Py_ssize_t reserved, object values):
        """`start`, `pack` of each value, and `finish`; `abandon` where that fails."""
        self.start(reserved)
        try:
            for value in values:
                self.pack(value)
        except BaseException:
            self.abandon()
            raise
        return self.finish()

    cpdef close(self):
        """Write the end of the body. For C: then `data`, `at` and `segments` are the frame."""
        if self.announced:
            self._describe()
        if self.words:
            if self.room - self.at < WORD * len(self.words):
                self.grow(WORD * len(self.words))
            for word in self.words:
                store_64(self.data, self.at, word)
                self.at += WORD
        if self.count:
            self._forget_numbers()
        self.is_open = False

    cpdef abandon(self):
        """The frame is not sent: what it announced is taken back."""
        cdef Outgoing outgoing
        cdef Py_ssize_t place
        for outgoing in self.announced:
            outgoing.number = NEW
        self.class_count -= len(self.announced)
        self.announced = []
        for place in self.filled:
            held = self.cached[place]
            if held is not None:
                self.places.pop(id(held), None)
                self.cached[place] = None
        self.filled = []
        self._forget_numbers()
        self.segments = []
        self.words = []
        self.level = 0
        self.is_open = False
