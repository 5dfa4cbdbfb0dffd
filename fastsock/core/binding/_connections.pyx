# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
# cython: binding=False, embedsignature=True, embedsignature.format=clinic
"""TCP connections that gain memory: what is known of them, for reports, and when their ends look for each other."""
from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EINTR
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free, malloc

from ._core cimport deadline_after
from .switch cimport (
    FS_ATTACHED, FS_CLOSED_KEPT, FS_OFFERED, FS_OWNED, FS_PEERS_ANY, FS_PEERS_OWN, FS_RELEASED, FS_TCP_ONLY,
    fs_answering_go_on, fs_answering_rest, fs_beside_reports, fs_candidate_attach, fs_candidate_never,
    fs_candidate_settings, fs_candidates_set, fs_carriers, fs_closed, fs_closed_address, fs_closed_attached,
    fs_closed_keep, fs_closed_list, fs_closed_look, fs_connection, fs_owned_is_possible, fs_table_find,
)


def python_reports(bint python):
    """Whether Python tells of all connections, and the preloaded library of none."""
    fs_beside_reports(python)


def rest_answering():
    """Before a fork: ends the native thread that answers for a program that makes no call."""
    with nogil:
        fs_answering_rest()


def go_on_answering():
    """After the fork, in the parent: starts it again."""
    with nogil:
        fs_answering_go_on()


# ---- what is known of a connection, for reports ----

cdef extern from *:
    """
    #include <arpa/inet.h>

    /* as the socket module shows it; NULL: an error is set */
    static PyObject *fs_shown_address(const union fs_closed_address *address)
    {
        char host[INET6_ADDRSTRLEN];
        if (address->any.sa_family == AF_INET && inet_ntop(AF_INET, &address->four.sin_addr, host, sizeof host))
            return Py_BuildValue("(si)", host, ntohs(address->four.sin_port));
        if (address->any.sa_family == AF_INET6 && inet_ntop(AF_INET6, &address->six.sin6_addr, host, sizeof host))
            return Py_BuildValue("(siII)", host, ntohs(address->six.sin6_port), ntohl(address->six.sin6_flowinfo),
                                 address->six.sin6_scope_id);
        Py_RETURN_NONE;
    }
    """
    object fs_shown_address(const fs_closed_address *address)

cdef tuple ROLES = ("received", "connect", "accept")


cdef dict shown(const fs_closed *seen):
    cdef const fs_carriers *carriers = &seen.carriers
    return {
        "role": ROLES[seen.role], "attached": carriers.state in (FS_ATTACHED, FS_OWNED), "offered": carriers.state == FS_OFFERED,
        "released": carriers.state == FS_RELEASED, "never": carriers.state == FS_TCP_ONLY,
        "ring_in": bool(carriers.in_ring), "ring_out": bool(carriers.out_ring), "since": carriers.since_ns / 1e9,
        "tcp_bytes_in": carriers.tcp_in, "tcp_bytes_out": carriers.tcp_out,
        "ring_bytes_in": carriers.ring_in, "ring_bytes_out": carriers.ring_out,
        "direct": carriers.direct, "written": carriers.written,
        "large_in": carriers.large_in, "large_out": carriers.large_out, "waits": carriers.waits, "wakes": carriers.wakes, "peer_pid": carriers.peer or None,
        "switches": carriers.switches, "spills": carriers.spills,
        "why": <int>seen.why, "calls": seen.threshold.calls, "lesson": <int>seen.threshold.lesson,
        "local": fs_shown_address(&seen.own), "peer": fs_shown_address(&seen.other),
    }


def connection_seen(int descriptor):
    """What the core knows of the number's stream, by name, or None."""
    cdef fs_connection *connection = fs_table_find(descriptor)
    cdef fs_closed seen
    if connection == NULL:
        return None
    fs_closed_look(connection, descriptor, &seen)
    return shown(&seen)


def closed_connections():
    """The same of those that were closed last, the oldest first."""
    cdef fs_closed *seen = <fs_closed *>malloc(FS_CLOSED_KEPT * sizeof(fs_closed))
    cdef size_t i, count
    if seen == NULL:
        raise MemoryError
    try:
        count = fs_closed_list(seen)
        return [shown(&seen[i]) for i in range(count)]
    finally:
        free(seen)


def closed_attached():
    """How many were closed that had memory."""
    return fs_closed_attached()


def keep_closed(bint all_of_them):
    """Whether all connections are kept when they are closed, or those that have memory."""
    fs_closed_keep(all_of_them)


# ---- when the two ends look for each other ----

def set_candidates(*, bint never, bint learns, uint32_t calls, uint64_t length, uint32_t ring_bytes, bint any_user, bint hides,
                   double spin_us, size_t direct_min):
    """From how many calls, or bytes, of a direction on a connection looks for its other end. never: none does by itself.

    learns: that goes by the lives of the last connections, and by no fixed number. hides: no counts for `fastsock top`.
    """
    cdef fs_candidate_settings settings
    settings.never = never
    settings.learns = learns
    settings.calls = calls
    settings.bytes = length
    settings.ring_bytes = ring_bytes
    settings.peers = FS_PEERS_ANY if any_user else FS_PEERS_OWN
    settings.hides = hides
    settings.limits.spin_us = spin_us
    settings.limits.direct_min = direct_min
    settings.limits.peer = 0
    with nogil:
        fs_candidates_set(&settings)


def is_in_memory(int descriptor):
    """Whether both directions of the number's stream go through memory, and each reader reads there."""
    cdef fs_connection *connection = fs_table_find(descriptor)
    return connection != NULL and bool(fs_owned_is_possible(connection, descriptor))


def keep_on_tcp(int descriptor):
    """The number's connection does not look for its other end by itself."""
    cdef fs_connection *connection = fs_table_find(descriptor)
    if connection != NULL:
        fs_candidate_never(connection)


def attach_memory(int descriptor, double seconds):
    """Looks for the other end until then. Whether it was found. Signals are heard."""
    cdef fs_connection *connection = fs_table_find(descriptor)
    cdef uint64_t deadline = deadline_after(seconds)
    cdef int result
    if connection == NULL:
        return False
    while True:
        with nogil:
            result = fs_candidate_attach(connection, descriptor, deadline)
        PyErr_CheckSignals()
        if result != -EINTR:
            return result == 0
