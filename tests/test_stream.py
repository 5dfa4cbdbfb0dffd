"""The whole stream contract, on every path, in both roles, and on plain TCP as the reference."""

from __future__ import annotations

import pytest

from fastsock import testing


@pytest.mark.parametrize("check", testing.checks(), ids=testing.name)
def test_stream(check, maker):
    check(maker)
