# What other compiled modules may know of _locks.pyx.
cimport cython

cdef extern from *:
    """
    #include <pythread.h>

    /* FREE, HELD, or AWAITED: held, and others wait. Where there is an interpreter's lock it guards this word. */
    enum { RMI_FREE, RMI_HELD, RMI_AWAITED };

    typedef struct {
        PyThread_type_lock bell; /* rung where a lock is released that others wait for; held until then */
        int state;
        int rung; /* and nobody has heard it yet: whoever does looks at the state after that, so one ring will do */
    } rmi_lock;

    #ifdef Py_GIL_DISABLED
    static inline int rmi_swap(int *state, int next) { return __atomic_exchange_n(state, next, __ATOMIC_ACQ_REL); }
    /* What was written before is seen by whoever does not see yet what is read behind it. */
    static inline void rmi_order(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
    static inline int rmi_take_free(int *state) {
        int expected = RMI_FREE;
        return __atomic_compare_exchange_n(state, &expected, RMI_HELD, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
    }
    #else
    static inline void rmi_order(void) {}
    static inline int rmi_swap(int *state, int next) {
        int before = *state;
        *state = next;
        return before;
    }
    static inline int rmi_take_free(int *state) { return *state == RMI_FREE ? (*state = RMI_HELD) : 0; }
    #endif

    static inline rmi_lock *new_lock(void) {
        rmi_lock *made = PyMem_Calloc(1, sizeof *made);
        if (made != NULL) made->bell = PyThread_allocate_lock();
        if (made == NULL || made->bell == NULL) {
            PyMem_Free(made);
            PyErr_NoMemory();
            return NULL;
        }
        PyThread_acquire_lock(made->bell, NOWAIT_LOCK);
        return made;
    }

    static inline void free_lock(rmi_lock *held) {
        if (held == NULL) return;
        if (!held->rung) PyThread_release_lock(held->bell);
        PyThread_free_lock(held->bell);
        PyMem_Free(held);
    }

    static int take_patiently(rmi_lock *held) {
        PyLockStatus rung;
        while (rmi_swap(&held->state, RMI_AWAITED) != RMI_FREE) {
            Py_BEGIN_ALLOW_THREADS
            rung = PyThread_acquire_lock_timed(held->bell, -1, 1);
            Py_END_ALLOW_THREADS
            if (rung == PY_LOCK_ACQUIRED) rmi_swap(&held->rung, 0);
            /* of signals: the lock stays AWAITED, which costs whoever waits next one look too many */
            else if (Py_MakePendingCalls() < 0) return -1;
        }
        return 1;
    }

    static inline int take(rmi_lock *held, int waits) {
        if (rmi_take_free(&held->state)) return 1;
        return waits ? take_patiently(held) : 0;
    }

    static inline void let_go(rmi_lock *held) {
        if (rmi_swap(&held->state, RMI_FREE) == RMI_AWAITED && !rmi_swap(&held->rung, 1))
            PyThread_release_lock(held->bell);
        rmi_order();
    }

    /* One thread puts itself down to be woken, then asks this. Another lets go, then looks who is put down. */
    static inline int is_taken(rmi_lock *held) {
        rmi_order();
        return __atomic_load_n(&held->state, __ATOMIC_RELAXED) != RMI_FREE;
    }
    """
    ctypedef struct rmi_lock:
        pass
    rmi_lock *new_lock() except NULL
    void free_lock(rmi_lock *held) noexcept
    int take(rmi_lock *held, bint waits) except -1
    void let_go(rmi_lock *held) noexcept
    bint is_taken(rmi_lock *held) noexcept
    void order "rmi_order" () noexcept


@cython.final
cdef class Lock:
    cdef rmi_lock *_lock

    cpdef bint acquire(self, bint waits=*) except -1
    cpdef object release(self)
    cpdef bint locked(self) noexcept
