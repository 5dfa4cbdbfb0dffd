"""The one exception of devices, and what kinds of failure it tells apart."""

from __future__ import annotations

import enum

from ..core.binding import _requests as core

XxdevError = core.MessageError
"""What every method of devices and requests raises: `code` is a Code, `peer` a rank or -1, the text says what to do."""


class Code(enum.IntEnum):
    """`XxdevError.code`; the first ones are the native core's own."""

    TRUNCATED = core.TRUNCATED
    PEER_FAILED = core.PEER_FAILED
    PROTOCOL = core.PROTOCOL
    CANCELLED = core.CANCELLED
    CLOSED = core.CLOSED
    NO_MEMORY = core.NO_MEMORY
    ARGUMENT = 100
    DATATYPE = 101
    UNREACHABLE = 102
    REFUSED = 103


def failed(code: Code, text: str, peer: int = -1) -> OSError:
    """An XxdevError."""
    error: OSError = XxdevError(code, peer, text)
    return error
