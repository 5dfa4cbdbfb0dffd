# The slots of handles by where they lie, without a look-up of their names. Whoever reads and sets them so has made sure that
# it has a handle, and has told this file of one's class.
from cpython.object cimport PyObject, PyTypeObject

cdef extern from *:
    """
    #include <structmember.h>

    #ifdef Py_GIL_DISABLED
    #define SLOTS_ARE_READ 0 /* another thread may set one in this moment */
    #else
    #define SLOTS_ARE_READ 1
    #endif

    /* -1 where that is not to be known. */
    static Py_ssize_t record_slot = -1, constant_slot = -1;

    static inline Py_ssize_t slot_offset(PyObject *descriptor)
    {
        if (!SLOTS_ARE_READ || !Py_IS_TYPE(descriptor, &PyMemberDescr_Type)) return -1;
        return ((PyMemberDescrObject *)descriptor)->d_member->offset;
    }

    #define slot_of(object, offset) ((PyObject **)((char *)(object) + (offset)))

    static inline void set_slot(PyObject *object, Py_ssize_t offset, PyObject *value)
    {
        PyObject **at = slot_of(object, offset), *before = *at;
        Py_INCREF(value);
        *at = value;
        Py_XDECREF(before);
    }
    """
    Py_ssize_t record_slot, constant_slot
    Py_ssize_t slot_offset(object descriptor)
    PyObject **slot_of(PyObject *owner, Py_ssize_t offset)
    void set_slot(object owner, Py_ssize_t offset, object value)
    object PyType_GenericAlloc(PyTypeObject *kind, Py_ssize_t items)


cdef inline int find_slots(object handle_class) except -1:
    """Once, while a module is imported."""
    global record_slot, constant_slot
    record_slot, constant_slot = slot_offset(handle_class.ob), slot_offset(handle_class._constant)
    return 0


cdef inline object record_of(object handle):
    """The record of a handle."""
    if record_slot < 0 or slot_of(<PyObject *>handle, record_slot)[0] == NULL:
        return handle.ob
    return <object>slot_of(<PyObject *>handle, record_slot)[0]


cdef inline int refer(object handle, object record) except -1:
    if record_slot < 0:
        handle.ob = record
    else:
        set_slot(handle, record_slot, record)
    return 0


cdef inline bint is_constant(object handle) except -1:
    """Whether a handle is one of the module's constants."""
    if constant_slot < 0 or slot_of(<PyObject *>handle, constant_slot)[0] == NULL:
        return handle._constant
    return slot_of(<PyObject *>handle, constant_slot)[0] == <PyObject *>True


cdef inline object new_handle(object kind, object record):
    cdef object handle = PyType_GenericAlloc(<PyTypeObject *>kind, 0)
    if constant_slot < 0:
        handle._constant = False
    else:
        set_slot(handle, constant_slot, False)
    refer(handle, record)
    return handle
