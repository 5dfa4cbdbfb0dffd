"""A collector for Prometheus' client: REGISTRY.register(Collector())."""

from __future__ import annotations

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from ..top.rows import Watcher
from . import METRICS, Look, Metric

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


class Collector:
    """Looks at each scrape."""

    def __init__(self) -> None:
        self._watcher = Watcher()

    def describe(self) -> list[Any]:
        """Nothing is looked at when it is registered."""
        return [_family(metric, {}) for metric in METRICS]

    def collect(self) -> Iterator[Any]:
        """What there is now."""
        for metric, sums in Look(self._watcher).sums.items():
            yield _family(metric, sums)


def _family(metric: Metric, sums: dict[tuple[str, ...], int]) -> Any:
    kind = CounterMetricFamily if metric.grows else GaugeMetricFamily
    made = kind(metric.name, metric.what, labels=metric.labels)
    for labels, value in sums.items():
        made.add_metric(labels, value)
    return made
