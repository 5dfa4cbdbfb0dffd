"""Observable gauges and counters of OpenTelemetry: observe(get_meter("fastsock"))."""

from __future__ import annotations

import threading
import time

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from ..top.rows import Watcher
from . import METRICS, Look, Metric

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_SAME = 0.5  # seconds in which all of them tell of one look


def observe(meter: Meter) -> None:
    """Make an instrument for each number; the meter asks them."""
    looks = _Looks()
    for metric in METRICS:
        make = meter.create_observable_counter if metric.grows else meter.create_observable_gauge
        make(metric.name, [_asked(looks, metric)], description=metric.what)


class _Looks:
    """One look serves all instruments of one export."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watcher = Watcher()
        self._look: Look | None = None
        self._at = 0.0

    def last(self) -> Look:
        with self._lock:
            if self._look is None or time.monotonic() - self._at > _SAME:
                self._look, self._at = Look(self._watcher), time.monotonic()
            return self._look


def _asked(looks: _Looks, metric: Metric) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def ask(_: CallbackOptions) -> Iterable[Observation]:
        sums = looks.last().sums[metric]
        return [Observation(value, dict(zip(metric.labels, labels, strict=True))) for labels, value in sums.items()]

    return ask
