# The C types of _answering.py.
cimport cython

from fastsock.rmi._messages cimport Connection, Pickled, loaded


@cython.locals(told=Pickled)
cpdef object serve(object server, Connection connection)
cdef object _answer(object server, Connection connection, object request)
