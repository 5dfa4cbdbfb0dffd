"""The numbers of `fastsock top` for monitoring systems. Both sides are imported by the program that wants them.

    from prometheus_client import REGISTRY
    from fastsock.metrics.prometheus import Collector
    REGISTRY.register(Collector())

    from opentelemetry.metrics import get_meter
    from fastsock.metrics.opentelemetry import observe
    observe(get_meter("fastsock"))

Each scrape looks once at all processes of this user that run fastsock. Labels name the process, its command and the
carrier, not the connection: their number stays small. Those of a rank name its job too, those of a daemon its address.

Tests: tests/top/test_metrics.py.
"""

from __future__ import annotations

import os

from ..top.view import address_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..top.rows import Row, Watcher
    from ..top.work import DaemonRow, RankRow


class Metric:
    """grows: it never falls while its process lives. labels: their names."""

    def __init__(self, name: str, what: str, labels: tuple[str, ...], grows: bool = False) -> None:
        self.name = name
        self.what = what
        self.labels = labels
        self.grows = grows


_CONNECTION = ("pid", "command", "carrier")
_RANK = ("job", "rank", "pid", "command")
_DAEMON = ("pid", "command", "address")
_OPEN = Metric("fastsock_connections", "Open TCP connections of processes that run fastsock", _CONNECTION)
# a connection takes its counts with it: so none of these only grows
_OF_CONNECTIONS = {
    "bytes_out": ("fastsock_sent_bytes", "Payload bytes sent by connections that are open"),
    "bytes_in": ("fastsock_received_bytes", "Payload bytes received by connections that are open"),
    "messages_out": ("fastsock_sent_messages", "Calls that sent by memory, of connections that are open"),
    "messages_in": ("fastsock_received_messages", "Calls that received by memory, of connections that are open"),
    "waits": ("fastsock_waits", "How often a receiver slept, of connections that are open"),
    "wakes": ("fastsock_wakes", "How often an end woke the other one, of connections that are open"),
}
_OF_RANKS = {
    "bytes_out": ("fastsock_rank_sent_bytes", "Bytes of messages that a rank has sent"),
    "bytes_in": ("fastsock_rank_received_bytes", "Bytes of messages that a rank has received"),
    "messages_out": ("fastsock_rank_sent_messages", "Messages that a rank has sent"),
    "messages_in": ("fastsock_rank_received_messages", "Messages that a rank has received"),
    "collectives": ("fastsock_rank_collectives", "Collective calls that a rank has begun"),
}
_OF_DAEMONS = {
    "calls": ("fastsock_daemon_calls", "Calls of remote objects that have come"),
    "errors": ("fastsock_daemon_errors", "Calls of remote objects that ended with an error"),
}
_CLIENTS = Metric("fastsock_daemon_connections", "Open connections of a daemon of remote objects", _DAEMON)
_COUNTS = {
    **{("connection", each): Metric(*told, _CONNECTION) for each, told in _OF_CONNECTIONS.items()},
    **{("rank", each): Metric(*told, _RANK, grows=True) for each, told in _OF_RANKS.items()},
    **{("daemon", each): Metric(*told, _DAEMON, grows=True) for each, told in _OF_DAEMONS.items()},
}
METRICS = (_OPEN, *_COUNTS.values(), _CLIENTS)


class Look:
    """One look: of each metric the sums of what has the same labels."""

    def __init__(self, watcher: Watcher) -> None:
        self.sums: dict[Metric, dict[tuple[str, ...], int]] = {metric: {} for metric in METRICS}
        for row in watcher.look():
            labels = (str(row.pid), _program(row), row.carrier)
            self._add(_OPEN, labels, 1)
            self._add_counts("connection", row, labels)
        for rank in watcher.work.ranks:
            self._add_counts("rank", rank, (rank.job, str(rank.rank), str(rank.pid), _program(rank)))
        for daemon in watcher.work.daemons:
            labels = (str(daemon.pid), _program(daemon), address_text(daemon.address))
            self._add(_CLIENTS, labels, daemon.connections)
            self._add_counts("daemon", daemon, labels)

    def _add_counts(self, of: str, row: Row | RankRow | DaemonRow, labels: tuple[str, ...]) -> None:
        for (what, name), metric in _COUNTS.items():
            if what == of:
                self._add(metric, labels, getattr(row, name) or 0)

    def _add(self, metric: Metric, labels: tuple[str, ...], value: int) -> None:
        sums = self.sums[metric]
        sums[labels] = sums.get(labels, 0) + value


def _program(row: Row | RankRow | DaemonRow) -> str:
    return os.path.basename(row.command.partition(" ")[0])
