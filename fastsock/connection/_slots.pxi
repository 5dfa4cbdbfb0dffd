# The slots of a socket, as native code reads and writes them: in the standard class's structure, and in the fast class's.
from cpython.ref cimport Py_INCREF

cdef extern from *:
    """
    #ifdef Py_GIL_DISABLED /* the interpreter's own slots are read without their object's lock */
    static void fill_slot(PyObject **slot, PyObject *value) { __atomic_store_n(slot, value, __ATOMIC_RELEASE); }
    #else
    static void fill_slot(PyObject **slot, PyObject *value) { *slot = value; }
    #endif

    /* A class's function that every thread looks up, as the interpreter does with its own functions: they do not count
     * their references to it.  It stays as long as the class.  For objects that no other thread knows yet. */
    static int share_function(PyObject *function)
    {
    #if defined(Py_GIL_DISABLED) && PY_VERSION_HEX >= 0x030E0000
        PyUnstable_Object_EnableDeferredRefcount(function);
    #elif defined(Py_GIL_DISABLED) /* there it stays as long as the process, as the interpreter's own do */
        PyObject_GC_UnTrack(function);
        function->ob_tid = _Py_UNOWNED_TID;
        function->ob_ref_shared = 0;
        function->ob_ref_local = _Py_IMMORTAL_REFCNT_LOCAL;
    #endif
        return 0;
    }
    """
    void fill "fill_slot" (PyObject **slot, PyObject *value) noexcept
    int share_function(object function) except -1

cdef extern from "Python.h":
    ctypedef struct PyMemberDef:
        Py_ssize_t offset
    ctypedef struct PyMemberDescrObject:
        PyMemberDef *d_member

cdef object nothing = object()


cdef Py_ssize_t offset_of(object member):
    return (<PyMemberDescrObject *>member).d_member.offset


cdef inline PyObject **place(object sock, Py_ssize_t offset) noexcept:
    return <PyObject **>(<char *><void *>sock + offset)


cdef inline int number(object sock, Py_ssize_t offset) noexcept:
    return (<int *>(<char *><void *>sock + offset))[0]


cdef inline PyObject *exchange(object sock, Py_ssize_t offset, PyObject *value) noexcept:
    """Both are owned: what the slot gets, and what it had."""
    cdef PyObject **where = place(sock, offset)
    cdef PyObject *before
    with cython.critical_section(sock):
        before = where[0]
        fill(where, value)
    return before


cdef inline void put(object sock, Py_ssize_t offset, object value) noexcept:
    Py_INCREF(value)
    Py_XDECREF(exchange(sock, offset, <PyObject *>value))


cdef inline object held_in(object sock, Py_ssize_t offset):
    """What the slot holds, `nothing` where it is empty."""
    cdef PyObject *held
    with cython.critical_section(sock):
        held = place(sock, offset)[0]
        result = nothing if held == NULL else <object>held
    return result


cdef inline bint is_empty(object sock, Py_ssize_t offset) noexcept:
    cdef bint empty
    with cython.critical_section(sock):
        empty = place(sock, offset)[0] == NULL
    return empty


cdef Py_ssize_t family_at = offset_of(_socket.socket.family)
cdef Py_ssize_t kind_at = offset_of(_socket.socket.type)
cdef Py_ssize_t proto_at = offset_of(_socket.socket.proto)


cdef inline bint is_tcp_stream(object sock) noexcept:
    cdef int family = number(sock, family_at), proto = number(sock, proto_at)
    return family in (2, 10) and number(sock, kind_at) & 0xF == 1 and proto in (0, 6)
