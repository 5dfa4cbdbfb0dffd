"""The rdma path: the whole stream contract over verbs, on the kernel's software devices.

`tests/lab/run -- python -m pytest -n 0 -s tests/lab/test_rdma.py` on SoftRoCE; with `--pair` between two hosts.

The device's own counter of packets proves how the bytes travelled.
"""

from __future__ import annotations

import pytest

from fastsock import testing
from fastsock.rdma import RdmaTransport

from . import contract
from .guest import only_in_lab

MAKER = contract.maker_of("rdma")

pytestmark = [
    only_in_lab,
    contract.LIMIT,
    pytest.mark.skipif(RdmaTransport().usable() is not None, reason=f"no RDMA here: {RdmaTransport().usable()}"),
]


@pytest.fixture(autouse=True)
def _by_rdma(monkeypatch):
    with contract.taking("rdma", monkeypatch):
        yield


@pytest.fixture(scope="module", autouse=True)
def _on_the_near_host():
    with contract.on_the_near_host("rdma"):
        yield


@pytest.mark.parametrize("role", ["connects", "accepts"])
@pytest.mark.parametrize("check", contract.checks_of(RdmaTransport, MAKER), ids=testing.name)
def test_the_stream_contract(check, role, request):
    contract.hold(check, MAKER, role, request)
