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
        Listening,
        Matched,
        MessageError,
        Patience,
        Payload,
        ProtocolViolation,
        Request,
        Segment,
        abstract_accept,
        abstract_is_own_user,
        abstract_knock,
        abstract_listen,
        abstract_peer,
        abstract_reach,
        bind_class,
        cache_line_round_trip_us,
        configure,
        create_segment,
        direct_copy_error,
        format_system_v,
        monotonic,
        ready_among,
        segment_bytes,
        settle_all,
        staying_begin,
        staying_last,
        staying_note,
        staying_remember,
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
    "Listening",
    "Matched",
    "MessageError",
    "Patience",
    "Payload",
    "ProtocolViolation",
    "Request",
    "Segment",
    "abstract_accept",
    "abstract_is_own_user",
    "abstract_knock",
    "abstract_listen",
    "abstract_peer",
    "abstract_reach",
    "available",
    "bind_class",
    "cache_line_round_trip_us",
    "configure",
    "create_segment",
    "direct_copy_error",
    "format_system_v",
    "monotonic",
    "ready_among",
    "segment_bytes",
    "settle_all",
    "staying_begin",
    "staying_last",
    "staying_note",
    "staying_remember",
    "why_not",
]
