"""Two hosts without RDMA: network namespaces, which a test makes and removes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ..helpers import hosts


@pytest.fixture
def network() -> Iterator[hosts.Hosts]:
    """Two hosts. They share processes, users and memory, so only the network tells them apart."""
    reason = hosts.why_not()
    if reason:
        pytest.skip(reason)
    with hosts.Hosts(2) as made:
        yield made
