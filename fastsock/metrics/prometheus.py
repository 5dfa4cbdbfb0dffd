"""A collector for Prometheus' client: REGISTRY.register(Collector())."""

from __future__ import annotations

from prometheus_client.core import GaugeMetricFamily

from ..top.rows import Watcher
from . import CONNECTIONS, COUNTS, LABELS, Look

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
        return [_family(*each) for each in (CONNECTIONS, *COUNTS.values())]

    def collect(self) -> Iterator[Any]:
        """What there is now."""
        look = Look(self._watcher)
        yield _family(*CONNECTIONS, look.connections)
        for name, told in COUNTS.items():
            yield _family(*told, look.counts[name])


def _family(name: str, what: str, sums: dict[tuple[str, ...], int] | None = None) -> Any:
    made = GaugeMetricFamily(name, what, labels=LABELS)
    for labels, value in (sums or {}).items():
        made.add_metric(labels, value)
    return made
