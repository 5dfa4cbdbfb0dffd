"""The numbers of `fastsock top` for monitoring systems. Both sides are imported by the program that wants them.

    from prometheus_client import REGISTRY
    from fastsock.metrics.prometheus import Collector
    REGISTRY.register(Collector())

    from opentelemetry.metrics import get_meter
    from fastsock.metrics.opentelemetry import observe
    observe(get_meter("fastsock"))

Each scrape looks once at all processes of this user that run fastsock. Labels name the process, its command and the
carrier, not the connection: their number stays small.

Tests: tests/top/test_metrics.py.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..top.rows import Row, Watcher

# name and what it is. A connection takes its counts with it: so none of them only grows
CONNECTIONS = ("fastsock_connections", "Open TCP connections of processes that run fastsock")
COUNTS = {
    "bytes_out": ("fastsock_sent_bytes", "Payload bytes sent by connections that are open"),
    "bytes_in": ("fastsock_received_bytes", "Payload bytes received by connections that are open"),
    "messages_out": ("fastsock_sent_messages", "Calls that sent by memory, of connections that are open"),
    "messages_in": ("fastsock_received_messages", "Calls that received by memory, of connections that are open"),
    "waits": ("fastsock_waits", "How often a receiver slept, of connections that are open"),
    "wakes": ("fastsock_wakes", "How often an end woke the other one, of connections that are open"),
}
LABELS = ("pid", "command", "carrier")


class Look:
    """One look: the sums of the connections with the same labels."""

    def __init__(self, watcher: Watcher) -> None:
        self.connections: dict[tuple[str, ...], int] = {}
        self.counts: dict[str, dict[tuple[str, ...], int]] = {name: {} for name in COUNTS}
        for row in watcher.look():
            self._add(row)

    def _add(self, row: Row) -> None:
        labels = (str(row.pid), os.path.basename(row.command.partition(" ")[0]), row.carrier)
        self.connections[labels] = self.connections.get(labels, 0) + 1
        for name, sums in self.counts.items():
            sums[labels] = sums.get(labels, 0) + (getattr(row, name) or 0)
