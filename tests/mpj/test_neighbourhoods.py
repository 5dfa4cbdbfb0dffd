"""Collective calls among the neighbours of a topology: each call in each form, on each device, against a model."""

# ruff: noqa: F821  (comm, rank, size, MPI and np are the ranks' own)
from __future__ import annotations

import pytest

from .ranks import DEVICES, run


@pytest.mark.parametrize("device", DEVICES)
def test_every_call_in_every_form_brings_the_neighbours_blocks(device):
    """The model knows the edges of all ranks, each with the place of its block at both ends."""

    def body():
        def grid(dims, periods):
            """The edges (from, place there, to, place here) of a grid that is numbered by rows."""
            edges = []
            for start in range(size):
                for axis, extent in enumerate(dims):
                    stride = int(np.prod(dims[axis + 1 :]))
                    for up in (0, 1):
                        at = start // stride % extent + (1 if up else -1)
                        if periods[axis] or 0 <= at < extent:
                            end = start + (at % extent - start // stride % extent) * stride
                            # what goes up comes from below
                            edges.append((start, 2 * axis + up, end, 2 * axis + 1 - up))
            return edges

        def graph(pairs):
            """The edges of a list of (from, to): both ends number theirs in the order of the list."""
            out, into, edges = [0] * size, [0] * size, []
            for start, end in pairs:
                edges.append((start, out[start], end, into[end]))
                out[start] += 1
                into[end] += 1
            return edges

        ring = [(each, (each + step) % size) for each in range(size) for step in (1, size - 1)]
        # two edges between the same ranks, one to oneself, and a rank (the last) without any
        odd = [(0, 1), (0, 1), (1, 0), (2, 2), (0, 2)]
        mine = [pair for pair in sorted(odd) if pair[0] == rank]  # edges that are told count by who told them
        many = ring + [(0, 1), (1, 0)] * 9  # so many messages of one call have memory of their own
        topologies = [
            (comm.Create_cart([2, 2], [True, False]), grid([2, 2], [True, False]), 4, 4),
            (comm.Create_cart([size], [True]), grid([size], [True]), 2, 2),
            (
                comm.Create_graph([2 * (each + 1) for each in range(size)], [end for _, end in ring]),
                [(start, place % 2, end, 1 - place % 2) for place, (start, end) in enumerate(ring)],
                2,
                2,
            ),
            (
                comm.Create_dist_graph_adjacent(
                    [start for start, end in odd if end == rank], [end for start, end in odd if start == rank]
                ),
                graph(odd),
                sum(end == rank for _, end in odd),
                len(mine),
            ),
            (
                comm.Create_dist_graph_adjacent(
                    [start for start, end in many if end == rank], [end for start, end in many if start == rank]
                ),
                graph(many),
                sum(end == rank for _, end in many),
                sum(start == rank for start, _ in many),
            ),
            (
                comm.Create_dist_graph([start for start, _ in mine], [1] * len(mine), [end for _, end in mine]),
                graph(sorted(odd)),
                sum(end == rank for _, end in odd),
                len(mine),
            ),
        ]

        def in_every_form(near, name, send, receive, expected):
            """A blocking call, a non-blocking one, and a persistent one that is started twice."""

            def check(form):
                assert receive[0].tolist() == expected, (form, name, receive[0].tolist(), expected)
                receive[0][:] = -1

            receive[0][:] = -1
            getattr(near, f"Neighbor_{name}")(send, receive)
            check("blocking")
            getattr(near, f"Ineighbor_{name}")(send, receive).Wait()
            check("non-blocking")
            again = getattr(near, f"Neighbor_{name}_init")(send, receive)
            for _ in range(2):
                again.Start()
                again.Wait()
                check("persistent")
            again.Free()

        for near, edges, many_in, many_out in topologies:
            coming = {here: (start, place) for start, place, end, here in edges if end == rank}
            for count in (1, 3, 40000):
                # a block says whose it is and which; where nobody is, nothing comes
                own = np.full(count, 100 * rank, "i")
                each = np.repeat(100 * rank + np.arange(many_out, dtype="i"), count).astype("i")
                gathered, exchanged = [], []
                for place in range(many_in):
                    start, theirs = coming.get(place, (None, None))
                    gathered += [-1 if start is None else 100 * start] * count
                    exchanged += [-1 if start is None else 100 * start + theirs] * count
                room = np.empty(count * many_in, "i")
                in_every_form(near, "allgather", [own, MPI.INT], [room, MPI.INT], gathered)
                in_every_form(near, "alltoall", [each, MPI.INT], [room, MPI.INT], exchanged)

                # blocks of the v forms and w forms lie in the opposite order
                down_in = [count * (many_in - 1 - place) for place in range(many_in)]
                down_out = [count * (many_out - 1 - place) for place in range(many_out)]
                blocks = np.array(exchanged, "i").reshape(many_in, count)[::-1].ravel().tolist()
                whole = np.array(gathered, "i").reshape(many_in, count)[::-1].ravel().tolist()
                turned = each.reshape(many_out, count)[::-1].copy()
                ins, outs = [count] * many_in, [count] * many_out
                into = [room, ins, down_in, MPI.INT]
                in_every_form(near, "allgatherv", [own, MPI.INT], into, whole)
                in_every_form(near, "alltoallv", [turned, outs, down_out, MPI.INT], into, blocks)
                in_every_form(
                    near,
                    "alltoallw",
                    [turned, outs, [4 * place for place in down_out], [MPI.INT] * many_out],
                    [room, ins, [4 * place for place in down_in], [MPI.INT] * many_in],
                    blocks,
                )
            assert near.neighbor_allgather({"of": rank}) == [
                {"of": coming[place][0]} if place in coming else None for place in range(many_in)
            ]
            assert near.neighbor_alltoall([(rank, place) for place in range(many_out)]) == [
                coming.get(place) for place in range(many_in)
            ]
            near.Free()

    run(body, 4, device)


@pytest.mark.parametrize("device", DEVICES)
def test_blocks_of_different_sizes(device):
    """Each edge of a ring has a size of its own, some of them 0; the types at both ends differ."""

    def body():
        ring = comm.Create_dist_graph_adjacent(
            [(rank - 1) % size, (rank + 1) % size], [(rank + 1) % size, (rank - 1) % size]
        )
        longer, shorter = 2 * rank + 1, rank
        data = np.concatenate([np.full(longer, rank + 0.5), np.full(shorter, -rank - 0.5)])
        below, above = (rank - 1) % size, (rank + 1) % size
        expected = [below + 0.5] * (2 * below + 1) + [-above - 0.5] * above
        counts = [2 * below + 1, above]
        room = np.zeros(sum(counts) + 1)
        pair = MPI.BYTE.Create_contiguous(8).Commit()
        ring.Neighbor_alltoallv([data, [longer, shorter], None, MPI.DOUBLE], [room, counts, None, pair])
        assert room.tolist() == [*expected, 0]
        room[:] = 0
        places = [0, 8 * counts[0]]
        types = [MPI.DOUBLE, pair]
        ring.Neighbor_alltoallw(
            [data, [longer, shorter], [0, 8 * longer], [pair, MPI.DOUBLE]], [room, counts, places, types]
        )
        assert room.tolist() == [*expected, 0]
        room = np.zeros(2 * below + 1 + 2 * above + 1)
        ring.Neighbor_allgatherv(data[:longer], [room, [2 * below + 1, 2 * above + 1]])
        assert room.tolist() == [below + 0.5] * (2 * below + 1) + [above + 0.5] * (2 * above + 1)
        pair.Free()

    run(body, 3, device)


def test_calls_among_neighbours_need_a_topology():
    def body():
        data = np.zeros(1)
        plain = MPI.Topocomm()
        for call in (plain.Neighbor_allgather, plain.Ineighbor_alltoall, plain.Neighbor_allgather_init):
            try:
                call(data, data.copy())
            except MPI.Exception as error:
                assert error.Get_error_class() == MPI.ERR_COMM
            else:
                raise AssertionError("a null communicator has no neighbours")
        short = comm.Create_cart([size], [True])
        try:
            short.Neighbor_alltoall(np.zeros(3), np.zeros(2))
        except (MPI.Exception, ValueError):
            pass
        else:
            raise AssertionError("three items for two neighbours")

    run(body, 2)
