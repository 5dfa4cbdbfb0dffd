"""Each path of the comms, and connections that stay TCP and gain memory."""

from __future__ import annotations

import pytest

from ..helpers.paths import PATHS, UPGRADE, preferring, why_not


@pytest.fixture(params=(*PATHS, UPGRADE))
def path(request):
    """What this test's connections take."""
    reason = why_not(request.param)
    if reason:
        pytest.skip(reason)
    with preferring(request.param):
        yield request.param
