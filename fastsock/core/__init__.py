"""The native core, where it could be built: `available`, and `why_not` in plain words."""

from __future__ import annotations

available = False
why_not = ""

try:
    from ._core import (
        ACCEPTED,
        CONNECTED,
        Channel,
        Engine,
        Envelope,
        Matched,
        MessageError,
        Patience,
        Payload,
        ProtocolViolation,
        Request,
        Segment,
        abstract_accept,
        abstract_exists,
        abstract_listen,
        abstract_peer,
        abstract_reach,
        cache_line_round_trip_us,
        configure,
        create_segment,
        direct_copy_error,
        format_system_v,
        ready_among,
        segment_bytes,
        settle_all,
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
    "Channel",
    "Engine",
    "Envelope",
    "Matched",
    "MessageError",
    "Patience",
    "Payload",
    "ProtocolViolation",
    "Request",
    "Segment",
    "abstract_accept",
    "abstract_exists",
    "abstract_listen",
    "abstract_peer",
    "abstract_reach",
    "available",
    "cache_line_round_trip_us",
    "configure",
    "create_segment",
    "direct_copy_error",
    "format_system_v",
    "ready_among",
    "segment_bytes",
    "settle_all",
    "why_not",
]
