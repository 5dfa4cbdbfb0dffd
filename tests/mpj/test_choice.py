"""Collectives while the way of their data is chosen by what it took: the ranks agree, and results are the same bits."""

# ruff: noqa: F821  (comm, rank and size are the ranks' own)
from __future__ import annotations

import pytest

from .ranks import DEVICES, run


def mixed_calls():
    import os
    import random
    import time

    calls = 900 if os.environ.get("FASTSOCK_SOAK") is None else 100_000
    ours, own = random.Random(5), random.Random(rank)
    parts = comm.Split(rank % 2, rank)
    values = np.random.default_rng(1).standard_normal((size, 60_000)) * 10.0 ** np.arange(-8, 8).repeat(3750)

    def folded(rows):
        """In the order of the ranks: what every way has to give."""
        total = rows[0].copy()
        for row in rows[1:]:
            total += row
        return total

    def call(group, members, what, count, root, in_place):
        me, many = group.rank, group.size
        rows = [values[member][:count] for member in members]
        mine, whole = rows[me], folded(rows)
        if what == "Allreduce":
            found = mine.copy() if in_place else np.empty(count)
            group.Allreduce(MPI.IN_PLACE if in_place else mine, found)
            assert (found == whole).all()
        elif what == "Reduce":
            found = np.empty(count)
            group.Reduce(mine, found, root=root)
            assert me != root or (found == whole).all()
        elif what == "Reduce_scatter_block":
            part = count // many
            found = np.empty(part)
            group.Reduce_scatter_block(mine[: part * many].copy(), found)
            assert (found == whole[me * part : (me + 1) * part]).all()
        elif what == "Bcast":
            found = rows[root].copy() if me == root else np.empty(count)
            group.Bcast(found, root)
            assert (found == rows[root]).all()
        elif what == "Allgather":
            found = np.empty((many, count))
            group.Allgather(mine, found)
            assert all((found[i] == rows[i]).all() for i in range(many))
        else:
            part = count // many
            found = np.empty((many, part))
            group.Alltoall(mine[: part * many].copy(), found)
            assert all((found[i] == rows[i][me * part : (me + 1) * part]).all() for i in range(many))

    names = ("Allreduce", "Reduce", "Reduce_scatter_block", "Bcast", "Allgather", "Alltoall")
    for number in range(calls):
        drawn = ours.random(), ours.choice(names), ours.choice((1, 900, 4000, 20_000, 60_000)), ours.randrange(60_000)
        aside, what, count, chosen = drawn
        in_place = ours.random() < 0.3
        if own.random() < 0.01:
            time.sleep(own.random() / 500)  # a rank that comes late is the test
        group, members = (parts, range(rank % 2, size, 2)) if aside < 0.3 else (comm, range(size))
        call(group, members, what, count, chosen % 2 % group.size, in_place)
        if number % 300 == 299:
            parts.Free()
            parts = comm.Split(rank % 2, rank)


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("device", DEVICES)
def test_the_ranks_agree_and_sums_are_the_same_bits(device: str, ranks: int) -> None:
    run(mixed_calls, ranks, device)


@pytest.mark.parametrize("way", ["buffers", "direct"])
def test_a_way_that_is_kept(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTSOCK_MPJ_SHARED_MEMORY", way)
    run(mixed_calls, 3)


def test_over_tcp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTSOCK_TRANSPORTS", "tcp")
    run(mixed_calls, 3)
