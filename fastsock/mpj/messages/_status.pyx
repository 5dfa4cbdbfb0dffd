# cython: language_level=3, freethreading_compatible=True, auto_pickle=False
"""The fields of a status, and what most programs ask it."""
cimport cython

from ..constants import ANY_SOURCE, ANY_TAG, F_ERROR, F_SOURCE, F_TAG

cdef int NO_SOURCE = ANY_SOURCE, NO_TAG = ANY_TAG


cdef class StatusFields:
    """`_length` is the message's length in bytes. Other modules of this package set the fields directly.

    `_memory`: an array of C's int, once the program asked for one. Source, tag and error are there then.
    """

    def __cinit__(self, status=None):
        cdef StatusFields other
        self._source, self._tag = NO_SOURCE, NO_TAG
        if status is not None:
            if not isinstance(status, StatusFields):
                raise TypeError(f"expected a Status, got a {type(status).__name__}")
            other = <StatusFields>status
            other.load()
            self.fill(other._source, other._tag, other._length, other._error, other._cancelled)

    @cython.critical_section
    cdef int fill(self, int source, int tag, int64_t length, int error, bint cancelled) except -1:
        self._memory = None
        self._source, self._tag, self._length, self._error, self._cancelled = source, tag, length, error, cancelled
        return 0

    @cython.critical_section
    cdef int load(self) except -1:
        """Takes over the fields that were written through the memory."""
        if self._memory is not None:
            self._source, self._tag = self._memory[F_SOURCE], self._memory[F_TAG]
            self._error = self._memory[F_ERROR]
        return 0

    @cython.critical_section
    cdef int store(self) except -1:
        if self._memory is not None:
            self._memory[F_SOURCE], self._memory[F_TAG] = self._source, self._tag
            self._memory[F_ERROR] = self._error
        return 0

    def _set(self, int source, int tag, int64_t length, int error=0, bint cancelled=False):
        """Tells of a message: the one call that completes a status."""
        self.fill(source, tag, length, error, cancelled)

    def _fields(self):
        self.load()
        return self._source, self._tag, self._error, self._length, self._cancelled

    def Get_source(self):
        """Return the rank that sent the message."""
        self.load()
        return self._source

    def Set_source(self, int source):
        """Set the rank that sent the message."""
        self.load()
        self._source = source
        self.store()

    def Get_tag(self):
        """Return the message's tag."""
        self.load()
        return self._tag

    def Set_tag(self, int tag):
        """Set the message's tag."""
        self.load()
        self._tag = tag
        self.store()

    def Get_error(self):
        """Return the error code of the operation."""
        self.load()
        return self._error

    def Set_error(self, int error):
        """Set the error code of the operation."""
        self.load()
        self._error = error
        self.store()

    @property
    def source(self):
        """Message source."""
        self.load()
        return self._source

    @source.setter
    def source(self, int source):
        self.Set_source(source)

    @property
    def tag(self):
        """Message tag."""
        self.load()
        return self._tag

    @tag.setter
    def tag(self, int tag):
        self.Set_tag(tag)

    @property
    def error(self):
        """Message error."""
        self.load()
        return self._error

    @error.setter
    def error(self, int error):
        self.Set_error(error)
