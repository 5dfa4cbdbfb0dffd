# The constants that stand for buffers.

cdef class _Place:
    """A constant that stands for a buffer."""

    cdef uintptr_t _address(self):
        return 0

    cdef str _name(self):
        return ""

    def __bool__(self):
        """Return bool(self)."""
        return self._address() != 0

    def __int__(self):
        """Return int(self)."""
        return self._address()

    def __hash__(self):
        """Return hash(self)."""
        return hash(int(self))

    def __eq__(self, other):
        """Return self==value."""
        if type(other) is type(self):
            return True
        if not PyIndex_Check(other):
            return NotImplemented
        return self._address() == int(other)

    def __ne__(self, other):
        """Return self!=value."""
        if type(other) is type(self):
            return False
        if not PyIndex_Check(other):
            return NotImplemented
        return self._address() != int(other)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, NULL, <void *>self._address(), 0, 0, flags)

    def __repr__(self):
        """Return repr(self)."""
        return self._name()

    def __reduce__(self):
        """Pickle by name."""
        return self._name()


@cython.final
cdef class BottomType(_Place):
    """Type of `BOTTOM`."""

    cdef str _name(self):
        return "BOTTOM"

    def __index__(self):
        """Return the address."""
        return 0


@cython.final
cdef class InPlaceType(_Place):
    """Type of `IN_PLACE`."""

    cdef uintptr_t _address(self):
        return 1

    cdef str _name(self):
        return "IN_PLACE"


@cython.final
cdef class BufferAutomaticType(_Place):
    """Type of `BUFFER_AUTOMATIC`."""

    cdef uintptr_t _address(self):
        return 2

    cdef str _name(self):
        return "BUFFER_AUTOMATIC"


BOTTOM = BottomType()
IN_PLACE = InPlaceType()
BUFFER_AUTOMATIC = BufferAutomaticType()
