"""Each path of the comms, and connections that stay TCP and gain memory."""

from __future__ import annotations

import pytest

from ..helpers.paths import PATHS, taking


@pytest.fixture(params=PATHS)
def path(request):
    """What this test's connections take."""
    with taking(request.param):
        yield request.param
