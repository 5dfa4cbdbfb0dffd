"""A program of a few ranks: plain arrays through the fast calls give what the general path gives, bit for bit.

Then calls that the fast path must leave alone, mixed with others by rank, still find each other.
"""

import itertools

import numpy as np

from fastsock.mpj import MPI
from fastsock.mpj.collectives.table import TABLE
from fastsock.mpj.communicators.declining import NO_TEAM

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
    fast = WORLD.ob.team_calls
    assert fast is not NO_TEAM
    outcomes = []
    for path in (fast, NO_TEAM):
        WORLD.ob.team_calls = path
        try:
            outcomes.append(call())
        except (MPI.Exception, TypeError, ValueError) as error:
            outcomes.append(type(error))
        finally:
            WORLD.ob.team_calls = fast
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

    def gather_in_place():
        into = all_.copy()
        if root == RANK:
            WORLD.Gather(MPI.IN_PLACE, into, root)
            assert (into[count * RANK : count * (RANK + 1)] == all_[count * RANK : count * (RANK + 1)]).all()
        else:
            WORLD.Gather(own, None, root)
        return into

    def scatter_in_place():
        into = all_.copy()
        if root == RANK:
            WORLD.Scatter(into, MPI.IN_PLACE, root)
            assert (into == all_).all()
        else:
            WORLD.Scatter(None, into[:count], root)
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
        pair = MPI.BYTE.Create_contiguous(own.itemsize).Commit()
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
        gather_in_place,
        scatter_in_place,
        alltoall,
        alltoall_in_place,
        with_types,
        pieces,
    ):
        both(call)


FORMS = (
    lambda data, counts, places, kind: [data, counts],
    lambda data, counts, places, kind: (data, list(counts), MPI.Datatype.fromcode(kind)),
    lambda data, counts, places, kind: [data, np.array(counts)],
    lambda data, counts, places, kind: [data, (counts, places)],
    lambda data, counts, places, kind: [data, counts, places, MPI.Datatype.fromcode(kind)],
    lambda data, counts, places, kind: (data, (np.array(counts, "i"), np.array(places)), MPI.Datatype.fromcode(kind)),
    lambda data, counts, places, kind: [memoryview(data), [np.int8(count) for count in counts], places, kind],
)


def moved_in_blocks(kind, seed, root, form, gap):
    """Rank i gives j so many items as row i says in column j; `gap` items lie between blocks."""
    amounts = np.random.default_rng(seed).integers(0, 40, (SIZE, SIZE))
    if form >= 3:
        amounts[seed % SIZE] = 0  # a rank without anything: the others may still go the fast way

    def laid_out(counts):
        counts = [int(count) for count in counts]
        if form < 3:
            return counts, list(itertools.accumulate([0, *counts[:-1]]))
        return counts, list(itertools.accumulate([gap, *(count + gap for count in counts[:-1])]))

    def room(counts, places, seed=None):
        many = max(count + place for count, place in zip(counts, places, strict=True)) + 1
        return np.zeros(many, kind) if seed is None else values(kind, many, seed)

    def spec(data, counts, places):
        return FORMS[form](data, counts, places, kind)

    firsts = laid_out(amounts[:, 0])
    given, taken = laid_out(amounts[RANK]), laid_out(amounts[:, RANK])
    own = values(kind, int(amounts[RANK, 0]), seed)

    def gatherv():
        into = room(*firsts)
        WORLD.Gatherv(own, spec(into, *firsts) if root == RANK else None, root)
        return into

    def scatterv():
        into = np.zeros(len(own), kind)
        WORLD.Scatterv(spec(room(*firsts, seed), *firsts) if root == RANK else None, into, root)
        return into

    def in_place():
        into = room(*firsts, seed)
        if root == RANK:
            WORLD.Gatherv(MPI.IN_PLACE, spec(into, *firsts), root)
            WORLD.Scatterv(spec(into, *firsts), MPI.IN_PLACE, root)
        else:
            WORLD.Gatherv(own, None, root)
            WORLD.Scatterv(None, into[: len(own)], root)
        WORLD.Allgatherv(MPI.IN_PLACE, spec(into, *firsts))
        return into

    def allgatherv():
        into = room(*firsts)
        WORLD.Allgatherv(own, spec(into, *firsts))
        return into

    def alltoallv():
        into = room(*taken)
        WORLD.Alltoallv(spec(room(*given, seed), *given), spec(into, *taken))
        return into

    def alltoallw():
        datatypes = [MPI.Datatype.fromcode(kind)] * SIZE
        width = np.dtype(kind).itemsize

        def typed(data, counts, places):
            places = [place * width for place in places]
            if form % 2:
                return [data, counts, places, datatypes]
            return [data, (counts, np.array(places)), tuple(datatypes)]

        into = room(*taken)
        WORLD.Alltoallw(typed(room(*given, seed), *given), typed(into, *taken))
        WORLD.Alltoallw(MPI.IN_PLACE, typed(into, *laid_out([min(map(min, amounts.tolist()))] * SIZE)))
        return into

    def alltoallv_in_place():
        same = laid_out(amounts[0])
        into = room(*laid_out([max(same[0])] * SIZE), seed)
        WORLD.Alltoallv(MPI.IN_PLACE, spec(into, *laid_out([max(same[0])] * SIZE)))
        return into

    def reduce_scatter():
        counts = firsts[0]
        into = np.zeros(counts[RANK], kind)
        WORLD.Reduce_scatter(values(kind, sum(counts), seed), into, np.array(counts) if form % 2 else counts, MPI.MAX)
        return into

    def reduce_scatter_in_place():
        counts = firsts[0]
        before = values(kind, sum(counts), seed)
        into = before.copy()
        WORLD.Reduce_scatter(MPI.IN_PLACE, into, np.array(counts) if form % 2 else counts, MPI.MAX)
        assert (into[counts[RANK] :] == before[counts[RANK] :]).all()
        return into

    for call in (
        gatherv,
        scatterv,
        in_place,
        allgatherv,
        alltoallv,
        alltoallv_in_place,
        alltoallw,
        reduce_scatter,
        reduce_scatter_in_place,
    ):
        both(call)


class General:
    """Leaves every call among neighbours to the general path."""

    def __getattr__(self, name):
        return lambda send, receive: False


def among_neighbours(comm, kind, count, seed):
    if comm.Get_topology() == MPI.CART:
        many_in = many_out = 2 * comm.Get_dim()
    elif comm.Get_topology() == MPI.GRAPH:
        many_in = many_out = comm.Get_neighbors_count(RANK)
    else:
        many_in, many_out, _ = comm.Get_dist_neighbors_count()
    own, each = values(kind, count, seed), values(kind, count * many_out, seed)
    # all blocks are of one size, but do not lie in order
    given = [
        each,
        [count] * many_out,
        [count * (many_out - 1 - at) for at in range(many_out)],
        MPI.Datatype.fromcode(kind),
    ]
    found = []
    for path in (None, General()):
        comm.ob.neighbour_calls = path
        one, other, third, fourth = (np.zeros(count * many_in, kind) for _ in range(4))
        comm.Neighbor_allgather(own, one)
        comm.Neighbor_allgatherv(own, [other, [count] * many_in])
        comm.Neighbor_alltoall(each, third)
        comm.Neighbor_alltoallv(given, [fourth, (np.array([count] * many_in), None)])
        comm.Neighbor_alltoall([each, count, MPI.Datatype.fromcode(kind)], [third, MPI.Datatype.fromcode(kind)])
        found.append([array.tobytes() for array in (one, other, third, fourth)])
    assert found[0] == found[1], (comm.Get_topology(), kind, count)
    comm.ob.neighbour_calls = None


def neighbours():
    around = [(RANK + 1) % SIZE, (RANK - 1) % SIZE]
    graph = WORLD.Create_graph(
        [2 * (rank + 1) for rank in range(SIZE)],
        [(rank + step) % SIZE for rank in range(SIZE) for step in (1, -1)],
    )
    for comm in (
        WORLD.Create_cart([SIZE], [True]),
        WORLD.Create_cart([SIZE], [False]),
        WORLD.Create_cart([SIZE, 1], [False, True]),
        graph,
        WORLD.Create_dist_graph_adjacent(around, around),
    ):
        for seed, (kind, count) in enumerate(itertools.product("dB", (1, 100, 50000))):
            among_neighbours(comm, kind, count, seed)
        comm.Free()
    cart = WORLD.Create_cart([SIZE], [True])
    data, one = np.zeros(2), np.zeros(1)
    cart.Neighbor_alltoall(data, data.copy())
    fast, spec = cart.ob.neighbour_calls, [data, [1, 1]]
    assert fast.allgather(one, data.copy())
    assert fast.allgatherv(one, [data.copy(), [1, 1]])
    assert fast.alltoall(data, data.copy())
    assert fast.alltoallv(spec, [data.copy(), [1, 1]])
    truncated = [data.copy(), [2, 0]] if RANK == 0 else [data.copy(), [1, 1]]
    try:
        cart.Neighbor_alltoallv([data, [1, 1]] if SIZE == 1 else spec, truncated)
    except MPI.Exception as error:
        assert error.Get_error_class() == MPI.ERR_TRUNCATE
        assert RANK == 0
    else:
        assert RANK != 0


def blocks_go_the_fast_way():
    """What the layouts above are for: plain ones are not left to the general path."""
    fast, data, own = WORLD.ob.team_calls, np.zeros(3 * SIZE), np.zeros(3)
    counts, places = [3] * SIZE, [3 * at for at in range(SIZE)]
    for spec in ([data, counts], (data, (np.array(counts), places), MPI.DOUBLE), [data, counts, places, MPI.DOUBLE]):
        assert fast.gatherv(own, spec if RANK == 0 else None, 0)
        assert fast.scatterv(spec if RANK == 0 else None, own, 0)
        assert fast.allgatherv(own, spec)
        assert fast.alltoallv(spec, spec)
        assert fast.reduce_scatter(data, own, counts, MPI.SUM)
    typed = [data, counts, [8 * place for place in places], [MPI.DOUBLE] * SIZE]
    assert fast.alltoallw(typed, typed)


def calls_in_place_go_the_fast_way():
    """Of each, where it may be: at the root of the first ones."""
    fast, data, own, root = WORLD.ob.team_calls, np.zeros(3 * SIZE), np.zeros(3), RANK == 0
    counts = [3] * SIZE
    assert fast.gather(MPI.IN_PLACE if root else own, data if root else None, 0)
    assert fast.scatter(data if root else None, MPI.IN_PLACE if root else own, 0)
    assert fast.gatherv(MPI.IN_PLACE if root else own, [data, counts] if root else None, 0)
    assert fast.scatterv([data, counts] if root else None, MPI.IN_PLACE if root else own, 0)
    assert fast.reduce(MPI.IN_PLACE if root else own, own if root else None, MPI.SUM, 0)
    assert fast.allgather(MPI.IN_PLACE, data)
    assert fast.allgatherv(MPI.IN_PLACE, [data, counts])
    assert fast.alltoall(MPI.IN_PLACE, data)
    assert fast.alltoallv(MPI.IN_PLACE, [data, counts])
    for call in (fast.allreduce, fast.scan, fast.exscan, fast.reduce_scatter_block):
        assert call(MPI.IN_PLACE, data, MPI.SUM)
    assert fast.reduce_scatter(MPI.IN_PLACE, data, counts, MPI.SUM)


def the_selection_table_decides():
    """Also where it changes after the first call."""
    fast, data = WORLD.ob.team_calls, np.zeros(3)
    assert fast.bcast(data, 0) and fast.barrier()
    TABLE.force("bcast", "flat_tree")
    assert not fast.bcast(data, 0) and fast.barrier()
    TABLE.force("bcast", None)
    assert fast.bcast(data, 0)


def wrong_blocks():
    """What does not fit is the general path's to refuse, on the rank alone that says it, before anything is sent."""
    data, own = np.zeros(3 * SIZE), np.zeros(3)
    for spec in (
        [data, [3] * (SIZE + 1)],
        [data, [-1] * SIZE],
        [data, [4] * SIZE],
        [data, [3] * SIZE, [1 << 70] * SIZE, MPI.DOUBLE],
        [data, [3] * SIZE, [-(1 << 62)] * SIZE, MPI.DOUBLE],
        [data, [1.5] * SIZE],
        [data, [3] * SIZE, None, MPI.DATATYPE_NULL],
    ):
        for call in (WORLD.Allgatherv, WORLD.Gatherv):
            try:
                call(own, spec, *([RANK] if call == WORLD.Gatherv else []))
            except (MPI.Exception, TypeError, ValueError, OverflowError):
                continue
            raise AssertionError(f"{spec[1:]} was taken")


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

    def blocks_in_place():
        into = long.copy()
        WORLD.Reduce_scatter_block(MPI.IN_PLACE, into, op)
        assert (into[count:] == long[count:]).all()
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

    for call in (reduce, reduce_in_place, blocks, blocks_in_place, with_types):
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
moved("d", 0, 1, 0)
for seed, (form, kind, gap) in enumerate(itertools.product(range(len(FORMS)), "dbH", (0, 3))):
    moved_in_blocks(kind, seed, seed % SIZE, form, gap)
blocks_go_the_fast_way()
calls_in_place_go_the_fast_way()
the_selection_table_decides()
neighbours()
wrong_blocks()
mixed()
WORLD.Barrier()
