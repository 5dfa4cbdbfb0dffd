"""CPython's own test_socket under the launcher, its servers at the device's address and the rdma path preferred.

`tests/lab/run --seconds 1500 -- python -m pytest -n 0 -s tests/lab/test_cpython.py`; with `--pair` within host h1.
The referee of tests/cpython compares it test by test with a plain run at the same address.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from fastsock.rdma import RdmaTransport

from ..helpers.scripts import ROOT
from .guest import Guest, only_in_full, only_in_lab

pytestmark = [
    only_in_lab,
    only_in_full,
    pytest.mark.skipif(RdmaTransport().usable() is not None, reason=f"no RDMA here: {RdmaTransport().usable()}"),
]

MATCH = os.environ.get("LAB_MATCH", "*")  # of the tests' ids: to run one of them
PATIENCE = 1400  # seconds: the guest's processor is emulated


@pytest.mark.timeout(PATIENCE)
def test_no_test_of_socket_fails_that_passes_plain() -> None:
    guest = Guest()
    if not (guest.serves and guest.connects):
        pytest.skip("needs both ends in one guest")
    if not guest.counts(guest.devices()[0]):
        pytest.skip("the rdma path does not take soft iWARP")
    before = sum(map(guest.sent_packets, guest.devices()))
    words = ["--host", guest.address, "--path", "rdma", "--modules", "test_socket", "--match", MATCH, "--times", "2"]
    command = [*guest.at_h1, sys.executable, str(ROOT / "tests/cpython/run.py"), *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "FASTSOCK_MEETING_MS": "3000"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=PATIENCE)
    packets = sum(map(guest.sent_packets, guest.devices())) - before
    print(f"\n{done.stdout}\npackets of RDMA: {packets}")
    assert done.returncode == 0, "see the report above"
    if MATCH == "*":
        assert packets > 1000
