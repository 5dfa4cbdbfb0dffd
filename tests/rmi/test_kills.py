"""The short form of `python -m tests.rmi.kills`, on every path."""

from __future__ import annotations

import os

import pytest

from . import kills

CALLS = 10_000 if os.environ.get("FASTSOCK_SOAK") else 50


@pytest.mark.timeout(3600 if CALLS > 50 else 300)
@pytest.mark.parametrize("seed", range(2))
def test_kills_of_either_end(path, seed):
    found, calls = kills.run(CALLS, seed)
    assert found >= 4
    assert calls >= CALLS
