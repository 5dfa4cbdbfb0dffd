"""What needs memory or many descriptors. It runs where FASTSOCK_SOAK is set."""

from __future__ import annotations

import os

import pytest

from fastsock import rmi

pytestmark = [
    pytest.mark.skipif(not os.environ.get("FASTSOCK_SOAK"), reason="takes gigabytes and minutes: set FASTSOCK_SOAK=1"),
    pytest.mark.timeout(900),
]


def test_two_gigabytes(begin):
    """rpyc #329."""
    limits = {"limits": rmi.Limits(frame=3 << 30)}
    store = begin(**limits).connect(**limits)
    assert store.size(bytes(2 << 30)) == 2 << 30


def test_a_thousand_idle_clients(served):
    idle = [served.connect() for _ in range(1000)]
    assert [each.add(1, 2) for each in idle] == [3] * 1000
    assert served.connect(timeout=5.0).add(1, 2) == 3
