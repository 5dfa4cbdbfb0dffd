"""The tcp path: the connection as the kernel made it. It always works and is every chain's last resort."""

from __future__ import annotations

from .transport import Capability, Transport


class TcpTransport(Transport):
    name = "tcp"
    capabilities = Capability.SAME_HOST
