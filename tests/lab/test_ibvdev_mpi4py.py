"""mpi4py's own tests over fastsock.mpj on ibvdev, in the guest, and the proof that the device carried them.

The guest has no network: `python tests/mpi4py_suite/run.py --quick` outside of it fetches their sources first.
`LAB_MPI4PY_RANKS` says with how many ranks, `LAB_MPI4PY_MODULES` names modules, both with commas.
"""

from __future__ import annotations

import os
import sys
from collections import Counter

import pytest

from tests.mpi4py_suite import exclusions, running, source
from tests.mpi4py_suite.run import BAD, HERE

from .guest import Guest, only_in_full, only_in_lab

pytestmark = [only_in_lab, only_in_full]

# What messages can break: the rest of mpi4py's tests is the same on every device.
_CORE = (
    "test_p2p_buf,test_p2p_obj,test_p2p_buf_matched,test_p2p_obj_matched,test_msgzero,test_cco_obj,"
    "test_cco_buf,test_cco_vec,test_cco_nb_buf,test_cco_nb_vec,test_comm,test_comm_inter"
)
MODULES = os.environ.get("LAB_MPI4PY_MODULES", _CORE).split(",")
RANKS = [int(number) for number in os.environ.get("LAB_MPI4PY_RANKS", "2,4").split(",")]
SECONDS = 900.0


@pytest.fixture(scope="module")
def sources():
    try:
        return source.tests(HERE / ".source")
    except source.SourceError:
        pytest.skip("mpi4py's sources are not there: run tests/mpi4py_suite/run.py --quick outside of the guest")


@pytest.mark.timeout(0)  # `running` has the limit, and ends the ranks with it
@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("module", MODULES)
def test_module(sources, module, ranks):
    guest = Guest()
    if guest.net == "wire" or not all(map(guest.counts, guest.devices())):
        pytest.skip("needs SoftRoCE in one guest: its counter is the proof")
    command = (sys.executable, "-m", "fastsock.mpj.run", "-n", "{ranks}", "--timeout", "{limit}", "--as-mpi4py")
    way = running.Way("ibvdev", (*command, "--device", "ibvdev"))
    left_out = [entry.test for entry in exclusions.read(HERE / "exclusions.toml") if "." in entry.test]
    before = sum(map(guest.sent_packets, guest.devices()))
    found = running.run_module(way, sources, module, ranks, left_out, SECONDS)
    packets = sum(map(guest.sent_packets, guest.devices())) - before
    outcomes = Counter(outcome.outcome for outcome in found.outcomes.values())
    print(f"\n{module}, {ranks} ranks: {dict(outcomes)}, {packets} packets, {found.seconds:.0f} s")
    bad = {test: outcome for test, outcome in found.outcomes.items() if outcome.outcome in BAD}
    assert not found.trouble, found.trouble
    assert not bad, "\n".join(f"{test}: {outcome}" for test, outcome in bad.items())
    assert outcomes["pass"] and packets > 0
