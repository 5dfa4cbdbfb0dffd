# The C types of _locks.py.
cimport cython

cdef extern from *:
    """
    #include <pythread.h>

    typedef struct {
        PyThread_type_lock lock;
        int taken;
    } rmi_lock;

    static inline rmi_lock *new_lock(void) {
        rmi_lock *made = PyMem_Calloc(1, sizeof *made);
        if (made != NULL) made->lock = PyThread_allocate_lock();
        if (made == NULL || made->lock == NULL) {
            PyMem_Free(made);
            PyErr_NoMemory();
            return NULL;
        }
        return made;
    }

    static inline void free_lock(rmi_lock *held) {
        if (held == NULL) return;
        if (held->taken) PyThread_release_lock(held->lock);
        PyThread_free_lock(held->lock);
        PyMem_Free(held);
    }

    static inline int take_patiently(rmi_lock *held) {
        for (;;) {
            PyLockStatus found;
            Py_BEGIN_ALLOW_THREADS
            found = PyThread_acquire_lock_timed(held->lock, -1, 1);
            Py_END_ALLOW_THREADS
            if (found == PY_LOCK_ACQUIRED) break;
            if (Py_MakePendingCalls() < 0) return -1; /* of signals */
        }
        __atomic_store_n(&held->taken, 1, __ATOMIC_RELAXED);
        return 1;
    }

    static inline int take(rmi_lock *held, int waits) {
        if (PyThread_acquire_lock(held->lock, NOWAIT_LOCK)) {
            __atomic_store_n(&held->taken, 1, __ATOMIC_RELAXED);
            return 1;
        }
        return waits ? take_patiently(held) : 0;
    }

    static inline void let_go(rmi_lock *held) {
        __atomic_store_n(&held->taken, 0, __ATOMIC_RELAXED);
        PyThread_release_lock(held->lock);
    }

    static inline int is_taken(rmi_lock *held) { return __atomic_load_n(&held->taken, __ATOMIC_RELAXED); }
    """
    ctypedef struct rmi_lock:
        pass
    rmi_lock *new_lock() except NULL
    void free_lock(rmi_lock *held) noexcept
    int take(rmi_lock *held, bint waits) except -1
    void let_go(rmi_lock *held) noexcept
    bint is_taken(rmi_lock *held) noexcept


@cython.final
cdef class Lock:
    cdef rmi_lock *_lock

    cpdef bint acquire(self, bint waits=*) except -1
    cpdef object release(self)
    cpdef bint locked(self) noexcept
