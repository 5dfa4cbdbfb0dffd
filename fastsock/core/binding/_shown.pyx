# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
# cython: binding=False, embedsignature=True, embedsignature.format=clinic
"""What other processes of this user see of a daemon of remote objects (core/shown.h)."""
cimport cython
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy

from .shown cimport fs_shown_daemon, fs_shown_give, fs_shown_take_daemon

cdef extern from *:
    """
    #include "shown.h"

    static void note(_Atomic uint64_t *counted, uint64_t amount)
    {
    #ifdef Py_GIL_DISABLED
        atomic_fetch_add_explicit(counted, amount, memory_order_relaxed); /* several threads count at once */
    #else
        fs_count(counted, amount);
    #endif
    }

    static void note_calls(struct fs_shown_daemon *shown, uint64_t calls) { note(&shown->calls, calls); }
    static void note_error(struct fs_shown_daemon *shown) { note(&shown->errors, 1); }
    static void show_connections(struct fs_shown_daemon *shown, uint32_t connections)
    {
        atomic_store_explicit(&shown->connections, connections, memory_order_relaxed);
    }
    static void hide(struct fs_shown_daemon *shown) { atomic_store(&shown->serial, 0); }
    """
    void note_calls(fs_shown_daemon *shown, uint64_t calls) noexcept nogil
    void note_error(fs_shown_daemon *shown) noexcept nogil
    void show_connections(fs_shown_daemon *shown, uint32_t connections) noexcept nogil
    void hide(fs_shown_daemon *shown) noexcept nogil


@cython.final
cdef class ShownDaemon:
    """A daemon's place among what its process shows. Where no place is left nobody sees it, and nothing else changes.

    host: the 16 bytes of an IPv6 address; IPv4's are mapped into those.
    """

    def __cinit__(self, bytes host not None, int port):
        cdef uint64_t[2] address
        if len(host) != sizeof(address):
            raise ValueError(f"an address of {len(host)} bytes")
        memcpy(address, <const char *>host, sizeof(address))
        self.place = fs_shown_take_daemon(address, port)

    def __dealloc__(self):
        fs_shown_give(self.place)

    cdef void called(self, Py_ssize_t calls) noexcept:
        if self.place != NULL:
            note_calls(self.place, calls)

    def failed(self):
        """A call has ended with an error."""
        if self.place != NULL:
            note_error(self.place)

    def connected(self, int connections):
        """So many are open now."""
        if self.place != NULL:
            show_connections(self.place, connections)

    def close(self):
        """Nobody sees it any more. The place stays its own: a call that still runs counts there."""
        if self.place != NULL:
            hide(self.place)
