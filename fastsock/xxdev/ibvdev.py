"""ibvdev: a queue pair of RDMA verbs for each pair of ranks, as in section 4 of the paper on ibvdev.

Its library IBVX is the core's: core/verbs has the device and its queues, and the engine has the messages. A rank
connects by TCP, as on iodev. Over that connection the two ends tell each other where their queue pairs are. Then
nothing goes over it, and its end is the peer's end.
"""

from __future__ import annotations

import errno
import socket

from .errors import Code, failed
from .networked import NetworkedDevice
from .tcp_connections import TcpConnections

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .connections import Connections

_ADVICE = {
    errno.ENOSYS: "fastsock was built without the headers of libibverbs and librdmacm: install libibverbs-dev and "
    "librdmacm-dev, then fastsock again",
    errno.ENODEV: "no RDMA device has an active port: see `fastsock doctor`",
    errno.ENOENT: "libibverbs or librdmacm is not installed",
    errno.ENOMEM: "too little memory may be locked: see `ulimit -l`",
    errno.ENOSPC: "the device has no room for so many ranks' segments",
    errno.EPERM: "a child of this process could corrupt its queue pairs: the kernel is too old",
    errno.EOPNOTSUPP: "the device has no shared receive queues",
}
_NOT_PINNED = {
    errno.ENODEV: "the device is not open",
    errno.ENOMEM: "no more memory may be locked: see `ulimit -l` and FASTSOCK_MPJ_RDMA_MEMORY",
    errno.EOPNOTSUPP: "with FASTSOCK_MPJ_RDMA_RENDEZVOUS=read each message is registered for itself; or the kernel "
    "does not tell when memory is unmapped",
}


class Ibvdev(NetworkedDevice):
    """Messages over RDMA: for ranks whose hosts one RDMA network joins."""

    name = "ibvdev"

    def connect_with(self) -> Connections:
        settings = self.settings
        device = settings.rdma_device or None
        offers, rings = settings.rdma_rendezvous == "read", settings.rdma_eager == "write"
        try:
            self.engine.open_verbs(
                device, self.job.interface, settings.rdma_memory, settings.rdma_keeps_memory, offers, rings
            )
        except OSError as error:
            why = _ADVICE.get(error.errno or 0, error.strerror)
            which = f"the RDMA device {device}" if device else "an RDMA device"
            raise failed(Code.UNREACHABLE, f"{self.name}: rank {self.job.rank} cannot open {which}: {why}") from error
        return _QueuePairs(self.job, self.engine, settings)

    def pin(self, address: int, nbytes: int) -> None:
        """The RDMA device knows that memory until unpin(), and sends from there use that. Raises XxdevError."""
        try:
            self._running().pin(address, nbytes, True)
        except OSError as error:
            why = _NOT_PINNED.get(error.errno or 0, error.strerror)
            raise failed(Code.UNREACHABLE, f"{self.name}: memory cannot be registered: {why}") from error

    def unpin(self, address: int, nbytes: int) -> None:
        """Undoes pin(). A device that was closed has forgotten it."""
        if self.engine is not None:
            self.engine.pin(address, nbytes, False)

    def explain(self, peer: int) -> Any:
        """What the queue pair carried so far, and its device, a dictionary; None before the first message."""
        engine = self.engine
        counts = None if engine is None else engine.verbs_counts(peer)
        return None if counts is None else {"transport": "verbs", **counts}


class _QueuePairs(TcpConnections):
    """The queue pair ends with the connection."""

    kind = socket.socket
    nowhere = "a queue pair"

    def meet(self, sock: Any, listener: Any, address: Any) -> None:
        self.prepare(sock)

    def settle(self, peer: int, sock: Any, offered: Any, sent: bytes) -> None:
        try:
            self.engine.attach_verbs(peer, sock.fileno())
        except OSError as error:
            why = _ADVICE.get(error.errno or 0)
            if why is None:
                raise
            raise failed(Code.UNREACHABLE, f"no queue pair to {self.name(peer)}: {why}", peer) from error
        sock.detach()  # the descriptor is the engine's now
