# How objects are called without a tuple and a dict being made first (PEP 590).
from cpython.object cimport PyObject

cdef extern from *:
    """
    static inline PyObject *given_by_place(PyObject *const *given, size_t flagged) {
        Py_ssize_t count = PyVectorcall_NARGS(flagged);
        PyObject *made = PyTuple_New(count);
        if (made == NULL) return NULL;
        for (Py_ssize_t at = 0; at < count; at++) {
            Py_INCREF(given[at]);
            PyTuple_SET_ITEM(made, at, given[at]);
        }
        return made;
    }

    static inline PyObject *given_by_name(PyObject *const *given, size_t flagged, PyObject *names) {
        PyObject *made;
        if (names == NULL || PyTuple_GET_SIZE(names) == 0) Py_RETURN_NONE;
        if ((made = PyDict_New()) == NULL) return NULL;
        given += PyVectorcall_NARGS(flagged);
        for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(names); at++)
            if (PyDict_SetItem(made, PyTuple_GET_ITEM(names, at), given[at]) < 0) {
                Py_DECREF(made);
                return NULL;
            }
        return made;
    }

    /* Each instance has its function `offset` bytes from its beginning. */
    static inline void accept_vectorcall(PyObject *made, Py_ssize_t offset) {
        PyTypeObject *type = Py_TYPE(made);
        type->tp_vectorcall_offset = offset;
        type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
        PyType_Modified(type);
    }
    """
    object given_by_place(PyObject **given, size_t flagged)
    object given_by_name(PyObject **given, size_t flagged, PyObject *names)
    void accept_vectorcall(object made, Py_ssize_t offset) noexcept
