"""Collective operations: one file per primitive, with every algorithm for it side by side.

`table` chooses among them. They are written on `exchange`, and called by `entry_points`.

collective, objects         the calls in upper and in lower case
prepared, reductions, views the program's arguments, made ready for the algorithms; call: one such call
barrier, bcast, scatter, gather, allgather, alltoall, reduce, allreduce, reduce_scatter, reduce_scatter_block, scan,
exscan, scatterv, gatherv, allgatherv, alltoallv, alltoallw, neighbour_allgather, neighbour_alltoall
                            the primitives; primitive: what each is
schedule, recording         calls that go on by themselves, and their texts written down for the engine
trees, buckets, folding, hierarchy, moves, prefixes, neighbourhood
                            parts that algorithms of several primitives share
blocks, framed, accumulator, scratch, shared
                            the memory that they work on
intercommunicator           the calls between two groups
object_collectives          the calls on objects by messages; object_algorithms: their algorithms
protocols                   for annotations
team, meeting               how ranks of one host come to share memory, and hand each other descriptors
_collectives, _object_collectives   the calls among these, and those that go on by themselves, natively

Above messages, below communicators: a call gets what it needs of a communicator as an argument. Tests:
tests/mpj/collectives, tests/mpj/test_team.py.
"""
