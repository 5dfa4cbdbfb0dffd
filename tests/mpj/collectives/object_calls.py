"""A program of a few ranks: collective calls on objects give each rank what they should, whatever the objects' lengths.

In shared memory a short message and a long one go different ways, and each rank's may be of either kind.
"""

import itertools
import threading

import numpy as np

from fastsock.mpj import MPI
from fastsock.mpj.collectives._object_collectives import TeamObjectCalls

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.rank, WORLD.size


def of(kind, rank, extra=0):
    """An object of that rank, and of that kind: from nothing at all to more than a message may be without asking."""
    return (
        None,
        {"rank": rank, "list": [extra, 1.5, True]},
        {rank, "not plain"},
        f"{rank}" * 248,
        ("x" * 3000, rank, extra),
        [np.arange(3.0) + rank],
        bytes([rank]) * 200_000,
        {"large": np.full(40_000, rank + extra)},
    )[kind]


KINDS = range(8)


def same(one, other):
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return np.array_equal(one, other) if isinstance(one, np.ndarray) else type(one) is type(other) and one == other


def check(found, expected):
    assert same(found, expected), (found, expected)


def joined(one, other):
    """Tells the order of operands."""
    return one + other


def everything(comm, kinds):
    """Each call, with an object of kinds[i] from rank i."""
    all_ = [of(kind, rank) for rank, kind in enumerate(kinds)]
    own = all_[RANK]
    for root in range(SIZE):
        here = root == RANK
        check(comm.bcast(own if here else None, root), all_[root])
        check(comm.gather(own, root), all_ if here else None)
        check(comm.scatter(all_ if here else None, root), own)
        check(comm.reduce([own], joined, root), all_ if here else None)
    check(comm.allgather(own), all_)
    given = [of(kinds[(RANK + to) % SIZE], RANK, to) for to in range(SIZE)]
    check(comm.alltoall(given), [of(kinds[(rank + RANK) % SIZE], rank, RANK) for rank in range(SIZE)])
    check(comm.allreduce([own], joined), all_)
    check(comm.allreduce((own,), MPI.SUM), tuple(all_))
    check(comm.scan([own], joined), all_[: RANK + 1])
    check(comm.exscan([own], joined), all_[:RANK] or None)


def results_are_ones_own():
    """What arrives may be changed without anybody else's seeing it."""
    mine = [RANK]
    for found in (WORLD.bcast(mine), WORLD.allgather(mine)[RANK], WORLD.scatter([mine] * SIZE)):
        found.append("changed")
    array = WORLD.bcast({"array": np.zeros(40_000)})["array"]
    array[:] = RANK
    assert mine == [RANK]


def mixed_with_other_calls():
    """Calls on memory and on objects, blocking or not, by shared memory or messages, keep their order."""
    for turn in range(50):
        request = WORLD.Ibcast(data := np.full(3, RANK), turn % SIZE)
        check(WORLD.allgather((RANK, turn)), [(rank, turn) for rank in range(SIZE)])
        total = np.zeros(1)
        WORLD.Allreduce(np.ones(1), total)
        check(WORLD.bcast("y" * 1000 * (turn % 3), turn % SIZE), "y" * 1000 * (turn % 3))
        request.Wait()
        assert total[0] == SIZE
        assert (data == turn % SIZE).all()


def by_threads():
    """Calls of the same kind by several threads of each rank go on one at a time; which meet is nobody's to say."""
    found = []

    def of_one_kind(call):
        threads = [threading.Thread(target=lambda: [found.append(call()) for _ in range(200)]) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    of_one_kind(lambda: WORLD.allreduce(1, MPI.SUM))
    of_one_kind(lambda: len(WORLD.allgather("z" * 500)))
    of_one_kind(lambda: len(WORLD.allreduce([1], joined)))  # two exchanges, with nobody else's between them
    assert set(found) == {SIZE}


def wrong_arguments():
    """Are refused before anything is sent."""
    for call in (
        lambda: WORLD.alltoall([0] * (SIZE + 1)),
        lambda: WORLD.scatter([0] * (SIZE + 1), RANK),
        lambda: WORLD.bcast(0, SIZE),
        lambda: WORLD.gather(0, -1),
        lambda: WORLD.bcast(threading.Lock(), RANK),
    ):
        try:
            call()
        except (ValueError, TypeError, MPI.Exception):
            continue
        raise AssertionError("taken")


for kinds in itertools.chain(
    ([kind] * SIZE for kind in KINDS),
    ([(first + rank * step) % len(KINDS) for rank in range(SIZE)] for first in KINDS for step in (1, 3)),
):
    everything(WORLD, kinds)
assert isinstance(WORLD.ob.objects, TeamObjectCalls), "the ranks of one host do not share memory"
results_are_ones_own()
mixed_with_other_calls()
by_threads()
wrong_arguments()
WORLD.Barrier()
