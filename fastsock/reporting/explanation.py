"""The answers of `fastsock.explain()` and `fastsock.connections()`."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..connection import carriers, registry
from ..transport import Reason, Refused

COPIED = (None, "ring", "receiver copied", "both ends copied")  # a large block, by the core's number for it


@dataclasses.dataclass(frozen=True)
class Explanation:
    """One connection.

    transport: "shm", "tcp" or another path's name; "unix" once foreign code has the number of a connection that had
    left TCP; "plain" for a socket that is no TCP stream. reason: the text of a `Reason`. role: "connect", "accept",
    "received" or "none". state: "open" or "closed". bytes_*: payload bytes of this end. A count is None where the
    path does not keep it. detail: more of the reason, in words for people. It is empty if that is not known.
    large_sent, large_received: how the last large block (FASTSOCK_DIRECT_MIN) went and came: "ring", "receiver
    copied" or "both ends copied". None: no such block, or another path.

    Of a connection that stays TCP and may gain memory: sent_by, received_by: what carries that direction now, "tcp" or
    "shm". bytes_by_memory: of both directions. switches: how often the sent one has changed its
    carrier. spills: how often it did so because there was no room.
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
    sent_by: str | None = None
    received_by: str | None = None
    bytes_by_memory: int | None = None
    switches: int | None = None
    spills: int | None = None


def explain(sock: Any) -> Explanation:
    """The path of `sock` and the reason. Takes any socket: for one that is no TCP stream, transport is "plain"."""
    connection = getattr(sock, "_fast_connection", None)
    if connection is not None:
        return _explained(connection)
    seen = carriers.seen_of(sock)
    if seen is not None:
        return _refused(_explained_stream(seen), getattr(sock, "_fast_refused", None))
    transport = getattr(sock, "transport", "plain")
    reason = Reason.NOT_CONNECTED if transport == "tcp" else Reason.NOT_A_TCP_STREAM
    return Explanation(transport, str(reason), "none", "open" if sock.fileno() >= 0 else "closed",
                       None, None, None, 0, None, None, None, None, None)  # fmt: skip


def connections() -> list[Explanation]:
    """The open connections of this process, then the last 1,000 closed ones."""
    rows = [_explained(connection) for connection in registry.connections()]
    return rows + [_explained_stream(seen) for seen in carriers.all_seen()]


def totals() -> dict[str, int]:
    """How many connections this process made or accepted, by path."""
    found = registry.totals()
    for path, count in carriers.totals().items():
        if count:
            found[path] = found.get(path, 0) + count
    return found


def _explained_stream(seen: carriers.Seen) -> Explanation:
    found = seen.found
    memory = found if found["attached"] else {}
    return Explanation(
        transport=seen.transport,
        reason=str(seen.reason),
        role=found["role"],
        state=seen.state,
        local=seen.found["local"],
        peer=seen.found["peer"],
        peer_pid=memory.get("peer_pid"),
        pid=seen.pid,
        bytes_sent=found["tcp_bytes_out"] + found["ring_bytes_out"],
        bytes_received=found["tcp_bytes_in"] + found["ring_bytes_in"],
        bytes_direct=memory.get("direct"),
        waits=memory.get("waits"),
        wakes=memory.get("wakes"),
        detail=seen.detail,
        bytes_written=memory.get("written"),
        large_sent=COPIED[memory.get("large_out", 0)],
        large_received=COPIED[memory.get("large_in", 0)],
        sent_by="shm" if found["ring_out"] else "tcp",
        received_by="shm" if found["ring_in"] else "tcp",
        bytes_by_memory=found["ring_bytes_in"] + found["ring_bytes_out"],
        switches=found["switches"],
        spills=found["spills"],
    )


def _refused(explanation: Explanation, refused: Refused | None) -> Explanation:
    """Of a connection on TCP that might have taken a path to another host: why it did not."""
    if refused is None or explanation.transport != "tcp":
        return explanation
    return dataclasses.replace(explanation, reason=str(refused.reason), detail=refused.detail)


def _explained(connection: registry.Connection) -> Explanation:
    registry.look_again(connection)
    counts = connection.counts()
    transport, reason, peer_pid = connection.transport, connection.reason, connection.peer_pid
    detail = connection.detail
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
