"""Every collective among all ranks. A size is the bytes of the longest buffer that a rank has in it.

Those in lower case (object_bcast, ...) take small objects; fastsock's go through shared memory whatever the table says.
"""

from __future__ import annotations

import numpy
from mpi4py import MPI
from timing import arguments, print_value, repeat

DOUBLE = 8


def _bytes(size):
    return numpy.ones(size, "u1")


def _doubles(size):
    return numpy.ones(_share(size, DOUBLE))


def _share(size, parts):
    """At least one, but of nothing."""
    return size // parts or min(size, 1)


def _part(size, comm):
    return _share(size, comm.Get_size())


def _counts(each, comm):
    return _dealt(each, comm.Get_size())


def _dealt(each, parts):
    return [each] * parts, [each * part for part in range(parts)]


def barrier(size, comm):
    return ()


def bcast(size, comm):
    return (_bytes(size), 0)


def scatter(size, comm):
    return (_bytes(_part(size, comm) * comm.Get_size()), _bytes(_part(size, comm)), 0)


def gather(size, comm):
    return (_bytes(_part(size, comm)), _bytes(_part(size, comm) * comm.Get_size()), 0)


def scatterv(size, comm):
    each = _part(size, comm)
    return ([_bytes(each * comm.Get_size()), *_counts(each, comm), MPI.BYTE], _bytes(each), 0)


def gatherv(size, comm):
    each = _part(size, comm)
    return (_bytes(each), [_bytes(each * comm.Get_size()), *_counts(each, comm), MPI.BYTE], 0)


def allgather(size, comm):
    return (_bytes(_part(size, comm)), _bytes(_part(size, comm) * comm.Get_size()))


def allgatherv(size, comm):
    each = _part(size, comm)
    return (_bytes(each), [_bytes(each * comm.Get_size()), *_counts(each, comm), MPI.BYTE])


def alltoall(size, comm):
    return (_bytes(_part(size, comm) * comm.Get_size()), _bytes(_part(size, comm) * comm.Get_size()))


def alltoallv(size, comm):
    each = _part(size, comm)
    return tuple([_bytes(each * comm.Get_size()), *_counts(each, comm), MPI.BYTE] for _ in range(2))


def alltoallw(size, comm):
    each = _part(size, comm)
    return tuple([_bytes(each * comm.Get_size()), *_counts(each, comm), [MPI.BYTE] * comm.Get_size()] for _ in range(2))


def reduce(size, comm):
    return (_doubles(size), _doubles(size), MPI.SUM, 0)


def allreduce(size, comm):
    return (_doubles(size), _doubles(size), MPI.SUM)


def reduce_scatter_block(size, comm):
    each = _share(size, DOUBLE * comm.Get_size())
    return (numpy.ones(each * comm.Get_size()), numpy.ones(each), MPI.SUM)


def reduce_scatter(size, comm):
    each = _share(size, DOUBLE * comm.Get_size())
    return (numpy.ones(each * comm.Get_size()), numpy.ones(each), [each] * comm.Get_size(), MPI.SUM)


def scan(size, comm):
    return allreduce(size, comm)


def exscan(size, comm):
    return allreduce(size, comm)


def neighbor_allgather(size, comm):
    return (_bytes(_share(size, 2)), _bytes(2 * _share(size, 2)))


def neighbor_allgatherv(size, comm):
    each = _share(size, 2)
    return (_bytes(each), [_bytes(2 * each), *_dealt(each, 2), MPI.BYTE])


def neighbor_alltoall(size, comm):
    return (_bytes(2 * _share(size, 2)), _bytes(2 * _share(size, 2)))


def neighbor_alltoallv(size, comm):
    each = _share(size, 2)
    return tuple([_bytes(2 * each), *_dealt(each, 2), MPI.BYTE] for _ in range(2))


def neighbor_alltoallw(size, comm):
    each = _share(size, 2)
    return tuple([_bytes(2 * each), *_dealt(each, 2), [MPI.BYTE] * 2] for _ in range(2))


COLLECTIVES = (
    barrier, bcast, scatter, scatterv, gather, gatherv, allgather, allgatherv, alltoall, alltoallv, alltoallw,
    reduce, allreduce, reduce_scatter, reduce_scatter_block, scan, exscan, neighbor_allgather, neighbor_allgatherv,
    neighbor_alltoall, neighbor_alltoallv, neighbor_alltoallw,
)  # fmt: skip
SMALL = {"step": 17, "loss": 0.25}
DEALT = object()  # as many of them as there are ranks
OBJECTS = {
    "object_bcast": (SMALL, 0),
    "object_scatter": (DEALT, 0),
    "object_gather": (SMALL, 0),
    "object_allgather": (SMALL,),
    "object_alltoall": (DEALT,),
    "object_reduce": (0.25, MPI.SUM, 0),
    "object_allreduce": (0.25, MPI.SUM),
    "object_scan": (0.25, MPI.SUM),
}
SIZELESS = ("barrier", "ibarrier", "barrier_init")


def main():
    options = arguments(__doc__)
    known = {function.__name__: function for function in COLLECTIVES}
    world = MPI.COMM_WORLD
    ring = world.Create_cart([world.Get_size()], periods=[True])
    for name in options.what.split(",") if options.what else [*known, *OBJECTS]:
        if name in OBJECTS:
            method = getattr(world, name.removeprefix("object_"))
            given = [[SMALL] * world.Get_size() if one is DEALT else one for one in OBJECTS[name]]
            print_value(name, 0, repeat(_called(method, given), options.seconds))
            continue
        again = name.endswith("_init")  # bcast_init: start, then wait
        begins = name not in known and not again  # ibcast: begin, then wait
        function = known[name.removesuffix("_init")[begins:]]
        comm = ring if "neighbor" in name else world
        method = getattr(comm, name.capitalize())
        for size in [0] if name in SIZELESS else options.sizes:
            given = function(size, comm)
            once = _begun(method, given) if begins else _started(method, given) if again else _called(method, given)
            print_value(name, size, repeat(once, options.seconds))


def _called(method, given):
    return lambda: method(*given)


def _begun(method, given):
    return lambda: method(*given).Wait()


def _started(method, given):
    request = method(*given)

    def once():
        request.Start()
        request.Wait()

    return once


if __name__ == "__main__":
    main()
