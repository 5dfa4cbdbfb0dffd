# The table of TCP connections that gain memory, for the class and for whoever knows a number.
from .switch cimport fs_connection

# Where the preloaded library shares its table, its doors let connections in, those of the class among them.
cdef bint doors

# Where doors let it in, they go by the settings that are in force now.
cdef int before_connect() except -1
# A stream that is connected, or about to be, to that address, where this end connects.
cdef int enter(object sock, int role, object address) except -1
# Before the number is closed, or means another file.
cdef int leave_number(int descriptor) except -1
# closed() is called once this process has closed the connection.
cdef int note_importer(fs_connection *connection, closed) except -1
