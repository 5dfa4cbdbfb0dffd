# Words: from the arguments of a call, to those of a handler.
#
# request() and reply() take their arguments where the interpreter has them: 16 words are not put into a tuple first. A
# handler's ints are borrowed where the interpreter has them already.

cdef enum:
    LEAST_SMALL = -5  # ints that the interpreter makes once
    SMALL = 262       # how many they are

cdef PyObject *small[SMALL]

cdef extern from *:
    """
    #if PY_VERSION_HEX < 0x030B0000
        #include "longintrepr.h"
    #endif
    /* Most words are ints of one digit: true, and its value. */
    static inline int am_short_int(PyObject *given, int64_t *value)
    {
        if (!PyLong_CheckExact(given)) return 0;
    #if PY_VERSION_HEX >= 0x030C0000
        if (!PyUnstable_Long_IsCompact((PyLongObject *)given)) return 0;
        *value = PyUnstable_Long_CompactValue((PyLongObject *)given);
    #else
        if ((size_t)(Py_SIZE(given) + 1) > 2) return 0;
        *value = Py_SIZE(given) * (int64_t)((PyLongObject *)given)->ob_digit[0];
    #endif
        return 1;
    }
    """
    bint am_short_int(PyObject *given, int64_t *value) noexcept

cdef int find_small() except -1:
    cdef int i
    for i in range(SMALL):
        small[i] = new_int(i + LEAST_SMALL)
        if small[i] == NULL:
            return -1
    return 0


cdef int take_words(PyObject **given, Py_ssize_t count, int64_t *words) except -1:
    cdef Py_ssize_t i
    if count > FS_AM_WORDS:
        raise ValueError(f"a message has {count} words, and {FS_AM_WORDS} is the most: send data")
    for i in range(count):
        if not am_short_int(given[i], words + i):
            words[i] = PyNumber_Index(<object>given[i])  # a float is no word
    return <int>count


cdef int make_ints(const fs_am_frame *frame, PyObject **ints, PyObject **made) except -1:
    """Its words as ints. How many of these are new, which `made` tells: drop_ints() lets go of them."""
    cdef const unsigned char *body = frame.body
    cdef int64_t word
    cdef int i, count = frame.words, new = 0
    for i in range(count):
        word = fs_am_word(body + i * FS_AM_WORD)
        if <uint64_t>(word - LEAST_SMALL) < SMALL:
            ints[i] = small[word - LEAST_SMALL]
            continue
        made[new] = new_int(word)
        if made[new] == NULL:
            drop_ints(made, new)
            return -1  # with the exception that is set
        ints[i] = made[new]
        new += 1
    return new


cdef void drop_ints(PyObject **made, int count) noexcept:
    while count > 0:
        count -= 1
        drop(made[count])


cdef Py_ssize_t read_arguments(str method, tuple wanted, PyObject **given, Py_ssize_t count, PyObject *names,
                               PyObject **found) except -1:
    """Of a call of `method(*wanted, *words, data=None)` what is wanted, then the data or NULL; and how many words."""
    cdef Py_ssize_t i, place, most = PyTuple_GET_SIZE(wanted)
    for i in range(most + 1):
        found[i] = given[i] if i < count and i < most else NULL
    if names != NULL:
        for i, name in enumerate(<tuple>names):
            if name != "data" and name not in wanted:
                raise TypeError(f"{method}() got an unexpected keyword argument {name!r}")
            place = most if name == "data" else wanted.index(name)
            if found[place] != NULL:
                raise TypeError(f"{method}() got multiple values for argument {name!r}")
            found[place] = given[count + i]
    for i in range(most):
        if found[i] == NULL:
            raise TypeError(f"{method}() missing required argument {wanted[i]!r}")
    return max(count - most, 0)


cdef int add_method(type owner, PyMethodDef *method, const char *name, PyCFunction call_, const char *text) except -1:
    """A method that gets its arguments where they are; the text begins with its signature."""
    method.ml_name, method.ml_meth, method.ml_doc = name, call_, text
    method.ml_flags = METH_FASTCALL | METH_KEYWORDS
    (<dict>(<PyTypeObject *>owner).tp_dict)[name.decode()] = PyDescr_NewMethod(owner, method)
    PyType_Modified(owner)
    return 0
