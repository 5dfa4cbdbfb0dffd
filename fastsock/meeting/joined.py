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
    """The result of a meeting: the path, its channel, the doorbell, and the other end's process id.

    channel: None where the doorbell itself is the stream. awaited: the accepting end waits for confirm().
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
    # If the accepting end has died meanwhile, the first receive finds out.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        if joined.channel is None:
            Raw.send(stream, JOIN, _socket.MSG_NOSIGNAL)
        else:
            joined.channel.knock()


class Unusable(Refused):
    """The offered path cannot serve here. Another one may."""


# ---- the users that may meet ----


def peer_process(doorbell: int) -> int:
    """The other end's process id. It is 0 if that end is in a PID namespace that this process cannot see.

    Raises Refused if the settings do not let the other end's user meet this one.
    """
    pid, user = unix_calls.peer(doorbell)
    if not is_welcome(user):
        raise Refused(Reason.OTHER_USER, f"the other end runs as user {user}")
    return pid


def is_welcome(user: int) -> bool:
    """Whether the settings let that user be at the other end."""
    return unix_calls.is_own_user(user) or settings().peers == "any"
