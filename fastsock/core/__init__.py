"""The native core, where it could be built: `available`, and `why_not` in plain words.

C11 that knows no Python, tested alone with sanitizers and fuzzing (tests/core), under one binding. Files call
downwards only (tests/core/test_circles.py), and so do folders; everything in the package may import this one.

system, cma, cost, looking   the machine; memory of other processes; what copies cost lately; how long a wait looks
patience                     how a rank waits for another one in memory that both map
orphan                       a process that nobody has to wait for
sealed                       memory that processes share, and that stays as long as it was
parts, strided               bytes in several parts of memory; copies of memory with gaps
sockets/                     calls to the kernel about sockets, ports and pollers
stream/                      a connection: its memory, its two ends, their doorbell, waiting, leaving
remote/                      a connection to another host: what carries it, how the hosts meet
verbs/                       libibverbs and librdmacm, opened where there is a device
engine/                      messages between ranks over streams; internal.h and link.h name its files in order
active/                      active messages: frames and credits
registered/                  buffers that go from process to process: memory, loans, frames
team/                        collectives of ranks that share a memory
window/                      one-sided communication of ranks that share a memory
binding/                     where Python objects end: modules of Cython, which other compiled modules may cimport
"""

from __future__ import annotations

import os
import sys

from . import binding

available = False
why_not = ""

_LIBRARY = "libfastsock_preload.so"


def _choose() -> None:
    """Where the preloaded library is there, and of this build, its core is the one of this process (core/beside.h)."""
    if _LIBRARY not in os.environ.get("LD_PRELOAD", "") and os.environ.get("FASTSOCK_CHILDREN") != "0":
        return
    own = binding.__path__
    binding.__path__ = [os.path.join(os.path.dirname(__file__), "preload"), *own]
    try:
        from .binding import _core  # noqa: F401
    except ImportError:
        pass  # its own core, for which the library stands aside
    finally:
        binding.__path__ = own


_choose()
try:
    binding.load()
    from .binding._channel import ACCEPTED, CONNECTED, Channel
    from .binding._core import (
        ProtocolViolation,
        cache_line_round_trip_us,
        configure,
        direct_copy_error,
        expect_blocks,
        looked,
        monotonic,
    )
    from .binding._ends import Segment, create_segment, format_system_v, segment_bytes
    from .binding._engine import Engine
    from .binding._exports import Exporter, Memory, TypedExport
    from .binding._messages import Matched
    from .binding._registered import (
        IMPORTER_CONNECTION_BITS,
        LEDGER_BYTES,
        LEDGER_SLOTS,
        LOAN_AWAY,
        LOAN_RETURNED,
        MEMO_BYTES,
        MEMO_FORGET,
        MEMO_HELLO,
        MEMO_MEMORY,
        PARCEL_BYTES,
        PARCEL_COPY,
        PARCEL_HAND,
        PARCEL_LEND,
        ExportLink,
        ImportLink,
        Ledger,
        Lendable,
        borrow,
        pack_memo,
        pack_parcel,
        unpack_memo,
        unpack_parcel,
    )
    from .binding._remote import (
        SPAN_BROKEN,
        SPAN_OPEN,
        SPAN_WAITING,
        SPAN_WITHDRAWN,
        Span,
        has_rdma_device,
        rdma_claim,
        rdma_leave,
        rdma_listen,
        rdma_offer,
        rdma_rendezvous,
        rdma_resume,
        rdma_usable,
        rsockets_claim,
        rsockets_listen,
        rsockets_offer,
        rsockets_usable,
    )
    from .binding._requests import Envelope, MessageError, Payload, Request
    from .binding._system import (
        OwnedDescriptor,
        abstract_accept,
        abstract_is_own_user,
        abstract_pair,
        abstract_peer,
        abstract_reach,
        end_with_parent,
        file_of,
        is_file,
        replace_watched,
        take_port,
    )
except ImportError as error:
    why_not = (
        f"the native core is not built ({error}); install a C compiler and the Python headers, then reinstall fastsock"
        if sys.platform == "linux"
        else f"the native core is made of what Linux alone has, and this is {sys.platform}"
    )
else:
    available = True

__all__ = [
    "ACCEPTED",
    "CONNECTED",
    "IMPORTER_CONNECTION_BITS",
    "LEDGER_BYTES",
    "LEDGER_SLOTS",
    "LOAN_AWAY",
    "LOAN_RETURNED",
    "MEMO_BYTES",
    "MEMO_FORGET",
    "MEMO_HELLO",
    "MEMO_MEMORY",
    "PARCEL_BYTES",
    "PARCEL_COPY",
    "PARCEL_HAND",
    "PARCEL_LEND",
    "SPAN_BROKEN",
    "SPAN_OPEN",
    "SPAN_WAITING",
    "SPAN_WITHDRAWN",
    "Channel",
    "Engine",
    "Envelope",
    "ExportLink",
    "Exporter",
    "ImportLink",
    "Ledger",
    "Lendable",
    "Matched",
    "Memory",
    "MessageError",
    "OwnedDescriptor",
    "Payload",
    "ProtocolViolation",
    "Request",
    "Segment",
    "Span",
    "TypedExport",
    "abstract_accept",
    "abstract_is_own_user",
    "abstract_pair",
    "abstract_peer",
    "abstract_reach",
    "available",
    "borrow",
    "cache_line_round_trip_us",
    "configure",
    "create_segment",
    "direct_copy_error",
    "end_with_parent",
    "expect_blocks",
    "file_of",
    "format_system_v",
    "has_rdma_device",
    "is_file",
    "looked",
    "monotonic",
    "pack_memo",
    "pack_parcel",
    "rdma_claim",
    "rdma_leave",
    "rdma_listen",
    "rdma_offer",
    "rdma_rendezvous",
    "rdma_resume",
    "rdma_usable",
    "replace_watched",
    "rsockets_claim",
    "rsockets_listen",
    "rsockets_offer",
    "rsockets_usable",
    "segment_bytes",
    "take_port",
    "unpack_memo",
    "unpack_parcel",
    "why_not",
]
