"""Communicators with a topology: who is whose neighbour, and the collective calls among neighbours."""

# ruff: noqa: F821  (comm, rank, size, MPI and np are the ranks' own)
from __future__ import annotations

import pytest

from fastsock.mpj.communicators.topology_records import Cartesian, General, balanced
from fastsock.mpj.constants import PROC_NULL
from fastsock.mpj.exceptions import Exception as MPIException

from .ranks import DEVICES, run


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


@pytest.mark.parametrize("device", DEVICES)
def test_a_grid_of_ranks_and_its_rows(device):
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

    run(body, 5, device)


@pytest.mark.parametrize("device", ["iodev", "smpdev"])
def test_every_part_of_a_grid(device):
    def body():
        from itertools import product

        dims, periods = [2, 3, 1], [True, False, True]
        grid = comm.Create_cart(dims, periods)
        every = [grid.Get_coords(each) for each in range(size)]
        for _ in range(2):
            for remain in product([0, 1], repeat=3):
                part = grid.Sub(remain)
                gone = [place for place in range(3) if not remain[place]]
                kept = [place for place in range(3) if remain[place]]
                members = [each for each in range(size) if all(every[each][i] == grid.coords[i] for i in gone)]
                assert part.allgather(grid.rank) == members
                assert part.dims == [dims[i] for i in kept] and part.periods == [periods[i] for i in kept]
                assert part.coords == [grid.coords[i] for i in kept]
                part.Free()
        print("fine")

    assert run(body, 6, device).count("fine") == 6


@pytest.mark.parametrize("device", DEVICES)
def test_each_neighbour_gets_its_block(device):
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


@pytest.mark.parametrize("device", DEVICES)
def test_what_a_grid_answers(device):
    def body():
        def refused(error_class, call, *given):
            try:
                call(*given)
            except MPI.Exception as error:
                assert error.Get_error_class() == error_class, error
            else:
                raise AssertionError(f"{call.__name__}{given} was not refused")

        grid = comm.Create_cart([2, 3], [False, True])
        row, column = divmod(rank, 3)
        assert grid.Get_topology() == MPI.CART and grid.Get_dim() == grid.dim == grid.ndim == 2
        assert grid.Get_topo() == grid.topo == ([2, 3], [0, 1], [row, column])
        for each in range(size):
            assert grid.Get_coords(each) == list(divmod(each, 3))
            assert grid.Get_cart_rank(grid.Get_coords(each)) == each
        assert grid.Get_cart_rank([1, -1]) == 5 and grid.Get_cart_rank([0, 4]) == 1
        beside = [MPI.PROC_NULL if row == 0 else rank - 3, MPI.PROC_NULL if row == 1 else rank + 3]
        beside += [3 * row + (column - 1) % 3, 3 * row + (column + 1) % 3]
        assert grid.Shift(0, 1) == (beside[0], beside[1]) and grid.Shift(0, -1) == (beside[1], beside[0])
        assert grid.Shift(0, 2) == (MPI.PROC_NULL, MPI.PROC_NULL)
        assert grid.Shift(1, 1) == (beside[2], beside[3]) and grid.Shift(1, 3) == (rank, rank)
        assert grid.inedges == grid.outedges == beside and grid.degrees == (4, 4)
        came = grid.sendrecv(rank, dest=beside[3], source=beside[2])
        assert came == beside[2]
        assert comm.Get_topology() == MPI.UNDEFINED
        refused(MPI.ERR_RANK, grid.Get_coords, size)
        refused(MPI.ERR_ARG, grid.Get_cart_rank, [2, 0])
        refused(MPI.ERR_DIMS, grid.Shift, 2, 1)
        refused(MPI.ERR_COMM, MPI.Cartcomm().Get_topo)

    run(body, 6, device)


@pytest.mark.parametrize("device", DEVICES)
def test_what_a_graph_answers(device):
    def body():
        near = [[1, 3], [0], [3], [0, 2]]
        graph = comm.Create_graph([2, 3, 4, 6], [1, 3, 0, 3, 0, 2])
        if rank == 4:
            assert graph == MPI.COMM_NULL
        else:
            assert type(graph) is MPI.Graphcomm and graph.Get_topology() == MPI.GRAPH
            assert graph.Get_dims() == graph.dims == (graph.nnodes, graph.nedges) == (4, 6)
            assert graph.Get_topo() == graph.topo == (graph.index, graph.edges)
            assert graph.topo == ([2, 3, 4, 6], [1, 3, 0, 3, 0, 2])
            for each in range(4):
                assert graph.Get_neighbors(each) == near[each]
                assert graph.Get_neighbors_count(each) == len(near[each])
            assert graph.neighbors == graph.inedges == graph.outedges == near[rank]
            assert graph.nneighbors == graph.indegree == graph.outdegree == len(near[rank])
            try:
                graph.Get_neighbors(4)
            except MPI.Exception as error:
                assert error.Get_error_class() == MPI.ERR_RANK
            else:
                raise AssertionError("rank 4 is outside the graph")

    run(body, 5, device)


@pytest.mark.parametrize("device", DEVICES)
def test_what_a_distributed_graph_answers(device):
    def body():
        before, after = (rank - 1) % size, (rank + 1) % size
        ring = comm.Create_dist_graph_adjacent([before], [after], [before + 10], [rank + 10])
        assert type(ring) is MPI.Distgraphcomm and ring.Get_topology() == MPI.DIST_GRAPH
        assert ring.Get_dist_neighbors_count() == (1, 1, True)
        assert ring.Get_dist_neighbors() == ([before], [after], ([before + 10], [rank + 10]))
        assert ring.inedges == [before] and ring.outedges == [after] and ring.degrees == (1, 1)
        again = ring.Dup()
        assert type(again) is MPI.Distgraphcomm and again.Get_dist_neighbors() == ring.Get_dist_neighbors()
        plain = comm.Create_dist_graph_adjacent([], [])
        assert plain.Get_dist_neighbors_count() == (0, 0, False) and plain.Get_dist_neighbors() == ([], [], None)

    run(body, 3, device)


@pytest.mark.parametrize("device", DEVICES)
def test_edges_that_others_give_reach_both_ends(device):
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

    run(body, 3, device)


@pytest.mark.parametrize("device", DEVICES)
def test_ranks_and_numbers_of_numpy_are_taken_as_integers_are(device):
    def body():
        before, after = (rank - 1) % size, (rank + 1) % size
        for kind in (np.intp, np.uint8, np.int32):
            one, other = np.array([before], kind), np.array([after], kind)  # the array of a rank 0 alone is false
            ring = comm.Create_dist_graph_adjacent(one, other)
            assert ring.Get_dist_neighbors() == ([before], [after], None)
            assert ring.neighbor_allgather(rank) == [before]
            both = comm.Create_dist_graph_adjacent(
                np.array([before, after], kind),
                np.array([after, before], kind),
                np.array([0, 7], kind),
                np.array([0, 8], kind),
            )
            assert both.Get_dist_neighbors() == ([before, after], [after, before], ([0, 7], [0, 8]))
            given = comm.Create_dist_graph(
                np.array([rank], kind), np.array([1], kind), np.array([after], kind), np.array([5], kind)
            )
            assert given.Get_dist_neighbors() == ([before], [after], ([5], [5]))
            graph = comm.Create_graph(np.arange(1, size + 1, dtype=kind), np.arange(1, size + 1, dtype=kind) % size)
            assert graph.neighbors == [after]
        none = [np.array([], np.intp), [], None][rank]
        alone = comm.Create_dist_graph_adjacent(none, none)
        assert alone.Get_dist_neighbors() == ([], [], None) and alone.neighbor_allgather(rank) == []
        grid = comm.Create_cart(np.array([size, 1]), np.array([1, 0]))
        answers = [*grid.Get_coords(np.int64(rank)), *grid.Shift(np.int64(0), np.int64(1))]
        answers += MPI.Compute_dims(np.int64(size), np.int64(2))
        assert answers == [rank, 0, before, after, size, 1]
        assert [type(each) for each in answers] == [int] * 6
        try:
            grid.Get_coords(0.5)
        except TypeError:
            pass
        else:
            raise AssertionError("0.5 is no rank")

    run(body, 3, device)
