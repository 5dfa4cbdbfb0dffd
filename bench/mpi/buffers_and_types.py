"""Each way to name a buffer, and derived datatypes: made, sent to a neighbour and to oneself, exchanged by all."""

from __future__ import annotations

from array import array

import numpy
from mpi4py import MPI
from timing import arguments, print_value, repeat

WORLD, SELF = MPI.COMM_WORLD, MPI.COMM_SELF
SIZE, RANK = WORLD.Get_size(), WORLD.Get_rank()
TO, FROM = (RANK + 1) % SIZE, (RANK - 1) % SIZE
DOUBLE = MPI.DOUBLE
CYCLIC = MPI.DISTRIBUTE_CYCLIC


def named(kind):
    """A buffer of one double; the last two are of 64 bytes, a cache line more."""
    memory = numpy.ones(1)
    return {
        "array": memory,
        "type": [memory, DOUBLE],
        "count and type": [memory, 1, DOUBLE],
        "code": [memory, "d"],
        "place and type": [memory, (1, 0), DOUBLE],
        "array.array": array("d", memory),
        "bytearray": bytearray(8),
        "memoryview": memoryview(memory),
        "0-d array": numpy.array(1.0),
        "bool": numpy.ones(1, "?"),
        "array of 8": numpy.ones(8),
        "complex 2 x 2": numpy.ones((2, 2), "c16"),
    }[kind]


KINDS = (
    "array",
    "type",
    "count and type",
    "code",
    "place and type",
    "array.array",
    "bytearray",
    "memoryview",
    "0-d array",
)
KINDS += ("bool", "array of 8", "complex 2 x 2")


def sendrecv(kind):
    out, into = named(kind), named(kind)
    return lambda: WORLD.Sendrecv(out, TO, 0, into, FROM, 0)


def isend(kind):
    out, into = named(kind), named(kind)

    def once():
        request = WORLD.Isend(out, TO, 1)
        WORLD.Recv(into, FROM, 1)
        request.Wait()

    return once


def allreduce(kind):
    out, into, op = named(kind), named(kind), MPI.LOR if kind == "bool" else MPI.SUM
    return lambda: WORLD.Allreduce(out, into, op)


def iallreduce(kind):
    out, into, op = named(kind), named(kind), MPI.LOR if kind == "bool" else MPI.SUM
    return lambda: WORLD.Iallreduce(out, into, op).Wait()


CALLS = {"Sendrecv": sendrecv, "Isend and Recv": isend, "Allreduce": allreduce, "Iallreduce": iallreduce}


def made(make):
    def once():
        datatype = make()
        datatype.Commit()
        datatype.Free()

    return once


def to_oneself(argument, count):
    into = numpy.zeros(count)

    def once():
        request = SELF.Isend(argument, 0, 2)
        SELF.Recv(into, 0, 2)
        request.Wait()

    return once


def exchanged(shape, datatype):
    out, into = numpy.ones(shape), numpy.ones(shape)
    return lambda: WORLD.Sendrecv([out, 1, datatype], TO, 3, [into, 1, datatype], FROM, 3)


def alltoallw():
    """Rows become columns: 64 x 64 doubles for each rank."""
    rows, columns = [64 * SIZE, 64], [64, 64 * SIZE]
    ones, places = [1] * SIZE, [0] * SIZE
    out = [DOUBLE.Create_subarray(rows, [64, 64], [64 * rank, 0]).Commit() for rank in range(SIZE)]
    into = [DOUBLE.Create_subarray(columns, [64, 64], [0, 64 * rank]).Commit() for rank in range(SIZE)]
    source, target = numpy.ones(rows), numpy.ones(columns)
    return lambda: WORLD.Alltoallw([source, ones, places, out], [target, ones, places, into])


def types():
    many, even, apart = [1] * 10000, list(range(0, 20000, 2)), list(range(0, 320000, 32))
    column, face = (
        DOUBLE.Create_vector(512, 1, 512).Commit(),
        DOUBLE.Create_subarray([64] * 3, [64, 64, 1], [0, 0, 1]).Commit(),
    )
    halo = DOUBLE.Create_subarray([100] * 3, [100, 100, 2], [0, 0, 0]).Commit()
    indexed = DOUBLE.Create_indexed(many, even).Commit()
    return {
        "make a vector": made(lambda: DOUBLE.Create_vector(10, 2, 5)),
        "make a subarray": made(lambda: DOUBLE.Create_subarray([64] * 3, [64, 64, 1], [0, 0, 1])),
        "make 10000 indexed blocks": made(lambda: DOUBLE.Create_indexed(many, even)),
        "make 10000 blocks": made(lambda: DOUBLE.Create_hindexed_block(2, apart)),
        "make a cyclic darray": made(lambda: DOUBLE.Create_darray(4, 1, [64, 64], [CYCLIC] * 2, [3, 2], [2, 2])),
        "column of 512": exchanged((512, 512), column),
        "face of 64 x 64": exchanged((64, 64, 64), face),
        "Alltoallw of subarrays": alltoallw(),
        "halo of 10000 x 16 B to oneself": to_oneself([numpy.ones((100,) * 3), 1, halo], 20000),
        "10000 indexed blocks to oneself": to_oneself([numpy.ones(20000), 1, indexed], 10000),
    }


def main():
    words = arguments(__doc__)
    for call, start in CALLS.items():
        for kind in KINDS:
            print_value(f"{call}: {kind}", 0, repeat(start(kind), words.seconds))
    for what, once in types().items():
        print_value(f"datatypes: {what}", 0, repeat(once, words.seconds))


main()
