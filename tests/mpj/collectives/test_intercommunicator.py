"""Collectives between two groups, and among neighbours: blocking rules on a simulator, all at once."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastsock.mpj.collectives import blocks, intercommunicator, neighbour_allgather, neighbour_alltoall
from fastsock.mpj.collectives.exchange import Inter
from fastsock.mpj.collectives.intercommunicator import PROC_NULL, ROOT

from .operations import Product, Sum, reduced
from .simulator import World


class Groups:
    """Two groups of ranks; `arguments(group, rank)` gives a call's arguments."""

    def __init__(self, first, second, seed):
        self.world = World(first + second, seed)
        self.sizes = (first, second)
        ranks = (range(first), range(first, first + second))
        self.inters = []
        for group in (0, 1):
            members = self.world.members(ranks=ranks[group], context=3)
            self.inters += [Inter(member, ranks[1 - group], 5) for member in members]
        self.places = [(group, rank) for group in (0, 1) for rank in range(self.sizes[group])]

    def run(self, name, arguments):
        collective = getattr(intercommunicator, name)
        self.world.run(
            [
                collective.steps(inter.exchange(), *arguments(group, rank))
                for inter, (group, rank) in zip(self.inters, self.places, strict=True)
            ]
        )


def view(data):
    return memoryview(data)


@given(first=st.integers(1, 4), second=st.integers(1, 4), seed=st.integers(0, 999), root=st.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_with_a_root(first, second, seed, root):
    groups = Groups(first, second, seed)
    root %= first
    chance = random.Random(seed)
    there = [bytearray(chance.randbytes(8)) for _ in range(second)]
    operation = Product()

    def role(group, rank):
        return root if group else ROOT if rank == root else PROC_NULL

    groups.run("barrier", lambda group, rank: ())
    told = [bytearray(8) for _ in range(second)]
    given_ = bytearray(b"fastsock")
    groups.run("bcast", lambda g, r: (view(told[r]) if g else view(given_), role(g, r)))
    assert all(data == given_ for data in told)

    whole = bytearray(8 * second)
    at_root = blocks.equal(view(whole), second)
    groups.run("gather", lambda g, r: (view(there[r]) if g else None, None if g else at_root, role(g, r)))
    assert whole == b"".join(there)

    parts = [bytearray(8) for _ in range(second)]
    groups.run("scatter", lambda g, r: (None if g else at_root, view(parts[r]) if g else None, role(g, r)))
    assert parts == there

    result = bytearray(8)
    groups.run(
        "reduce", lambda g, r: (view(there[r]) if g else None, None if g else view(result), operation, role(g, r))
    )
    assert result == reduced(operation, there)


@given(first=st.integers(1, 4), second=st.integers(1, 4), seed=st.integers(0, 999))
@settings(max_examples=40, deadline=None)
def test_both_ways(first, second, seed):
    groups = Groups(first, second, seed)
    chance = random.Random(seed)
    sizes = groups.sizes
    own = [[bytearray(chance.randbytes(8)) for _ in range(size)] for size in sizes]

    got = [[bytearray(8 * sizes[1 - group]) for _ in range(sizes[group])] for group in (0, 1)]
    groups.run("allgather", lambda g, r: (view(own[g][r]), blocks.equal(view(got[g][r]), sizes[1 - g])))
    assert all(data == b"".join(own[1 - group]) for group in (0, 1) for data in got[group])

    rows = [[bytearray(chance.randbytes(3 * sizes[1 - group])) for _ in range(sizes[group])] for group in (0, 1)]
    came = [[bytearray(3 * sizes[1 - group]) for _ in range(sizes[group])] for group in (0, 1)]
    groups.run(
        "alltoall",
        lambda g, r: (blocks.equal(view(rows[g][r]), sizes[1 - g]), blocks.equal(view(came[g][r]), sizes[1 - g])),
    )
    for group in (0, 1):
        for rank, data in enumerate(came[group]):
            assert data == b"".join(row[3 * rank : 3 * rank + 3] for row in rows[1 - group])

    for operation in (Sum(), Product()):
        sums = [[bytearray(8) for _ in range(size)] for size in sizes]
        groups.run("allreduce", lambda g, r, to=sums, op=operation: (view(own[g][r]), view(to[g][r]), op))
        assert all(data == reduced(operation, own[1 - group]) for group in (0, 1) for data in sums[group])

    total = 4 * sizes[0] * sizes[1]  # both groups have vectors of one length
    vectors = [[bytearray(chance.randbytes(total)) for _ in range(size)] for size in sizes]
    parts = [[bytearray(total // size) for _ in range(size)] for size in sizes]
    groups.run(
        "reduce_scatter",
        lambda g, r: (
            view(vectors[g][r]),
            view(parts[g][r]),
            range(0, total + 1, total // sizes[g]),
            Product(),
        ),
    )
    for group in (0, 1):
        assert b"".join(parts[group]) == reduced(Product(), vectors[1 - group])


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_a_ring_of_neighbours_gets_from_each_side_what_that_side_gave(size):
    """Also where both neighbours are the same rank, or oneself."""
    world = World(size, size)
    members = world.members()
    around = [((rank - 1) % size, (rank + 1) % size) for rank in range(size)]
    rows = [bytearray([rank, 100 + rank]) for rank in range(size)]  # down, up
    came = [bytearray(2) for _ in range(size)]
    world.run(
        [
            neighbour_alltoall.steps(
                member.exchange(),
                blocks.equal(view(rows[rank]), 2),
                blocks.equal(view(came[rank]), 2),
                around[rank],
                around[rank],
                cartesian=True,
            )
            for rank, member in enumerate(members)
        ]
    )
    for rank in range(size):
        below, above = around[rank]
        assert came[rank] == bytes([100 + below, above])


def test_a_neighbour_that_is_none_leaves_its_block_alone():
    world = World(2, 0)
    members = world.members()
    came = [bytearray(b"..") for _ in range(2)]
    around = [(PROC_NULL, 1), (0, PROC_NULL)]
    world.run(
        [
            neighbour_allgather.steps(
                member.exchange(),
                view(bytes([65 + rank])),
                blocks.equal(view(came[rank]), 2),
                around[rank],
                around[rank],
                cartesian=True,
            )
            for rank, member in enumerate(members)
        ]
    )
    assert came == [b".B", b"A."]
