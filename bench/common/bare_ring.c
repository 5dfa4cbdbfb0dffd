/* A measuring stick, not a product: two bare rings over shared memory and nothing of a socket's contract.
 *
 * It shows what two Python processes can reach through an extension module at all: no meeting, no readiness, no
 * hang-up, no check of the peer; a wait spins for 50 us without the interpreter's lock and then sleeps. `ping` and `pong` do the same
 * exchange within C, so that the difference is what Python's own call costs. */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MARKS = 4096, CHUNK = 64 * 1024, LOOKS = 64, SPIN_NS = 50000 };

typedef struct {
    _Alignas(128) _Atomic uint64_t head; /* bytes written so far: the producer's */
    _Alignas(128) _Atomic uint64_t tail; /* bytes read so far: the consumer's */
    _Alignas(128) _Atomic uint32_t reader_sleeps;
    _Alignas(128) _Atomic uint32_t writer_sleeps;
} Marks;

typedef struct {
    PyObject_HEAD
    Py_buffer memory;
    Marks *out, *in;
    char *out_data, *in_data;
    uint64_t size, head, tail; /* our own ends */
    uint64_t seen_tail, seen_head; /* the other's, as last read */
} Ring;

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static uint64_t space(Ring *r) {
    if (r->head - r->seen_tail == r->size) r->seen_tail = atomic_load_explicit(&r->out->tail, memory_order_acquire);
    return r->size - (r->head - r->seen_tail);
}

static uint64_t filled(Ring *r) {
    if (r->seen_head == r->tail) r->seen_head = atomic_load_explicit(&r->in->head, memory_order_acquire);
    return r->seen_head - r->tail;
}

/* After the other's index has moved: the fence orders that before the look at its flag. */
static inline void wake(_Atomic uint32_t *sleeps) {
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(sleeps, memory_order_relaxed) && atomic_exchange(sleeps, 0))
        syscall(SYS_futex, sleeps, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void wait_for(Ring *r, uint64_t (*ready)(Ring *), _Atomic uint32_t *sleeps) {
    double end = 0;
    for (unsigned looks = 1;; looks++) {
        if (ready(r)) return;
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
        if (looks % LOOKS) continue;
        double now = now_ns();
        if (!end) end = now + SPIN_NS;
        if (now < end) continue;
        atomic_store(sleeps, 1);
        if (!ready(r)) syscall(SYS_futex, sleeps, FUTEX_WAIT, 1, NULL, NULL, 0);
        atomic_store(sleeps, 0);
        end = 0;
    }
}

static inline uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Each puts or takes at most a chunk, so that both ends' copies overlap, and returns the count; 0 means wait. */
static inline size_t put(Ring *r, const char *from, size_t n) {
    uint64_t at = r->head & (r->size - 1), k = least(least(n, CHUNK), least(space(r), r->size - at));
    if (!k) return 0;
    memcpy(r->out_data + at, from, k);
    r->head += k;
    atomic_store_explicit(&r->out->head, r->head, memory_order_release);
    wake(&r->out->reader_sleeps);
    return k;
}

static inline size_t take(Ring *r, char *to, size_t n) {
    uint64_t at = r->tail & (r->size - 1), k = least(least(n, CHUNK), least(filled(r), r->size - at));
    if (!k) return 0;
    memcpy(to, r->in_data + at, k);
    r->tail += k;
    atomic_store_explicit(&r->in->tail, r->tail, memory_order_release);
    wake(&r->in->writer_sleeps);
    return k;
}

static void put_all(Ring *r, const char *from, size_t n) {
    for (size_t k; n; from += k, n -= k)
        if (!(k = put(r, from, n))) wait_for(r, space, &r->out->writer_sleeps);
}

static void take_all(Ring *r, char *to, size_t n) {
    for (size_t k; n; to += k, n -= k)
        if (!(k = take(r, to, n))) wait_for(r, filled, &r->in->reader_sleeps);
}

static PyObject *ring_send(Ring *r, PyObject *data) {
    Py_buffer b;
    if (PyObject_GetBuffer(data, &b, PyBUF_SIMPLE)) return NULL;
    size_t done = put(r, b.buf, b.len);
    if (done < (size_t)b.len) { /* as a socket does: the interpreter's lock is not held while waiting */
        Py_BEGIN_ALLOW_THREADS
        put_all(r, (char *)b.buf + done, b.len - done);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&b);
    Py_RETURN_NONE;
}

static PyObject *ring_recv_into(Ring *r, PyObject *data) {
    Py_buffer b;
    if (PyObject_GetBuffer(data, &b, PyBUF_WRITABLE)) return NULL;
    size_t done = 0;
    if (b.len && !filled(r)) {
        Py_BEGIN_ALLOW_THREADS
        wait_for(r, filled, &r->in->reader_sleeps);
        Py_END_ALLOW_THREADS
    }
    for (size_t k; done < (size_t)b.len && (k = take(r, (char *)b.buf + done, b.len - done)); done += k) {}
    PyBuffer_Release(&b);
    return PyLong_FromSize_t(done);
}

/* ping(buffer, warm, count) -> seconds of count exchanges; pong(buffer, warm, count) answers them. */
static PyObject *exchange(Ring *r, PyObject *args, int first) {
    Py_buffer b;
    Py_ssize_t warm, count;
    if (!PyArg_ParseTuple(args, "w*nn", &b, &warm, &count)) return NULL;
    double start = 0;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < warm + count; i++) {
        if (i == warm) start = now_ns();
        if (first) put_all(r, b.buf, b.len);
        take_all(r, b.buf, b.len);
        if (!first) put_all(r, b.buf, b.len);
    }
    start = now_ns() - start;
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&b);
    return PyFloat_FromDouble(start * 1e-9);
}

static PyObject *ring_ping(Ring *r, PyObject *args) { return exchange(r, args, 1); }
static PyObject *ring_pong(Ring *r, PyObject *args) { return exchange(r, args, 0); }

/* Ring(memory, role): memory is shared and zeroed, role is 0 or 1; half of the memory goes each way. */
static int ring_init(Ring *r, PyObject *args, PyObject *keywords) {
    int role;
    (void)keywords;
    if (!PyArg_ParseTuple(args, "w*i", &r->memory, &role)) return -1;
    size_t half = (size_t)r->memory.len / 2;
    size_t size = half - MARKS;
    if (half <= MARKS || size & (size - 1) || role < 0 || role > 1) {
        PyErr_SetString(PyExc_ValueError, "needs twice 4 KiB and a power of two, and the role 0 or 1");
        return -1;
    }
    char *out = (char *)r->memory.buf + half * role, *in = (char *)r->memory.buf + half * !role;
    r->out = (Marks *)out, r->in = (Marks *)in;
    r->out_data = out + MARKS, r->in_data = in + MARKS;
    r->size = size;
    return 0;
}

static void ring_dealloc(Ring *r) {
    if (r->memory.obj) PyBuffer_Release(&r->memory);
    Py_TYPE(r)->tp_free((PyObject *)r);
}

static PyMethodDef ring_methods[] = {
    {"send", (PyCFunction)ring_send, METH_O, "send(data): wait until all of it is in the ring"},
    {"recv_into", (PyCFunction)ring_recv_into, METH_O, "recv_into(buffer) -> bytes taken, at least one"},
    {"ping", (PyCFunction)ring_ping, METH_VARARGS, "ping(buffer, warm, count) -> seconds"},
    {"pong", (PyCFunction)ring_pong, METH_VARARGS, "pong(buffer, warm, count) -> seconds"},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject RingType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "bare_ring.Ring",
    .tp_basicsize = sizeof(Ring),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)ring_init,
    .tp_dealloc = (destructor)ring_dealloc,
    .tp_methods = ring_methods,
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "bare_ring", .m_size = -1};

PyMODINIT_FUNC PyInit_bare_ring(void) {
    PyObject *m;
    if (PyType_Ready(&RingType) || !(m = PyModule_Create(&module))) return NULL;
    Py_INCREF(&RingType);
    if (PyModule_AddObject(m, "Ring", (PyObject *)&RingType)) return NULL;
    return m;
}
