"""The same numbers for Prometheus and OpenTelemetry, where their libraries are."""

from __future__ import annotations

import os
import sys

import pytest

from ..preload import compiled
from . import workers
from .talkers import talking


@compiled.needs_library
def test_prometheus():
    client = pytest.importorskip("prometheus_client")
    from fastsock.metrics.prometheus import Collector

    registry = client.CollectorRegistry()
    registry.register(Collector())
    with talking() as (_, process):
        text = client.generate_latest(registry).decode()
    mine = [line for line in text.splitlines() if f'pid="{process.pid}"' in line]
    assert f'carrier="shm",command="python",pid="{process.pid}"' in text.replace("python3", "python")
    assert [line.split()[1] for line in mine if line.startswith("fastsock_connections{")] == ["1.0"]
    assert [float(line.split()[1]) >= 200_000 for line in mine if line.startswith("fastsock_sent_bytes{")] == [True]


def test_prometheus_counts_what_ranks_and_daemons_do():
    client = pytest.importorskip("prometheus_client")
    from fastsock.metrics.prometheus import Collector

    registry = client.CollectorRegistry()
    registry.register(Collector())
    with workers.ranks(), workers.daemon() as (server, _, address):
        text = client.generate_latest(registry).decode()
    labels = f'{{address="{address}",command="{os.path.basename(sys.executable)}",pid="{server.pid}"}}'
    numbers = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert numbers[f"fastsock_daemon_connections{labels}"] == "1.0"
    assert float(numbers[f"fastsock_daemon_calls_total{labels}"]) >= 212
    assert float(numbers[f"fastsock_daemon_errors_total{labels}"]) >= 20
    collectives = [name for name in numbers if name.startswith("fastsock_rank_collectives_total{")]
    assert {rank for rank in ("0", "1") for name in collectives if f'rank="{rank}"' in name} == {"0", "1"}


@compiled.needs_library
def test_opentelemetry():
    pytest.importorskip("opentelemetry.sdk.metrics")
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    from fastsock.metrics.opentelemetry import observe

    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    observe(provider.get_meter("fastsock"))
    with talking() as (_, process), workers.daemon() as (server, _, _):
        (resource,) = reader.get_metrics_data().resource_metrics
    metrics = {metric.name: metric for scope in resource.scope_metrics for metric in scope.metrics}
    pids = {str(process.pid), str(server.pid)}
    mine = {
        name: [point.value for point in metric.data.data_points if point.attributes["pid"] in pids]
        for name, metric in metrics.items()
    }
    assert mine["fastsock_connections"] == [1, 1]
    assert max(mine["fastsock_received_bytes"]) >= 200_000
    assert mine["fastsock_daemon_connections"] == [1]
    assert mine["fastsock_daemon_calls"][0] >= 212 and metrics["fastsock_daemon_calls"].data.is_monotonic
    provider.shutdown()
