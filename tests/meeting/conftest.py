"""Connections that leave TCP before connect() returns, whatever the settings outside say: their two ends must meet."""

from __future__ import annotations

import pytest

from ..helpers.paths import LEAVING_PATHS, taking


@pytest.fixture(autouse=True)
def _leaves_tcp(leaves_tcp):
    """Each test of the folder."""


@pytest.fixture(params=LEAVING_PATHS)
def path(request, leaves_tcp):
    """As in tests/conftest.py."""
    with taking(request.param):
        yield request.param


@pytest.fixture(params=("plain", *LEAVING_PATHS))
def kind(request, leaves_tcp):
    """As in tests/conftest.py."""
    if request.param == "plain":
        yield "plain"
        return
    with taking(request.param):
        yield request.param
