"""The answers of `fastsock.explain()` and `fastsock.connections()`."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..connection import registry
from ..transport import Reason

COPIED = (None, "ring", "receiver copied", "both ends copied")  # a large block, by the core's number for it


@dataclasses.dataclass(frozen=True)
class Explanation:
    """One connection.

    transport: "shm", "unix", "sdp" or "tcp"; "plain" for a socket that is no TCP stream. reason: the text of a
    `Reason`. role: "connect", "accept", "received" or "none". state: "open" or "closed". bytes_*: payload bytes of this
    end. A count is None where the path does not keep it. detail: the server's activity when the reason came about, in
    words for people. It is empty if that is not known. large_sent, large_received: how the last large block
    (FASTSOCK_DIRECT_MIN) went and came: "ring", "receiver copied" or "both ends copied". None: no such block, or
    another path.
    """

    transport: str
    reason: str
    role: str
    state: str
    local: Any
    peer: Any
    peer_pid: int | None
    pid: int
    bytes_sent: int | None
    bytes_received: int | None
    bytes_direct: int | None  # of both: copied from process to process, past the ring
    waits: int | None
    wakes: int | None
    detail: str = ""
    bytes_written: int | None = None  # by the sender, while the receiver copied others; perhaps in vain
    large_sent: str | None = None
    large_received: str | None = None


def explain(sock: Any) -> Explanation:
    """The path of `sock` and the reason. Takes any socket: for one that is no TCP stream, transport is "plain"."""
    connection = getattr(sock, "_fast_connection", None)
    if connection is not None:
        return _explained(connection)
    transport = getattr(sock, "transport", "plain")
    reason = Reason.NOT_CONNECTED if transport == "tcp" else Reason.NOT_A_TCP_STREAM
    return Explanation(transport, str(reason), "none", "open" if sock.fileno() >= 0 else "closed",
                       None, None, None, 0, None, None, None, None, None)  # fmt: skip


def connections() -> list[Explanation]:
    """The open connections of this process, then the last 1,000 closed ones."""
    return [_explained(connection) for connection in registry.connections()]


def _explained(connection: registry.Connection) -> Explanation:
    registry.look_again(connection)
    counts = connection.counts()
    transport, reason, peer_pid = connection.transport, connection.reason, connection.peer_pid
    detail = connection.detail
    kept = connection.kept  # once: another thread may settle it
    if kept is not None:
        transport, reason, peer_pid = kept.told()
        detail = kept.detail()
    return Explanation(
        transport=transport,
        reason=str(reason),
        role=connection.role,
        state="open" if registry.is_open(connection) else "closed",
        local=connection.local,
        peer=connection.peer,
        peer_pid=peer_pid,
        pid=connection.pid,
        bytes_sent=counts.get("bytes_sent"),
        bytes_received=counts.get("bytes_received"),
        bytes_direct=counts.get("bytes_direct"),
        waits=counts.get("waits"),
        wakes=counts.get("wakes"),
        detail=detail,
        bytes_written=counts.get("bytes_written"),
        large_sent=COPIED[counts.get("large_sent", 0)],
        large_received=COPIED[counts.get("large_received", 0)],
    )
