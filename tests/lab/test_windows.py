"""Windows on ibvdev: the origin's device writes and reads the target's memory, and the target does nothing."""

# ruff: noqa: F821  (comm, rank, size, MPI, np, os and TOLD's names are the ranks' own)
from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ..helpers.scripts import ROOT
from ..mpj import ranks
from ..mpj.windows import test_ends, test_model, ways
from .guest import Guest, only_in_full, only_in_lab

pytestmark = only_in_lab

PATIENCE_S = 110  # of ranks on an emulated processor
SSH = '#!/bin/sh\ncase "$1" in *.1) host=h1 ;; *) host=h2 ;; esac\nexec ip netns exec $host sh -c "$2"\n'
COUNTS = """
def carried(other):
    counts = comm.ob.engine.verbs_counts(other)
    return np.array([counts["placed"], counts["fetched"]])
"""
MEMORY = [ways.MESSAGES, f"{ways.OWN}{ways.MESSAGES}"]  # new memory, and the program's
MORE = [(MEMORY[0], "write"), (MEMORY[1], "send"), (MEMORY[1], "write")]


@pytest.fixture(autouse=True)
def guest():
    found = Guest()
    if found.net == "wire" or not all(map(found.counts, found.devices())):
        pytest.skip("needs SoftRoCE in one guest")
    return found


def _before(way: str) -> str:
    # by messages, if no device were there: members that share a host would share memory
    return "".join(ways.before(each) for each in (ways.MESSAGES, ways.OWN) if each in way)


@pytest.fixture
def run(guest, tmp_path):
    """Runs the body of a function on so many ranks, on both hosts where there are two; what they wrote."""

    def start(function: Callable[[], None], count: int, before: str = "", status: int = 0, **environment: str) -> str:
        prefix = ranks.PREFIX.replace(f"({ranks.PATIENCE_S},", f"({PATIENCE_S},")
        (tmp_path / "app.py").write_text(prefix + before + ranks.source_of(function))
        words = [*guest.at_h1, sys.executable, "-m", "fastsock.mpj.run", "--device", "ibvdev", "--timeout", "120"]
        words += ["--grace", "100"]  # how long those that are left may go on
        words += _hosts(guest, tmp_path, count) if guest.at_h1 else ["-n", str(count)]
        (tmp_path / "ssh").write_text(SSH)
        (tmp_path / "ssh").chmod(0o755)
        variables = os.environ | {"PYTHONPATH": str(ROOT), "FASTSOCK_MPJ_SSH": str(tmp_path / "ssh")} | environment
        done = subprocess.run(
            [*words, str(tmp_path / "app.py")], capture_output=True, text=True, timeout=150, env=variables
        )
        print(done.stdout)
        assert (done.returncode == 0) == (status == 0), done.stdout + done.stderr
        return done.stdout + done.stderr

    return start


def _hosts(guest: Guest, folder: Path, count: int) -> list[str]:
    (folder / "hosts").write_text(f"localhost:{count - count // 2}\n10.78.0.2:{count // 2}\n")
    return ["--hostfile", str(folder / "hosts")]


@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    ("way", "eager"), [(MEMORY[0], "send"), *(pytest.param(*each, marks=only_in_full) for each in MORE)]
)
def test_the_target_is_stopped(run, way, eager):
    """So it is its device that answers, and the origin's that counts the bytes."""

    def body():
        import signal

        def state(process):
            with open(f"/proc/{process}/stat") as file:
                return file.read().rpartition(")")[2].split()[0]

        window = MPI.Win.Allocate(8 * 200_000, 8, comm=comm)
        memory = np.frombuffer(window, "d")
        memory[:] = np.arange(200_000) + rank
        processes = comm.allgather(os.getpid())
        comm.Barrier()
        if rank == 0:
            window.Lock(1, MPI.LOCK_EXCLUSIVE, MPI.MODE_NOCHECK)
            comm.recv(source=1)
            while state(processes[1]) != "T":
                os.sched_yield()
            before, moved = carried(1), 0
            for first, count in ((0, 1), (5, 1000), (2000, 3000), (10_000, 150_000)):
                found = np.zeros(count)
                window.Get(found, 1, first)
                window.Flush(1)
                assert (found == np.arange(first, first + count) + 1).all(), (first, count)
                window.Put(-found, 1, first)
                window.Flush(1)
                found[:] = 0
                window.Get(found, 1, first)
                window.Flush(1)
                assert (found == -np.arange(first, first + count) - 1).all(), (first, count)
                moved += 8 * count
            window.Rput(np.full(1, 77.0), 1, 199_999).Wait()
            window.Flush(1)
            assert (carried(1) - before >= [moved, 2 * moved]).all(), (before, carried(1))
            window.Unlock(1)
            os.kill(processes[1], signal.SIGCONT)
        else:
            comm.send(None, 0)
            os.kill(os.getpid(), signal.SIGSTOP)
        comm.Barrier()
        if rank == 1:
            assert memory[199_999] == 77
            assert (memory[10_000:160_000] == -np.arange(10_000, 160_000) - 1).all()
        window.Free()
        print("right", flush=True)

    before = "import os\n" + COUNTS + _before(way)
    assert run(body, 2, before, FASTSOCK_MPJ_RDMA_EAGER=eager).count("right") == 2


@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    "memory", [1 << 30, pytest.param(100 << 12, marks=only_in_full), pytest.param(1 << 16, marks=only_in_full)]
)
def test_all_lengths_and_many_at_once(run, memory):
    """Also where the device may know the window's memory, and no more: then through buffers; and where not that."""

    def body():
        window = MPI.Win.Allocate(400_000, 1, comm=comm)
        memory = np.frombuffer(window, "u1")
        comm.Barrier()
        if rank == 0:
            window.Lock(1)
            before, moved = carried(1), 0
            for length in (1, 7, 8, 219, 220, 221, 8191, 8192, 16_383, 16_384, 16_385, 32_768, 390_001):
                data, found = np.arange(length).astype("u1") + np.uint8(length % 200), np.zeros(length, "u1")
                window.Put(data, 1, 5)
                window.Flush(1)
                window.Get(found, 1, 5)
                window.Flush(1)
                assert (found == data).all(), length
                moved += length
            data, all_found = np.arange(200, dtype="i8"), np.zeros(200, "i8")
            for number in range(200):
                window.Put(data[number : number + 1], 1, 8 * number)
            window.Flush_local(1)
            data[:] = -1
            window.Flush(1)
            for number in range(200):
                window.Get(all_found[number : number + 1], 1, 8 * number)
            window.Flush(1)
            assert (all_found == np.arange(200)).all(), all_found
            moved += 1600
            assert (carried(1) - before >= moved).all() == KEYED, (before, carried(1), moved)
            window.Unlock(1)
        comm.Barrier()
        if rank == 1:
            assert (memory[:1600].view("i8") == np.arange(200)).all()
        window.Free()
        print("right", flush=True)

    before = COUNTS + _before(ways.MESSAGES) + f"KEYED = {memory > 400_000}\n"
    assert run(body, 2, before, FASTSOCK_MPJ_RDMA_MEMORY=str(memory)).count("right") == 2


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("way", "count"), [(MEMORY[0], 2), *(pytest.param(way, 4, marks=only_in_full) for way in MEMORY)]
)
def test_random_programs(run, way, count):
    before = f"SEEDS, ROUNDS = range(20, {20 + 4 // count}), 6\n" + _before(way)
    assert not run(test_model.program, count, before)


@pytest.mark.timeout(200)
def test_a_target_dies(run):
    def body():
        window = MPI.Win.Allocate(8 * 100_000, 8, comm=comm)
        window.Lock_all()
        comm.Barrier()
        data = np.ones(100_000)
        for other in range(size):
            window.Put(data[:1], other)
        window.Flush_all()
        comm.Barrier()
        if rank == 2:
            die()
        for count in (1, 3000, 100_000):
            for call in (window.Put, window.Get):

                def use(call=call, count=count):
                    while True:
                        call(data[:count], 2)
                        window.Flush(2)

                told_of_a_death(use)
        told_of_a_death(lambda: window.Rget(data, 2).Wait())
        window.Put(data, 1 - rank)
        window.Flush(1 - rank)
        told_of_a_death(window.Unlock_all)
        told_of_a_death(window.Fence)
        comm.sendrecv(None, 1 - rank, source=1 - rank)
        told_of_a_death(window.Free)
        comm.sendrecv(None, 1 - rank, source=1 - rank)
        print("the end", flush=True)

    assert run(body, 3, test_ends.TOLD + _before(ways.MESSAGES), status=1).count("the end") == 2


@pytest.mark.timeout(200)
def test_datatypes_with_gaps_at_the_target(run):
    """The device writes and reads each piece; where there are many short ones, a message brings them all."""

    def body():
        window = MPI.Win.Allocate(8 * 40_000, 8, comm=comm)
        memory = np.frombuffer(window, "d")
        comm.Barrier()
        if rank == 0:
            window.Lock(1)
            for count, block, step, is_moved in ((5, 3, 7, True), (30, 600, 1000, True), (300, 2, 100, False)):
                shape = MPI.DOUBLE.Create_vector(count, block, step).Create_resized(8, 8 * 35_000).Commit()
                there = np.zeros(40_000)
                places = (np.arange(count)[:, None] * step + np.arange(block)).ravel() + 3
                data, found = np.arange(count * block) + 0.5, np.zeros(count * block)
                there[places] = data
                before = carried(1)
                window.Put(data, 1, [3, 1, shape])
                window.Flush(1)
                window.Get(found, 1, [3, 1, shape])
                window.Flush(1)
                assert (found == data).all(), found
                assert ((carried(1) - before >= data.nbytes) == is_moved).all(), (count, carried(1) - before)
                found = np.zeros(40_000)
                window.Get(found, 1)
                window.Flush(1)
                assert (found == there).all(), np.flatnonzero(found != there)
                window.Put(np.zeros(40_000), 1)
                window.Flush(1)
                shape.Free()
            window.Unlock(1)
        comm.Barrier()
        assert not memory.any()
        window.Free()
        print("right", flush=True)

    assert run(body, 2, COUNTS + _before(ways.MESSAGES)).count("right") == 2
