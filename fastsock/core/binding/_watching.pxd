# Who asks for the numbers of connections.

# The innermost frame asks for the number.
cdef int ask_for(int descriptor, bint is_connected) except -1
# The socket of that number is connected.
cdef int heed_early(int descriptor, int role) except -1
# The number is another socket's than before.
cdef int forget_early(int descriptor) except -1
