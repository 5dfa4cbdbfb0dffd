"""Observable gauges of OpenTelemetry: observe(get_meter("fastsock"))."""

from __future__ import annotations

import threading
import time

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from ..top.rows import Watcher
from . import CONNECTIONS, COUNTS, LABELS, Look

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_SAME = 0.5  # seconds in which all gauges tell of one look


def observe(meter: Meter) -> None:
    """Make a gauge for each number; the meter asks them."""
    looks = _Looks()
    for (name, what), of in [(CONNECTIONS, None), *((told, each) for each, told in COUNTS.items())]:
        meter.create_observable_gauge(name, [_asked(looks, of)], description=what)


class _Looks:
    """One look serves all gauges of one export."""

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


def _asked(looks: _Looks, of: str | None) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def ask(_: CallbackOptions) -> Iterable[Observation]:
        look = looks.last()
        sums = look.connections if of is None else look.counts[of]
        return [Observation(value, dict(zip(LABELS, labels, strict=True))) for labels, value in sums.items()]

    return ask
