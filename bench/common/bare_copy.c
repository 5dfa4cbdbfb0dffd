/* A measuring stick, not a product: blocks copied from process to process past any ring, and nothing of a socket's contract.
 *
 * The receiver reads the sender's memory (process_vm_readv). With `both` the sender writes the receiver's at the same time
 * (process_vm_writev): each claims the next piece until none is left. Each end waits for the other by looking, whoever
 * dies. */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/uio.h>
#include <unistd.h>

enum { SHORTEST_PIECE = 16 * 1024, LONGEST_PIECE = 128 * 1024, LOOKS = 4096 };

typedef struct {
    _Alignas(128) _Atomic uint64_t published; /* the sender's: how many blocks, then what and where the last one is */
    uint64_t source, length, sender;
    _Alignas(128) _Atomic uint64_t joined; /* the receiver's */
    uint64_t target, receiver;
    _Atomic uint64_t left; /* how many blocks the receiver is done with: until then their counts below stay */
    _Alignas(128) _Atomic uint64_t next;
    _Alignas(128) _Atomic uint64_t done;
} Way;

typedef struct {
    PyObject_HEAD
    Py_buffer memory;
    Way *out, *in;
    uint64_t sent, received;
    int both;
} Copy;

static inline void await_value(_Atomic uint64_t *word, uint64_t value) {
    for (unsigned looks = 1; atomic_load_explicit(word, memory_order_acquire) != value; looks++) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
        if (looks % LOOKS == 0) sched_yield();
    }
}

/* Eighths, so that neither end waits long for the other's last one. */
static uint64_t piece_of(uint64_t length) {
    uint64_t piece = SHORTEST_PIECE;
    while (piece < LONGEST_PIECE && piece * 8 < length) piece *= 2;
    return piece;
}

/* Until nothing is left to claim: 0, or an errno. */
static int copy_pieces(Way *way, int writes) {
    uint64_t length = way->length, piece = piece_of(length), at;
    while ((at = atomic_fetch_add(&way->next, piece)) < length) {
        uint64_t part = length - at < piece ? length - at : piece;
        struct iovec source = {(char *)way->source + at, part}, target = {(char *)way->target + at, part};
        ssize_t got = writes ? process_vm_writev((pid_t)way->receiver, &source, 1, &target, 1, 0)
                             : process_vm_readv((pid_t)way->sender, &target, 1, &source, 1, 0);
        if (got != (ssize_t)part) return got < 0 ? errno : EFAULT;
        atomic_fetch_add(&way->done, part);
    }
    return 0;
}

static PyObject *answer(int error, uint64_t length) {
    if (!error) return PyLong_FromUnsignedLongLong(length);
    errno = error;
    return PyErr_SetFromErrno(PyExc_OSError);
}

static PyObject *copy_send(Copy *c, PyObject *data) {
    Py_buffer b;
    int error = 0;
    if (PyObject_GetBuffer(data, &b, PyBUF_SIMPLE)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    Way *way = c->out;
    await_value(&way->left, c->sent);
    atomic_store_explicit(&way->next, 0, memory_order_relaxed);
    atomic_store_explicit(&way->done, 0, memory_order_relaxed);
    way->source = (uint64_t)b.buf, way->length = (uint64_t)b.len, way->sender = (uint64_t)getpid();
    atomic_store_explicit(&way->published, ++c->sent, memory_order_release);
    if (c->both) {
        await_value(&way->joined, c->sent);
        error = copy_pieces(way, 1);
    }
    if (!error) await_value(&way->done, (uint64_t)b.len);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&b);
    return answer(error, (uint64_t)b.len);
}

/* The buffer is as long as the block that comes. */
static PyObject *copy_recv_into(Copy *c, PyObject *data) {
    Py_buffer b;
    int error = 0;
    if (PyObject_GetBuffer(data, &b, PyBUF_WRITABLE)) return NULL;
    Way *way = c->in;
    Py_BEGIN_ALLOW_THREADS
    await_value(&way->published, ++c->received);
    if (way->length > (uint64_t)b.len) error = EMSGSIZE;
    way->target = (uint64_t)b.buf, way->receiver = (uint64_t)getpid();
    atomic_store_explicit(&way->joined, c->received, memory_order_release);
    if (!error) error = copy_pieces(way, 0);
    if (!error) await_value(&way->done, (uint64_t)b.len);
    atomic_store_explicit(&way->left, c->received, memory_order_release);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&b);
    return answer(error, (uint64_t)b.len);
}

/* Copy(memory, role, both): memory is shared and zeroed, role is 0 or 1. */
static int copy_init(Copy *c, PyObject *args, PyObject *keywords) {
    int role;
    (void)keywords;
    if (!PyArg_ParseTuple(args, "w*ip", &c->memory, &role, &c->both)) return -1;
    if ((size_t)c->memory.len < 2 * sizeof(Way) || role < 0 || role > 1) {
        PyErr_SetString(PyExc_ValueError, "needs more memory, and the role 0 or 1");
        return -1;
    }
    Way *ways = c->memory.buf;
    c->out = &ways[role], c->in = &ways[!role];
    return 0;
}

static void copy_dealloc(Copy *c) {
    if (c->memory.obj) PyBuffer_Release(&c->memory);
    Py_TYPE(c)->tp_free((PyObject *)c);
}

static PyMethodDef copy_methods[] = {
    {"send", (PyCFunction)copy_send, METH_O, "send(data): wait until all of it is over there"},
    {"recv_into", (PyCFunction)copy_recv_into, METH_O, "recv_into(buffer) -> bytes taken: a whole block"},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject CopyType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "bare_copy.Copy",
    .tp_basicsize = sizeof(Copy),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)copy_init,
    .tp_dealloc = (destructor)copy_dealloc,
    .tp_methods = copy_methods,
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "bare_copy", .m_size = -1};

PyMODINIT_FUNC PyInit_bare_copy(void) {
    PyObject *m;
    if (PyType_Ready(&CopyType) || !(m = PyModule_Create(&module))) return NULL;
    Py_INCREF(&CopyType);
    if (PyModule_AddObject(m, "Copy", (PyObject *)&CopyType)) return NULL;
    return m;
}
