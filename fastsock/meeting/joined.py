"""The result of a meeting, and the check of the other end's user."""

from __future__ import annotations

import _socket
import contextlib

from ..config import settings
from ..transport import Reason, Refused
from . import unix_calls
from .hello import JOIN
from .unix_calls import Raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..transport import Channel


class Joined:
    """What a meeting gave: the path, its channel (None: the doorbell is the stream), the doorbell, the other's pid.

    awaited: the accepting end waits for confirm().
    """

    __slots__ = ("awaited", "channel", "doorbell", "path", "pid")

    def __init__(self, path: Any, channel: Channel | None, doorbell: int, pid: int, awaited: bool) -> None:
        self.path = path
        self.channel = channel
        self.doorbell = doorbell
        self.pid = pid
        self.awaited = awaited


def confirm(joined: Joined, stream: Any) -> None:
    """The connecting end's last word, over `stream`, to which the doorbell has moved.

    Not before: once the accepting end returns, other threads may use the connecting socket too.
    """
    if not joined.awaited:
        return
    # an accepting end that died meanwhile is found dead by the first receive
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        if joined.channel is None:
            Raw.send(stream, JOIN, _socket.MSG_NOSIGNAL)
        else:
            joined.channel.knock()


class Unusable(Refused):
    """The offered path cannot serve here. Another one may."""


# ---- who may ----


def peer_process(doorbell: int) -> int:
    """The other end's process, 0 where its number means nothing here: in a PID namespace that this one cannot see.

    Raises Refused.
    """
    pid, user = unix_calls.peer(doorbell)
    if not is_welcome(user):
        raise Refused(Reason.OTHER_USER, f"user {user}")
    return pid


def is_welcome(user: int) -> bool:
    """Whether the settings let that user be at the other end."""
    return unix_calls.is_own_user(user) or settings().peers == "any"
