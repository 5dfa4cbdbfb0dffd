"""A program of a few ranks: plain arrays through the fast calls give what the general path gives, bit for bit.

Then calls that the fast path must leave alone, mixed with others by rank, still find each other.
"""

import itertools

import numpy as np

from fastsock.mpj import MPI

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.rank, WORLD.size
TYPES = ("b", "h", "i", "l", "q", "B", "H", "I", "L", "Q", "f", "d", "g", "F", "D", "?")
OPERATIONS = (MPI.SUM, MPI.PROD, MPI.MAX, MPI.MIN, MPI.LAND, MPI.BXOR)


def values(kind, count, seed):
    chance = np.random.default_rng([seed, RANK])
    if kind == "?":
        return chance.integers(0, 2, count).astype("?")
    return chance.integers(0, 4, count).astype(kind)


def both(call):
    """What the call gives by the fast path, and by the general one."""
    fast = WORLD.ob.fast
    assert fast is not None
    outcomes = []
    for path in (fast, None):
        WORLD.ob.fast = path
        try:
            outcomes.append(call())
        except (MPI.Exception, TypeError, ValueError) as error:
            outcomes.append(type(error))
        finally:
            WORLD.ob.fast = fast
    one, other = outcomes
    same = one == other if isinstance(one, type) or isinstance(other, type) else one.tobytes() == other.tobytes()
    assert same, (call, one, other)


def moved(kind, count, seed, root):
    own, all_ = values(kind, count, seed), values(kind, count * SIZE, seed + 1)

    def bcast():
        data = own.copy()
        WORLD.Bcast(data, root)
        return data

    def gather():
        into = np.zeros(count * SIZE, kind)
        WORLD.Gather(own, into if root == RANK else None, root)
        return into

    def scatter():
        into = np.zeros(count, kind)
        WORLD.Scatter(all_ if root == RANK else None, into, root)
        return into

    def allgather():
        into = np.zeros(count * SIZE, kind)
        WORLD.Allgather(own, into)
        return into

    def allgather_in_place():
        into = all_.copy()
        WORLD.Allgather(MPI.IN_PLACE, into)
        return into

    def alltoall():
        into = np.zeros(count * SIZE, kind)
        WORLD.Alltoall(all_, into)
        return into

    def alltoall_in_place():
        into = all_.copy()
        WORLD.Alltoall(MPI.IN_PLACE, into)
        return into

    def with_types():
        spec = MPI.Datatype.fromcode(kind)
        into = np.zeros(count * SIZE, kind)
        WORLD.Alltoall([all_, count, spec], (into, spec))
        again = into.copy()
        WORLD.Alltoall([into, count, spec], [again, count, spec])
        WORLD.Gather([own, count, spec], [into, count, spec] if root == RANK else None, root)
        WORLD.Scatter([again, count, spec] if root == RANK else None, [into, count, spec], root)
        WORLD.Bcast([into, spec], root)
        WORLD.Allgather([own, spec], [into, count, spec])
        return into

    def pieces():
        pair = MPI.BYTE.Create_contiguous(own.nbytes // count).Commit()
        into = np.zeros(count, kind)
        WORLD.Scatter([all_, count, pair] if root == RANK else None, [into, pair], root)
        pair.Free()
        return into

    for call in (
        bcast,
        gather,
        scatter,
        allgather,
        allgather_in_place,
        alltoall,
        alltoall_in_place,
        with_types,
        pieces,
    ):
        both(call)


def reduced(kind, count, seed, root, op):
    own = values(kind, count, seed)
    long = values(kind, count * SIZE, seed + 1)

    def reduce():
        into = np.zeros(count, kind)
        WORLD.Reduce(own, into if root == RANK else None, op, root)
        return into

    def reduce_in_place():
        into = own.copy()
        if root == RANK:
            WORLD.Reduce(MPI.IN_PLACE, into, op, root)
        else:
            WORLD.Reduce(into, None, op, root)
        return into

    def blocks():
        into = np.zeros(count, kind)
        WORLD.Reduce_scatter_block(long, into, op)
        return into

    def symmetric(method, in_place):
        into = own.copy()
        method(MPI.IN_PLACE if in_place else own, into, op)
        return into

    def with_types():
        spec = MPI.Datatype.fromcode(kind)
        into = np.zeros(count, kind)
        WORLD.Allreduce([own, spec], [into, count, spec], op)
        WORLD.Reduce_scatter_block([long, count, spec], [into, count, spec], op)
        WORLD.Reduce([own, spec], [into, spec], op, root)
        return into

    for call in (reduce, reduce_in_place, blocks, with_types):
        both(call)
    for method, in_place in itertools.product((WORLD.Allreduce, WORLD.Scan, WORLD.Exscan), (False, True)):
        both(lambda method=method, in_place=in_place: symmetric(method, in_place))


def mixed():
    """Ranks that differ in which path they take meet all the same, also in calls by messages afterwards."""
    for turn in range(20):
        data = np.full(4, RANK, "d")
        WORLD.Bcast([data, MPI.DOUBLE] if (turn + RANK) % 2 else data, turn % SIZE)
        assert (data == turn % SIZE).all()
        total = np.zeros(4)
        WORLD.Allreduce(data if (turn + RANK) % 3 else [data, 4, MPI.DOUBLE], total)
        assert (total == SIZE * (turn % SIZE)).all()
        request = WORLD.Iallreduce(data, total)
        WORLD.Barrier()
        request.Wait()
        strided = np.zeros((4, 2))[:, 0]
        own = MPI.Op.Create(lambda a, b, t: None, commute=False)
        WORLD.Allreduce(data, total, own)
        own.Free()
        try:
            WORLD.Bcast(strided, 0)
        except (BufferError, ValueError):
            pass
        else:
            raise AssertionError("memory with gaps was taken for an array")


WORLD.Barrier()  # from now on the ranks share memory
for seed, (kind, count) in enumerate(itertools.product(TYPES, (1, 33))):
    moved(kind, count, seed, seed % SIZE)
    reduced(kind, count, seed, seed % SIZE, OPERATIONS[seed % len(OPERATIONS)])
for seed, op in enumerate(OPERATIONS):
    reduced("ld"[seed % 2], 20000, seed, seed % SIZE, op)
moved("d", 50000, 1, 0)
mixed()
WORLD.Barrier()
