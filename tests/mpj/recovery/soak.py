"""Ranks killed at random moments of a job that goes on: nobody hangs, and those that are left always agree.

python -m tests.mpj.recovery.soak --kills 1000 [--jobs 2] [--seed N] [--ranks 6]      random calls
python -m tests.mpj.recovery.soak --kills 1000 --train                                examples/train_on.py
python -m tests.mpj.recovery.soak --kills 1000 --meeting spawn                        ranks of two jobs; or: ports
"""

# ruff: noqa: F821  (comm, whole, rank, size, MPI, np, os, SEED, LEFT, EXAMPLE, error_of are the ranks' own)
from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

from .. import ranks
from .jobs import BEFORE, MEETINGS, TCP, two_jobs

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "train_on.py"
PATIENCE_S = 100.0
WAYS = ["iodev", "iodev", "sysvdev", f"iodev{TCP}"]
FEWEST, MOST = 3, 6


# All members do the same random calls, and agree whether all could. If not they shrink, until so many are left.
def survivors():
    import random

    ENDED = (MPI.ERR_PROC_FAILED, MPI.ERR_REVOKED, MPI.ERR_IN_STATUS)

    def say(what):
        os.write(1, f"{rank} {what}\n".encode())

    def check(comm, is_right, what):
        if not is_right:
            print("wrong", rank, what, "of", comm.size, flush=True)
            os._exit(3)

    def ring(comm, count):
        here = np.full(count, comm.rank, "i4")
        there = np.empty(count, "i4")
        comm.Sendrecv(here, (comm.rank + 1) % comm.size, 1, there, (comm.rank - 1) % comm.size, 1)
        check(comm, (there == (comm.rank - 1) % comm.size).all(), "ring")

    def started(comm, count):
        there = np.empty(count, "i4")
        requests = [comm.Irecv(there, MPI.ANY_SOURCE, 2)]
        requests.append(comm.Isend(np.full(count, comm.rank, "i4"), (comm.rank + 1) % comm.size, 2))
        MPI.Request.Waitall(requests)
        check(comm, (there == (comm.rank - 1) % comm.size).all(), "started")

    def reduced(comm, count):
        there = np.empty(count)
        comm.Allreduce(np.ones(count), there)
        check(comm, (there == comm.size).all(), "reduced")

    def reduced_later(comm, count):
        there = np.empty(count)
        comm.Iallreduce(np.ones(count), there).Wait()
        check(comm, (there == comm.size).all(), "reduced later")

    def objects(comm, count):
        found = comm.allgather([comm.rank] * (count % 99))
        check(comm, [each[:1] for each in found] == [[each][: count % 99] for each in range(comm.size)], "objects")
        check(comm, comm.bcast(count, count % comm.size) == count, "bcast")

    def made(comm, count):
        other = comm.Split(comm.rank % 2) if count % 2 else comm.Dup()
        found = other.allreduce(1)
        check(comm, found == other.size, "made")
        other.Free()

    def swapped(comm, count):
        there = np.empty(comm.size * 900, "i4")
        comm.Alltoall(np.full(comm.size * 900, comm.rank, "i4"), there)
        check(comm, (np.arange(comm.size) == there.reshape(comm.size, 900).T).all(), "swapped")

    def work(comm, same):
        calls = [ring, started, reduced, reduced_later, objects, made, swapped, MPI.Comm.Barrier]
        for _ in range(same.randrange(9)):
            call, count = same.choice(calls), same.choice([1, 100, 9_000, 300_000])
            if call is MPI.Comm.Barrier:
                comm.Barrier()
            else:
                call(comm, count)

    # Whether all members that live have done it. All of them get the same.
    def all_did(comm, call, *arguments, later=False):
        done = np.ones(1, "i4")
        try:
            call(comm, *arguments)
        except MPI.Exception as error:
            check(comm, error.Get_error_class() in ENDED, error)
            done[0] = 0
            comm.Revoke()
        try:
            if later:
                comm.Iagree(done).Wait()
                return bool(done[0])
            return comm.Agree(int(done[0])) == 1
        except MPI.Exception as error:
            check(comm, error.Get_error_class() == MPI.ERR_PROC_FAILED, error)
            return False

    def same_members(comm):
        members = comm.Get_group().Translate_ranks(None, world.Get_group())
        check(comm, len({tuple(each) for each in comm.allgather(members)}) == 1, "members")

    def shrunk(comm, later):
        while True:
            if later:
                comm, request = comm.Ishrink()
                request.Wait()
            else:
                comm = comm.Shrink()
            if all_did(comm, same_members):
                return comm

    say(os.getpid())
    world = comm
    generation = 0
    error_of(world.Barrier)
    say("begins")
    while comm.size > LEFT:
        same = random.Random(f"{SEED} {generation} {comm.size}")
        later = same.random() < 0.3
        if not all_did(comm, work, same, later=later):
            before, comm = comm, shrunk(comm, later)
            if before is not world:
                before.Free()
        generation += 1
    check(comm, comm.allreduce(1) == LEFT, "the end")
    say("left")


# The example, whose processes say what their numbers are.
def trainers():
    import runpy

    os.write(1, f"{rank} {os.getpid()}\n".encode())
    error_of(comm.Barrier)
    os.write(1, f"{rank} begins\n".encode())
    runpy.run_path(EXAMPLE)["train"](comm)
    os.write(1, f"{rank} left\n".encode())


class Job:
    """One job of which ranks are killed, until as many as `left` live. `kill()` gives what was wrong, or nothing."""

    def __init__(self, seed: int, size: int, left: int, body: Callable[[], None], meeting: str = "") -> None:
        self.chosen = random.Random(seed)
        self.size, self.left = size, left
        self.killed = 0
        self.said: list[str] = []
        self.pids: dict[int, int] = {}
        self.begun = 0
        self.open = ExitStack()
        if meeting:
            self.way = meeting
            first = self.chosen.randint(1, size - 1)
            before = f"SEED, LEFT = {seed}, {left}\n"
            text = "comm, rank = whole, whole.rank\n" + ranks.source_of(body)
            made = two_jobs(meeting, text, (first, size - first), before, ["--as-mpi4py"])
            self.processes, self.output = self.open.enter_context(made)
            return
        self.way = self.chosen.choice(WAYS)
        device = self.way.removesuffix(TCP)
        program = ranks.PREFIX.replace("50", "70") + BEFORE
        program += f"SEED, LEFT, EXAMPLE = {seed}, {left}, {str(EXAMPLE)!r}\n" + ranks.source_of(body)
        command = [sys.executable, "-m", "fastsock.mpj.run", "-n", str(size), "--device", device]
        command += ["--keep-going", "--as-mpi4py"]
        environ = os.environ | {"STEPS": "4000"} | ({"FASTSOCK_TRANSPORTS": "tcp"} if device != self.way else {})
        process = subprocess.Popen(
            [*command, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environ
        )
        assert process.stdout is not None
        self.processes, self.output = [process], process.stdout

    def read(self, until_begun: bool) -> None:
        for line in self.output:
            self.said.append(line)
            words = line.split()
            if len(words) == 2 and words[0].isdigit() and words[1].isdigit():
                self.pids[int(words[0])] = int(words[1])
            self.begun += words[1:] == ["begins"]
            if until_begun and self.begun == self.size:
                return

    def kill(self) -> str:
        self.read(True)
        if self.begun < self.size:
            return f"{self.way}: did not begin\n{''.join(self.said)}"
        reader = threading.Thread(target=self.read, args=(False,))
        reader.start()
        spared = (
            self.way == "spawn"
        )  # rank 0: a spawned job ends with the runner of the first, which ends with its ranks
        for victim in self.chosen.sample(range(spared, self.size), self.size - self.left):
            time.sleep(self.chosen.random() * self.chosen.choice([0.0, 0.002, 0.02, 0.3]))
            with suppress(ProcessLookupError):  # it has ended already
                os.kill(self.pids[victim], signal.SIGKILL)
                self.killed += 1
        reader.join(PATIENCE_S)
        if reader.is_alive():
            for process in self.processes:
                process.terminate()
            reader.join()
            return f"{self.way}: hangs\n{''.join(self.said)}"
        for process in self.processes:
            process.wait()
        self.output.close()
        self.open.close()
        text = "".join(self.said)
        ended = text.count(" left\n")
        fine = self.left <= ended <= self.size and "wrong" not in text and "Traceback" not in text
        fine = fine and ended + text.count("was killed by signal 9") >= self.size
        return "" if fine else f"{self.way}: {text}"


def job(seed: int, size: int = 0, body: Callable[[], None] = survivors, meeting: str = "") -> tuple[int, str]:
    """How many ranks of one job were killed, and what was wrong, or nothing."""
    chosen = random.Random(-seed)
    size = size or chosen.randint(FEWEST, MOST)
    made = Job(seed, size, chosen.randint(1, size - 1), body, meeting)
    wrong = made.kill()
    return made.killed, wrong


def train(seed: int, size: int = 0) -> tuple[int, str]:
    """The same of examples/train_on.py."""
    killed, wrong = job(seed, size, trainers)
    return killed, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2, help="side by side (default: %(default)s)")
    parser.add_argument("--ranks", type=int, default=0, help=f"of each job (default: {FEWEST} to {MOST})")
    parser.add_argument("--train", action="store_true", help="examples/train_on.py")
    parser.add_argument("--meeting", choices=MEETINGS, default="", help="ranks of two jobs, that meet so")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    words = parser.parse_args()
    print(f"seed {words.seed}", flush=True)
    kills = bad = done = 0
    call = train if words.train else partial(job, meeting=words.meeting)
    with ThreadPoolExecutor(words.jobs) as pool:
        while kills < words.kills:
            seeds = range(words.seed + done, words.seed + done + 8 * words.jobs)
            for seed, (killed, wrong) in zip(seeds, pool.map(lambda seed: call(seed, words.ranks), seeds), strict=True):
                kills, done = kills + killed, done + 1
                if wrong:
                    bad += 1
                    print(f"seed {seed}: {wrong}", flush=True)
            print(f"{kills} kills, {bad} wrong", flush=True)
    print(f"{kills} kills in {done} jobs, {bad} wrong", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
