"""The same numbers for Prometheus and OpenTelemetry, where their libraries are."""

from __future__ import annotations

import pytest

from ..preload import compiled
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


@compiled.needs_library
def test_opentelemetry():
    pytest.importorskip("opentelemetry.sdk.metrics")
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    from fastsock.metrics.opentelemetry import observe

    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    observe(provider.get_meter("fastsock"))
    with talking() as (_, process):
        (resource,) = reader.get_metrics_data().resource_metrics
    metrics = {metric.name: metric for scope in resource.scope_metrics for metric in scope.metrics}
    mine = {
        name: [point.value for point in metric.data.data_points if point.attributes["pid"] == str(process.pid)]
        for name, metric in metrics.items()
    }
    assert mine["fastsock_connections"] == [1]
    assert mine["fastsock_received_bytes"][0] >= 200_000
    provider.shutdown()
