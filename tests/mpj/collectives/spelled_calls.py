"""A program of a few ranks: the compiled collectives take every spelling of a buffer."""

from array import array

import numpy as np

from fastsock.mpj import MPI
from fastsock.mpj.communicators.declining import NO_TEAM

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


def columns():
    """Of matrices: their items have gaps, and lie within each other."""
    fast = WORLD.ob.team_calls
    column = MPI.DOUBLE.Create_vector(4, 1, SIZE).Create_resized(0, 8).Commit()
    mine, matrix, whole = np.full(4, float(RANK)), np.zeros((4, SIZE)), np.arange(4.0 * SIZE).reshape(4, SIZE)
    wanted = np.tile(np.arange(float(SIZE)), (4, 1))
    # a column for each rank: that the last one ends with the matrix, no count of extents tells
    assert fast.gather(mine, [matrix, 1, column] if RANK == 0 else None, 0)
    assert RANK or (matrix == wanted).all()
    assert fast.allgather(mine, [matrix, 1, column])
    assert (matrix == wanted).all()
    assert fast.scatter([whole, 1, column] if RANK == 0 else None, mine, 0)
    assert (mine == whole[:, RANK]).all()
    assert fast.alltoall([matrix, 1, column], [whole, 1, column])
    assert (whole == RANK).all()
    matrix[:] = RANK
    assert fast.bcast([matrix, SIZE, column], SIZE - 1)
    assert (matrix == SIZE - 1).all()
    matrix[:] = RANK
    assert fast.bcast([matrix.reshape(-1)[RANK:], 1, column] if RANK == 0 else [matrix, 1, column], 0)
    assert (matrix[:, 0] == 0).all()
    assert (matrix[:, 1:] == RANK).all()
    assert not fast.bcast([matrix, SIZE + 1, column], 0)
    assert not fast.allgather(mine, [matrix, 2, column])


def blocks_with_gaps():
    """Alltoallw of parts of arrays: rows become columns."""
    ones, places = [1] * SIZE, [0] * SIZE
    rows = [MPI.INT.Create_subarray([SIZE, 3], [1, 3], [rank, 0]).Commit() for rank in range(SIZE)]
    columns = [MPI.INT.Create_subarray([3, SIZE], [3, 1], [0, rank]).Commit() for rank in range(SIZE)]
    source = np.arange(3 * SIZE, dtype="i4").reshape(SIZE, 3) + 100 * RANK
    target, alike = np.zeros((3, SIZE), "i4"), np.full((3, SIZE), RANK, "i4")
    assert WORLD.ob.team_calls.alltoallw([source, ones, places, rows], [target, ones, places, columns])
    assert target.tolist() == [[3 * RANK + 100 * other + at for other in range(SIZE)] for at in range(3)]
    assert WORLD.ob.team_calls.alltoallw(MPI.IN_PLACE, [alike, ones, places, columns])
    assert alike.tolist() == [list(range(SIZE))] * 3


WORLD.Allreduce(np.zeros(1), np.zeros(1))  # from now on there is a team
sums_and_copies()
bytes_are_numbers()
blocks()
columns()
blocks_with_gaps()
if SIZE > 1:
    no_block_beyond_the_memory()
