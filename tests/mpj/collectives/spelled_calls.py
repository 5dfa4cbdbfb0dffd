"""A program of a few ranks: the compiled collectives take every spelling of a buffer."""

from array import array

import numpy as np

from fastsock.mpj import MPI
from fastsock.mpj.communicators.communicator_record import NO_TEAM

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.rank, WORLD.size


def spellings(count, rank):
    """As many doubles as that, all of them the rank's."""
    plain, behind = np.full(count, rank + 1.0), np.full(count + 1, rank + 1.0)
    return {
        "array": plain,
        "code": [plain, "d"],
        "count": [plain, count],
        "count, code": (plain, count, "f8"),
        "pair": [behind, (count, 1)],
        "pair, type": [behind, [count, 1], MPI.DOUBLE],
        "four": [behind, np.int64(count), 1, MPI.DOUBLE],
        "bytes": [bytearray(plain.tobytes()), MPI.DOUBLE],
        "memory": [MPI.memory(plain), count, MPI.DOUBLE],
        "array.array": array("d", plain),
    }


def contents(spelling):
    return set(np.frombuffer(spelling[0] if isinstance(spelling, (list, tuple)) else spelling)[-4:])


def sums_and_copies():
    fast = WORLD.ob.team_calls
    assert fast is not NO_TEAM
    total = SIZE * (SIZE + 1) / 2
    for name in spellings(4, RANK):  # some share their memory
        own, into = spellings(4, RANK)[name], spellings(4, -1)[name]
        assert fast.allreduce(own, into, MPI.SUM), name
        assert contents(into) == {total}, name
        assert fast.bcast(own, 0), name
        assert contents(own) == {1.0}, name
        request = WORLD.ob.start_calls.allreduce(own, into, MPI.SUM)
        assert request is not None, name
        request.Wait()
        started = WORLD.Allreduce_init(own, into, MPI.MAX)
        for _ in range(2):
            started.Start()
            started.Wait()


def bytes_are_numbers():
    """Of a bytearray too: its format says so."""
    fast, into = WORLD.ob.team_calls, bytearray(3)
    assert fast.allreduce(bytearray([1, 2, 3]), into, MPI.SUM)
    assert list(into) == [SIZE, 2 * SIZE, 3 * SIZE]


def blocks():
    fast, own = WORLD.ob.team_calls, np.full(3, float(RANK))
    wanted = np.repeat(np.arange(float(SIZE)), 3)
    for spelled in (
        lambda data: data,
        lambda data: [data, "d"],
        lambda data: [data, MPI.DOUBLE],
        lambda data: [data, 3],
        lambda data: [data, 3, MPI.DOUBLE],
        lambda data: [data, (3, 3), "d"],
        lambda data: [data, [3] * SIZE, 3, "d"],
        lambda data: [data, 3, [3 * at for at in range(SIZE)], MPI.DOUBLE],
        lambda data: [MPI.memory(data), 3, None, MPI.DOUBLE],
    ):
        into = np.zeros(3 * SIZE)
        assert fast.allgatherv([own, "d"], spelled(into))
        assert (into == wanted).all()
        assert fast.alltoallv(spelled(into), spelled(into.copy()))
        assert fast.gatherv(own, spelled(into) if RANK == 0 else None, 0)
        assert fast.scatterv(spelled(into) if RANK == 0 else None, own, 0)


def no_block_beyond_the_memory():
    fast = WORLD.ob.team_calls
    for wrong in (
        [np.zeros(3), 4, 0, "d"],
        [np.zeros(3), 1, 4, "d"],
        [np.zeros(3), -1, "d"],
        [np.zeros(3), 2**62, "d"],
    ):
        assert not fast.allgatherv(np.zeros(1), [wrong[0], *wrong[1:]]), wrong


WORLD.Allreduce(np.zeros(1), np.zeros(1))  # from now on there is a team
sums_and_copies()
bytes_are_numbers()
blocks()
if SIZE > 1:
    no_block_beyond_the_memory()
