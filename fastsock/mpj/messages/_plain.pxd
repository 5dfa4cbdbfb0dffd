# Small objects of Python's own types as messages, for other compiled modules.

cdef enum:
    PLAIN_MOST = 2048  # bytes of a message

# Writes the message for an object into so much memory; its length, or 0 where the object is to be pickled.
cdef Py_ssize_t plain_message(object obj, char *memory) except -1
cdef bint is_plain(const char *data, Py_ssize_t length) noexcept
# The object of such a message. Raises ValueError where it is damaged.
cdef object plain_object(char *data, Py_ssize_t length)
