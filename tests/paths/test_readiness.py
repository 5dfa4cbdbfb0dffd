"""Level- and edge-triggered readiness under a random schedule, against plain TCP as the model.

FASTSOCK_SOAK=1 runs many more schedules. The fixed scenarios are `readiness` in the conformance suite.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from fastsock import config

from ..helpers.paths import maker_of
from .readiness_model import Schedule


def test_random_schedule(kind):
    class OnThisPath(Schedule):
        maker = maker_of(kind)

    if kind != "plain":
        config.configure(meeting_ms=20_000)  # of hundreds of connections none may lapse, however busy the machine
    long = bool(os.environ.get("FASTSOCK_SOAK"))
    run_state_machine_as_test(
        OnThisPath,
        settings=settings(
            max_examples=2000 if long else 60,
            stateful_step_count=60 if long else 40,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
