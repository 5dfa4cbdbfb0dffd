"""Communicators with a topology: who is whose neighbour, and the collective calls among neighbours."""

# ruff: noqa: F821  (comm, rank, size, MPI and np are the ranks' own)
from __future__ import annotations

import pytest

from fastsock.mpj.communicators.topology_records import Cartesian, General, balanced
from fastsock.mpj.constants import PROC_NULL
from fastsock.mpj.exceptions import Exception as MPIException

from .ranks import run


def test_a_grid_numbers_its_places_by_rows():
    grid = Cartesian([2, 3], [False, True])
    assert [grid.coordinates(rank) for rank in range(6)] == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    assert all(grid.rank(grid.coordinates(rank)) == rank for rank in range(6))
    assert grid.rank([1, -1]) == 5 and grid.rank([0, 3]) == 0  # a ring
    assert grid.rank([2, 0]) == grid.rank([-1, 0]) == PROC_NULL
    assert grid.shift(0, 0, 1) == (PROC_NULL, 3)
    assert grid.shift(0, 1, 1) == (2, 1)
    assert grid.neighbours(4)[0] == [1, PROC_NULL, 3, 5]


def test_a_graph_lists_the_neighbours_of_each_rank():
    graph = General([2, 3, 4, 6], [1, 3, 0, 3, 0, 2])
    assert [graph.of(rank) for rank in range(4)] == [[1, 3], [0], [3], [0, 2]]


@pytest.mark.parametrize(
    ("nodes", "dims", "found"),
    [(6, [0, 0], [3, 2]), (7, [0, 0], [7, 1]), (24, [0, 2, 0], [4, 2, 3]), (1, [0, 0, 0], [1, 1, 1]), (6, [6], [6])],
)
def test_dimensions_are_as_equal_as_can_be(nodes, dims, found):
    assert balanced(nodes, dims) == found


@pytest.mark.parametrize(("nodes", "dims"), [(7, [2, 0]), (6, [4]), (6, [-1, 0]), (0, [0])])
def test_dimensions_that_nothing_fills_are_refused(nodes, dims):
    with pytest.raises(MPIException):
        balanced(nodes, dims)


def test_a_grid_of_ranks_and_its_rows():
    def body():
        grid = comm.Create_cart([2, 2], [True, False])
        if rank == 4:
            assert grid == MPI.COMM_NULL
        else:
            assert type(grid) is MPI.Cartcomm and grid.is_topo and grid.topology == MPI.CART
            assert grid.dims == [2, 2] and grid.periods == [1, 0] and grid.coords == [rank // 2, rank % 2]
            assert MPI.Comm.fromint(grid.toint()) == grid and type(MPI.Comm.fromint(grid.toint())) is MPI.Cartcomm
            row = grid.Sub([False, True])
            assert type(row) is MPI.Cartcomm and row.allgather(rank) == [rank - rank % 2, rank - rank % 2 + 1]
            again = grid.Dup()
            assert type(again) is MPI.Cartcomm and again.coords == grid.coords
            plain = grid.Split(0, -rank)
            assert type(plain) is MPI.Intracomm and plain.rank == 3 - rank
            try:
                MPI.Graphcomm(grid)
            except TypeError as error:
                assert "Graphcomm" in str(error)
            else:
                raise AssertionError("a grid is no graph")

    run(body, 5)


@pytest.mark.parametrize("device", ["iodev", "sysvdev"])
def test_each_neighbour_gets_its_block(device):
    if device == "sysvdev":
        pytest.importorskip("sysv_ipc")

    def body():
        line = comm.Create_cart([size], [False])
        below, above = rank - 1, rank + 1
        found = np.full(2, -1.0)
        line.Neighbor_allgather(np.array([float(rank)]), found)
        expected = [below if below >= 0 else -1, above if above < size else -1]
        assert found.tolist() == expected  # nothing comes from where nobody is
        assert line.neighbor_alltoall([(rank, "down"), (rank, "up")]) == [
            (below, "up") if below >= 0 else None,
            (above, "down") if above < size else None,
        ]
        ring = comm.Create_dist_graph_adjacent([below % size], [above % size])
        for start in (
            lambda *given: ring.Neighbor_alltoall(*given),
            lambda *given: ring.Ineighbor_alltoall(*given).Wait(),
        ):
            came = np.zeros(3, "i")
            start(np.full(3, rank, "i"), came)
            assert came.tolist() == [below % size] * 3
        again = ring.Neighbor_allgather_init(data := np.zeros(1, "i"), came := np.zeros(1, "i"))
        for round_ in range(3):
            data[0] = 10 * round_ + rank
            again.Start()
            again.Wait()
            assert came[0] == 10 * round_ + below % size
        again.Free()

    run(body, 3, device)


def test_edges_that_others_give_reach_both_ends():
    def body():
        # rank 0 gives all edges: a star
        if rank == 0:
            star = comm.Create_dist_graph([0], [size - 1], list(range(1, size)), list(range(1, size)))
        else:
            star = comm.Create_dist_graph([], [], [], [])
        sources, destinations, weights = star.Get_dist_neighbors()
        assert sources == ([] if rank == 0 else [0])
        assert destinations == (list(range(1, size)) if rank == 0 else [])
        assert weights == (([], list(range(1, size))) if rank == 0 else ([rank], []))
        assert star.neighbor_allgather("hello" if rank == 0 else None) == ([] if rank == 0 else ["hello"])

    run(body, 3)
