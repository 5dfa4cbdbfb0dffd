"""The short form of the soak; the long one is `python -m tests.soak --minutes 5 --connections 200`."""

from __future__ import annotations

import os

import pytest

from ..helpers.paths import carriers_of, maker_of
from ..soak.many import many
from ..soak.run import soak

LONG = bool(os.environ.get("FASTSOCK_SOAK"))


@pytest.mark.timeout(900 if LONG else 120)
def test_soak(kind):
    result = soak(maker_of(kind), 300.0 if LONG else 6.0, 200 if LONG else 40)
    assert not result.problems, str(result)
    if kind != "plain":
        # On a busy machine offers lapse, and for a while the listener is not asked again; most must take the path.
        taken = sum(result.by_transport.get(carrier, 0) for carrier in carriers_of(kind))
        assert taken > 0.5 * sum(result.by_transport.values()), str(result)


@pytest.mark.timeout(7200 if LONG else 120)
@pytest.mark.parametrize("after", (("0", "0"), ("1", "5")), ids="-".join)
@pytest.mark.parametrize("path", ("plain", "shm"))
def test_many_short_connections_change_their_carrier(path, after):
    told = many(path, range(100_000 if LONG else 700), after)
    if path == "shm":
        assert min(told["gained"], told["gained there"]) > told["connections"] // 10
