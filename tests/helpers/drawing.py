"""hypothesis goes through products of values in one test: it draws each once, in an order of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

_ROOM = 4  # what is drawn twice counts, too


def each_of(**values: Sequence[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A test of every combination of these values. Fixtures are made once for all of them."""
    every = math.prod(map(len, values.values()))
    drawn = given(**{name: st.sampled_from(some) for name, some in values.items()})
    once = settings(max_examples=_ROOM * every, database=None, suppress_health_check=list(HealthCheck))

    def wrap(test: Callable[..., None]) -> Callable[..., None]:
        return once(drawn(test))

    return wrap
