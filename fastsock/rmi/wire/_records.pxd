# What other compiled modules may know of _records.pyx.
cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF


@cython.final
cdef class Call:
    cdef public unsigned int number
    cdef public bint done, failed, awaited, apart
    cdef public double deadline, lasting
    cdef public object method, value, wake, inbox, on_done, chain

    cpdef bint calls_when_done(self, object function) except -1


cdef class Rows


cdef class Entry:
    cdef public int flags
    cdef public list functions
    cdef public Py_ssize_t count


@cython.final
cdef class Request:
    cdef public object connection, arguments, keywords, behind, task, chain, stop, outer, resume, waits
    cdef public Rows rows
    cdef public Entry exported
    cdef public int kind, flags
    cdef public unsigned int number, behalf, method
    cdef public double deadline
    cdef public bint cancelled


cdef class Rows:
    cdef public Request batch
    cdef public list found
    cdef public Request waiting


cdef class _Process:
    cdef public long forks


# As the classes themselves, without a call of Python.
cdef inline Call new_call(unsigned int number, object method):
    cdef Call made = Call.__new__(Call)
    made.number = number
    made.method = method
    return made


cdef inline Request new_request(object connection, int kind, int flags, unsigned int number, Entry exported,
                                unsigned int method, object arguments, object keywords, double deadline,
                                unsigned int behalf):
    cdef Request made = Request.__new__(Request)
    made.connection = connection
    made.kind = kind
    made.flags = flags
    made.number = number
    made.exported = exported
    made.method = method
    made.arguments = arguments
    made.keywords = keywords
    made.deadline = deadline
    made.behalf = behalf
    return made


cdef extern from *:
    """
    static inline Py_ssize_t number_of(PyObject *value) {
        int overflow = 0;
        long long word = PyLong_AsLongLongAndOverflow(value, &overflow);
        return overflow ? -1 : (Py_ssize_t)word;
    }
    """
    Py_ssize_t number_of(object) except? -1


cdef extern from "Python.h":
    unsigned long get_ident "PyThread_get_thread_ident"() noexcept
    int PyContextVar_Get(object variable, PyObject *default, PyObject **value) except -1
    object enter_context "PyContextVar_Set"(object variable, object value)
    int leave_context "PyContextVar_Reset"(object variable, object token) except -1
    bint PyGen_CheckExact(object) noexcept
    bint PyCoro_CheckExact(object) noexcept
    int PyAsyncGen_CheckExact(object) noexcept


cdef inline Py_ssize_t whole_number(object value) except? -1:
    if type(value) is not int:
        return -1
    return number_of(value)


cdef inline object context_of(object variable):
    cdef PyObject *found = NULL
    PyContextVar_Get(variable, NULL, &found)
    value = <object>found
    Py_DECREF(value)  # PyContextVar_Get gave one
    return value


cdef inline bint goes_on(object value) noexcept:
    return PyGen_CheckExact(value) or PyCoro_CheckExact(value) or PyAsyncGen_CheckExact(value)
