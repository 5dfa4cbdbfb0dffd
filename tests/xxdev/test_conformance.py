"""The conformance suite of devices, on each of them."""

from __future__ import annotations

import pytest

from fastsock.testing import name, ranks

DEVICES = ("iodev", "sysvdev", "smpdev")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("check", ranks.device_checks(), ids=name)
def test_device(check, device):
    check(ranks.RankMaker(device))
