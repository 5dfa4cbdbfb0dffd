"""Random programs of one-sided operations against arrays: each rank has a part of every memory, which it knows."""

# ruff: noqa: F821  (comm, rank, size, MPI, np, SEEDS and ROUNDS are the ranks' own)
from __future__ import annotations

import os

import pytest

from .ways import DEVICES, run

ROUNDS = 400 if os.environ.get("FASTSOCK_SOAK") else 40


def program():
    import random

    def run_one(seed):
        together, mine = random.Random(seed), random.Random(seed * 1000 + rank)
        length = 64
        operations = [MPI.SUM, MPI.MAX, MPI.MIN, MPI.BXOR, MPI.REPLACE, MPI.NO_OP]
        window = MPI.Win.Allocate(8 * (length * size + 1), 8, comm=comm)
        model = np.zeros((size, length), "i8")  # of each target: this rank's part
        counted = 0
        group, begin = comm.Get_group(), rank * length
        expected = []  # (array, what it is to have)

        def place():
            """[displacement, count, datatype], which elements of the part these are, and whether it has gaps."""
            count = mine.randrange(1, 9)
            first = mine.randrange(length - 3 * count)
            step = mine.choice([1, 1, 2, 3])
            datatype = MPI.INT64_T.Create_vector(count, 1, step).Commit()
            return [begin + first, 1, datatype], slice(first, first + (count - 1) * step + 1, step), count

        def update(target):
            where, part, count = place()
            op, data = mine.choice(operations), np.array([mine.randrange(-99, 99) for _ in range(count)], "i8")
            before, here = model[target, part].copy(), np.zeros(count, "i8")
            if mine.random() < 0.5:
                window.Accumulate(data, target, where, op)
            else:
                window.Get_accumulate(data, here, target, where, op)
                expected.append((here, before))
            wanted = before.copy()
            op.Reduce_local(data, wanted)
            model[target, part] = wanted

        def single(target):
            number, value = mine.randrange(length), mine.randrange(100)
            here, before = np.zeros(1, "i8"), model[target, number : number + 1].copy()
            compared = before + mine.randrange(2)
            window.Compare_and_swap(np.full(1, value, "i8"), compared, here, target, begin + number)
            expected.append((here, before))
            if compared[0] == before[0]:
                model[target, number] = value

        def put(target):
            where, part, count = place()
            data = np.array([mine.randrange(1 << 40) for _ in range(count)], "i8")
            window.Put(data, target, where)
            model[target, part] = data

        def get(target):
            where, part, count = place()
            here = np.zeros(count, "i8")
            window.Get(here, target, where)
            expected.append((here, model[target, part].copy()))

        def add():
            nonlocal counted
            window.Accumulate(np.ones(1, "i8"), 0, length * size)
            counted += 1

        def without_flushes():
            """What may go on at the same time: one put or get for each target, or updates of one kind."""
            for target in range(size):
                mine.choice([put, get, single, lambda target: [update(target) for _ in range(3)]])(target)
            add()

        def with_flushes(targets):
            for _ in range(10):
                target = mine.choice(targets)
                mine.choice([put, get, update, single])(target)
                if mine.random() < 0.5:
                    window.Flush_all()
                else:
                    window.Flush(target)
                if 0 in targets:
                    add()

        def check():
            for here, wanted in expected:
                assert (here == wanted).all(), (here, wanted)
            expected.clear()

        for _ in range(ROUNDS):
            kind = together.randrange(4)
            if kind == 0:
                window.Fence()
                without_flushes()
                window.Fence(MPI.MODE_NOSUCCEED)
            elif kind == 1:
                window.Post(group)
                window.Start(group)
                without_flushes()
                window.Complete()
                window.Wait()
            elif kind == 2:
                window.Lock_all()
                with_flushes(range(size))
                window.Unlock_all()
            else:
                target = mine.randrange(size)
                window.Lock(target, mine.choice([MPI.LOCK_SHARED, MPI.LOCK_EXCLUSIVE]))
                with_flushes([target])
                window.Unlock(target)
            check()
        comm.Barrier()
        total = comm.allreduce(counted)
        everything = np.stack(comm.allgather(model), axis=1)[rank]
        memory = np.frombuffer(window, "i8")
        assert (memory[: length * size] == everything.ravel()).all()
        assert rank > 0 or memory[length * size] == total
        window.Free()

    for seed in SEEDS:
        try:
            run_one(seed)
        except BaseException:
            print("seed", seed, flush=True)
            raise


def check(ranks, way, seeds, rounds=ROUNDS, **more):
    """A program for each seed, in one job."""
    run(program, ranks, way, before_it=f"SEEDS, ROUNDS = {seeds!r}, {rounds}\n", **more)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("seed", range(3))
def test_random_programs(device, seed):
    check(2 + seed, device, [seed])


@pytest.mark.parametrize("device", DEVICES)
def test_many_short_programs(device):
    check(3, device, range(100, 110), 6)
