"""The calls beside Send, Recv and collectives on plain arrays: each among all ranks, between neighbours of a ring."""

from __future__ import annotations

import numpy
from mpi4py import MPI
from timing import arguments, print_value, repeat

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
RIGHT, LEFT = (RANK + 1) % SIZE, (RANK - 1) % SIZE
SEVERAL = 8  # messages each way under way
SMALL = {"step": 17, "loss": 0.25, "name": "worker", "shape": [3, 4]}
OUT, INTO = numpy.ones(1), numpy.zeros(1)
ROOMS = [numpy.zeros(1) for _ in range(SEVERAL)]
LENGTH = 1000  # doubles of a reduction by the program's own operation


def persistent():
    both = [WORLD.Recv_init(INTO, LEFT, 5), WORLD.Send_init(OUT, RIGHT, 5)]

    def once():
        MPI.Prequest.Startall(both)
        MPI.Request.Waitall(both)

    return once


def begun():
    return [WORLD.Irecv(room, LEFT, tag) for tag, room in enumerate(ROOMS)] + [
        WORLD.Isend(OUT, RIGHT, tag) for tag in range(SEVERAL)
    ]


def waitany():
    requests = begun()
    while MPI.Request.Waitany(requests) != MPI.UNDEFINED:
        pass


def waitsome():
    requests = begun()
    while MPI.Request.Waitsome(requests) is not None:
        pass


def testall():
    requests = begun()
    while not MPI.Request.Testall(requests):
        pass


def waitall():
    MPI.Request.Waitall(begun())


def replace():
    WORLD.Sendrecv_replace(INTO, RIGHT, 0, LEFT, 0)


def buffered():
    WORLD.Bsend(OUT, RIGHT)
    WORLD.Recv(INTO, LEFT)


def matched():
    request = WORLD.Isend(OUT, RIGHT)
    WORLD.Mprobe(LEFT).Recv(INTO)
    request.Wait()


def probed():
    request, status = WORLD.Isend(OUT, RIGHT), MPI.Status()
    WORLD.Probe(MPI.ANY_SOURCE, MPI.ANY_TAG, status)
    WORLD.Recv(INTO, status.source, status.tag)
    request.Wait()


def exchanged():
    WORLD.sendrecv(SMALL, RIGHT, source=LEFT)


def isend_recv():
    request = WORLD.isend(SMALL, RIGHT)
    WORLD.recv(source=LEFT)
    request.wait()


def isend_irecv():
    into, out = WORLD.irecv(source=LEFT), WORLD.isend(SMALL, RIGHT)
    into.wait()
    out.wait()


def split():
    WORLD.Split(0, RANK).Free()


def split_fresh():
    """Of a communicator that has called no collective operation before."""
    parent = WORLD.Dup()
    return lambda: parent.Split(0, RANK).Free()


def duplicated():
    WORLD.Dup().Free()


def created():
    group = WORLD.Get_group()
    return lambda: WORLD.Create(group).Free()


def created_by_group():
    group = WORLD.Get_group()
    return lambda: WORLD.Create_group(group).Free()


def grid():
    WORLD.Create_cart([SIZE]).Free()


def created_alone():
    """Each rank gives a group of itself."""
    group = WORLD.Get_group().Incl([RANK])
    return lambda: WORLD.Create(group).Free()


def part_of_grid(*remain):
    cart = WORLD.Create_cart([SIZE, 1])
    return lambda: cart.Sub(remain).Free()


def halves():
    """This half of all ranks, the first rank of the other half, and which half this is."""
    half = 2 * RANK // SIZE
    return WORLD.Split(half, RANK), 0 if half else SIZE // 2, half


def bridged():
    local, leader, _ = halves()
    return lambda: local.Create_intercomm(0, WORLD, leader, 5).Free()


def merged():
    local, leader, half = halves()
    between = local.Create_intercomm(0, WORLD, leader, 5)
    return lambda: between.Merge(half == 1).Free()


def iallreduce():
    WORLD.Iallreduce(OUT, INTO).Wait()


def iprobe():
    WORLD.Iprobe(MPI.ANY_SOURCE, 7)


def pairs():
    out, into = numpy.zeros(4 * 16, "u1"), numpy.zeros(4 * 16, "u1")
    return lambda: WORLD.Allreduce([out, 4, MPI.DOUBLE_INT], [into, 4, MPI.DOUBLE_INT], MPI.MINLOC)


def own_operation():
    def add(source, target, datatype):
        target = numpy.frombuffer(target)
        numpy.add(numpy.frombuffer(source), target, target)

    operation = MPI.Op.Create(add, True)
    out, into = numpy.ones(LENGTH), numpy.zeros(LENGTH)
    return lambda: WORLD.Allreduce(out, into, operation)


def main():
    options = arguments(__doc__)
    MPI.Attach_buffer(bytearray(1 << 20))
    calls = {
        "MINLOC": pairs(),
        "own operation": own_operation(),
        "persistent": persistent(),
        "Waitany": waitany,
        "Waitsome": waitsome,
        "Testall": testall,
        "Waitall": waitall,
        "Sendrecv_replace": replace,
        "Bsend": buffered,
        "Mprobe": matched,
        "Probe": probed,
        "sendrecv": exchanged,
        "isend, recv": isend_recv,
        "isend, irecv": isend_irecv,
        "Split": split,
        "Split of a new communicator": split_fresh(),
        "Dup": duplicated,
        "Create": created(),
        "Create of own groups": created_alone(),
        "Create_group": created_by_group(),
        "Create_cart": grid,
        "Sub of rows": part_of_grid(True, False),
        "Sub of columns": part_of_grid(False, True),
        "Create_intercomm": bridged(),
        "Merge": merged(),
        "Iallreduce": iallreduce,
        "Iprobe": iprobe,
    }
    for what, once in calls.items():
        if not options.what or what in options.what.split(","):
            print_value(what, 0, repeat(once, options.seconds))


main()
