"""The native core, where it could be built: `available`, and `why_not` in plain words.

C11 that knows no Python, tested alone with sanitizers and fuzzing (tests/core), under one binding. Files call
downwards only (tests/core/test_circles.py), and so do folders; everything in the package may import this one.

system, cma, cost, strided   the machine; memory of other processes; what copies cost lately; copies of memory with gaps
sockets/                     calls to the kernel about sockets, ports and pollers
stream/                      a connection: its memory, its two ends, their doorbell, waiting, leaving
remote/                      a connection to another host: what carries it, how the hosts meet
verbs/                       libibverbs and librdmacm, opened where there is a device
engine/                      messages between ranks over streams; internal.h and link.h name its files in order
active/                      active messages: frames and credits
team/                        collectives of ranks that share a memory
binding/                     where Python objects end: fastsock.core.binding._core, and what other bindings may cimport
"""

from __future__ import annotations

available = False
why_not = ""

try:
    from .binding._core import (
        ACCEPTED,
        CONNECTED,
        CUSTODY_ENDED,
        CUSTODY_HANDED,
        CUSTODY_JOINED,
        CUSTODY_PENDING,
        CUSTODY_RELAYED,
        SPAN_BROKEN,
        SPAN_OPEN,
        SPAN_WAITING,
        SPAN_WITHDRAWN,
        Channel,
        Custody,
        Engine,
        Envelope,
        Hidden,
        Matched,
        MessageError,
        Payload,
        ProtocolViolation,
        Request,
        Segment,
        Span,
        abstract_accept,
        abstract_is_own_user,
        abstract_knock,
        abstract_listen,
        abstract_pair,
        abstract_pass,
        abstract_passed,
        abstract_peer,
        abstract_reach,
        accepted,
        cache_line_round_trip_us,
        configure,
        create_segment,
        direct_copy_error,
        file_of,
        forks,
        format_system_v,
        has_rdma_device,
        is_file,
        is_selector_call,
        linger,
        monotonic,
        rdma_claim,
        rdma_leave,
        rdma_listen,
        rdma_offer,
        rdma_rendezvous,
        rdma_resume,
        rdma_usable,
        replace_watched,
        rest_threads,
        rsockets_claim,
        rsockets_listen,
        rsockets_offer,
        rsockets_usable,
        segment_bytes,
        selector_calls,
        take_port,
        watch_registered,
    )
except ImportError as error:
    why_not = (
        f"the native core is not built ({error}); install a C compiler and the Python headers, then reinstall fastsock"
    )
else:
    available = True

__all__ = [
    "ACCEPTED",
    "CONNECTED",
    "CUSTODY_ENDED",
    "CUSTODY_HANDED",
    "CUSTODY_JOINED",
    "CUSTODY_PENDING",
    "CUSTODY_RELAYED",
    "SPAN_BROKEN",
    "SPAN_OPEN",
    "SPAN_WAITING",
    "SPAN_WITHDRAWN",
    "Channel",
    "Custody",
    "Engine",
    "Envelope",
    "Hidden",
    "Matched",
    "MessageError",
    "Payload",
    "ProtocolViolation",
    "Request",
    "Segment",
    "Span",
    "abstract_accept",
    "abstract_is_own_user",
    "abstract_knock",
    "abstract_listen",
    "abstract_pair",
    "abstract_pass",
    "abstract_passed",
    "abstract_peer",
    "abstract_reach",
    "accepted",
    "available",
    "cache_line_round_trip_us",
    "configure",
    "create_segment",
    "direct_copy_error",
    "file_of",
    "forks",
    "format_system_v",
    "has_rdma_device",
    "is_file",
    "is_selector_call",
    "linger",
    "monotonic",
    "rdma_claim",
    "rdma_leave",
    "rdma_listen",
    "rdma_offer",
    "rdma_rendezvous",
    "rdma_resume",
    "rdma_usable",
    "replace_watched",
    "rest_threads",
    "rsockets_claim",
    "rsockets_listen",
    "rsockets_offer",
    "rsockets_usable",
    "segment_bytes",
    "selector_calls",
    "take_port",
    "watch_registered",
    "why_not",
]
