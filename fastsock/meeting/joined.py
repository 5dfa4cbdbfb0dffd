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

    from ..transport import Channel, Transport


class Joined:
    """What a connection goes on with: the path, its channel, the doorbell that becomes its descriptor, and the process.

    pid: the other end's process, 0 where it is not known. awaited: the accepting end waits for confirm().
    """

    __slots__ = ("awaited", "channel", "doorbell", "path", "pid")

    def __init__(self, path: Transport, channel: Channel, doorbell: int, pid: int = 0, awaited: bool = False) -> None:
        self.path = path
        self.channel = channel
        self.doorbell = doorbell
        self.pid = pid
        self.awaited = awaited


def confirm(joined: Joined, stream: Any) -> None:
    """The connecting end's last word, over `stream`, to which the doorbell has moved.

    Not before: once the accepting end returns, other threads may use the connecting socket too.
    """
    if joined.awaited:
        # If the accepting end has died meanwhile, the first receive finds out.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            Raw.send(stream, JOIN, _socket.MSG_NOSIGNAL)


def peer_process(doorbell: int) -> int:
    """The other end's process id. It is 0 if that end is in a PID namespace that this process cannot see.

    Raises Refused if the settings do not let the other end's user meet this one.
    """
    pid, user = unix_calls.peer(doorbell)
    if not unix_calls.is_own_user(user) and settings().peers != "any":
        raise Refused(Reason.OTHER_USER, f"the other end runs as user {user}")
    return pid
