"""Windows whose members are on two hosts: those of one host reach each other's memory, the others by messages."""

from __future__ import annotations

import pytest

from ..helpers.hosts import Hosts
from ..mpj import ranks as local
from ..mpj.windows import test_model, ways
from .test_ranks import all_right, ranks

WAYS = ["", ways.OWN, ways.MESSAGES]
KINDS = """
window = MPI.Win.Allocate(80 * (rank + 1), 8, comm=comm)
near = comm.Split_type(MPI.COMM_TYPE_SHARED)
memory = np.frombuffer(window, "d")
assert len(memory) == 10 * (rank + 1) and not memory.any()
reached = window.ob._near.exposed if window.ob._near else {{rank: None}}
assert sorted(reached) == (near.allgather(rank) if {maps} else [rank]), reached
window.Lock_all()
for target in range(size):
    before = window.ob.targets[target].sent
    window.Put(np.full(1, rank + 1.0), target, rank)
    assert (window.ob.targets[target].sent > before) == (target not in reached)
    window.Accumulate(np.ones(1), target, size)
window.Unlock_all()
comm.Barrier()
assert (memory[: size + 1] == [1, 2, 3, 4, 4]).all(), memory
window.Free()
"""
RIGHT = """
print(rank, "right")
"""


@pytest.mark.parametrize("way", WAYS)
def test_who_is_reached_without_messages(network: Hosts, tmp_path, way):
    text = ways.before(way) + KINDS.format(maps=way != ways.MESSAGES) + RIGHT
    with ranks(network, tmp_path, 4, text) as runner:
        all_right(runner, 4)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("count", [2, 4])
def test_random_programs(network: Hosts, tmp_path, way, count):
    text = "SEEDS, ROUNDS = range(20, 30), 6\n" + ways.before(way) + local.source_of(test_model.program) + RIGHT
    with ranks(network, tmp_path, count, text) as runner:
        all_right(runner, count)
