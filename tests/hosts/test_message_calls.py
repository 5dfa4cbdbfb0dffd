"""The compiled path of blocking calls by messages, among ranks on a host each, does what the general one does."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..helpers import hosts
from .test_ranks import all_right, ranks

CALLS = """
import itertools
from fastsock.mpj.collectives.bcast import SPREADS
from fastsock.mpj.collectives.table import TABLE
from fastsock.mpj.communicators.declining import NO_TEAM
comm.Barrier()  # the first call finds where the members are
fast = comm.ob.team_calls
ways = {"fast": fast, "general": NO_TEAM, "mixed": fast if rank % 2 else NO_TEAM}
def outcomes(call):
    found = []
    for way in ways.values():
        comm.ob.team_calls = way
        found.append(call())
    comm.ob.team_calls = fast
    return found
def values(kind, count, seed):
    return np.random.default_rng([seed, rank]).integers(0, 2 if kind == "?" else 4, count).astype(kind)
def bcast(kind, count, root):
    def call():
        data = values(kind, count, 1)
        comm.Bcast([data, MPI.Datatype.fromcode(kind)] if count % 2 else data, root)
        return data.tobytes()
    one, *others = outcomes(call)
    assert all(one == other for other in others), (kind, count, root)
def allreduce(kind, count, op, in_place):
    def call():
        own, into = values(kind, count, 2), values(kind, count, 2) if in_place else np.zeros(count, kind)
        comm.Allreduce(MPI.IN_PLACE if in_place else own, into, op)
        assert (own == values(kind, count, 2)).all(), "what is sent was written over"
        return into.tobytes()
    one, *others = outcomes(call)
    assert all(one == other for other in others), (kind, count, op.name, in_place)
for kind, count in itertools.product("bdF?", (0, 1, 33, 9_000)):
    for root in range(size):
        bcast(kind, count, root)
    for op, in_place in itertools.product((MPI.LAND,) if kind == "?" else (MPI.SUM, MPI.PROD), (False, True)):
        allreduce(kind, count, op, in_place)
allreduce("l", 5, MPI.REPLACE, False)
bcast("d", 150_000, size - 1)
allreduce("d", 150_000, MPI.MIN, True)
for function in SPREADS:
    TABLE.force("bcast", function.__name__)
    assert fast.bcast(np.zeros(3), 0)
    for count, root in itertools.product((1, 9_000), range(size)):
        bcast("d", count, root)
TABLE.force("bcast", "scatter_bucket")
assert not fast.bcast(np.zeros(3), 0)
bcast("d", 1000, 0)
TABLE.force("bcast", None)
TABLE.force("allreduce", "bidirectional_exchange")
assert fast.allreduce(np.zeros(3), np.zeros(3), MPI.SUM) == (size & (size - 1) == 0)
if size & (size - 1):
    comm.Allreduce(np.zeros(3), np.zeros(3))
for count, in_place in itertools.product((1, 9_000), (False, True)):
    allreduce("d", count, MPI.SUM, in_place)
TABLE.force("allreduce", "reduce_broadcast")
assert not fast.allreduce(np.zeros(3), np.zeros(3), MPI.SUM)
TABLE.force("allreduce", None)
TABLE.force("bcast", "flat_tree")
try:
    comm.Bcast(np.zeros(4 if rank == 0 else 3), 0)
except MPI.Exception as error:
    assert rank and error.Get_error_class() == MPI.ERR_TRUNCATE
else:
    assert rank == 0
print(rank, "right")
"""


@pytest.mark.parametrize("count", [2, 3, 4])
def test_as_the_general_path(tmp_path: Path, count: int) -> None:
    reason = hosts.why_not()
    if reason:
        pytest.skip(reason)
    with hosts.Hosts(count) as network, ranks(network, tmp_path, count, CALLS) as runner:
        all_right(runner, count)
