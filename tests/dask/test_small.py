"""Which messages are small without asking for their size: dask's own, not those that carry data."""

from __future__ import annotations

import numpy
import pytest

from fastsock.dask.small import is_small


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"op": "heartbeat", "metrics": {"cpu": 1.5, "memory": [1, 2, None], "who": ("a", b"b", {"c"})}},
        [{"op": "task-finished", "key": f"inc-{n}", "nbytes": 28, "type": b"x" * 100} for n in range(100)],
    ],
)
def test_plain_values_are_small(message):
    assert is_small(message)


def _holds_itself():
    message = []
    message.append(message)
    return message


@pytest.mark.parametrize(
    "message",
    [
        {"x": numpy.ones(2)},
        {"x": b"x" * (1 << 20)},
        {"x": ["x" * 1000] * 500},
        {"x": list(range(10_000))},
        {n: n for n in range(10_000)},
        {"x": object()},
        _holds_itself(),
    ],
    ids=["array", "bytes", "strings", "list", "dict", "object", "itself"],
)
def test_what_may_be_large_is_not_small(message):
    assert not is_small(message)
