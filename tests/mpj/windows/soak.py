"""Ranks killed at random moments among the locks of a window: nobody hangs, and what a lock guards is never torn.

python -m tests.mpj.windows.soak --kills 2000 [--jobs 2] [--seed N]
python -m tests.mpj.windows.soak --programs 1000         random programs beside arrays (test_model.py), none killed
"""

# ruff: noqa: F821  (comm, rank, size, MPI, np, os and SEED are the ranks' own)
from __future__ import annotations

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from .. import ranks
from . import test_model
from .ways import DEVICES, MESSAGES, OWN, before, device_of

PATIENCE_S = 40.0
SIZE = 3
LONGEST_MS = 30.0
LONGEST_S = 900  # of a job of programs, also beside other work
BATCH = 100  # programs of a job, which are the cheaper
ROUNDS = 8  # of a program: each is an epoch of some ten operations of each rank


# Two numbers of each target are equal whenever a lock is got. One rank is killed from outside.
def victims():
    import random
    import sys

    print(f"rank {rank} is {os.getpid()}\n", end="", flush=True)
    window = MPI.Win.Allocate(32, 8, comm=comm)
    mine = random.Random(SEED + rank)
    comm.Barrier()
    print("begins\n", end="", flush=True)
    seen, one = np.zeros(2, "i8"), np.ones(1, "i8")
    try:
        while True:
            target = mine.randrange(size)
            if mine.random() < 0.7:
                window.Lock(target)
                window.Get(seen, target)
                window.Flush(target)
                if seen[0] != seen[1]:
                    print("torn", seen, flush=True)
                seen += 1
                window.Put(seen[:1], target)
                window.Flush(target)
                window.Put(seen[1:], target, 1)
                window.Unlock(target)
            else:
                window.Lock(target, MPI.LOCK_SHARED)
                window.Accumulate(one, target, 2)
                window.Unlock(target)
    except MPI.Exception as error:
        wrong = error.Get_error_class() != MPI.ERR_PROC_FAILED
        print("wrong" if wrong else "told", rank, error, flush=True)
        sys.exit(5)


def killed(seed: int) -> str:
    """One job of which a rank is killed. Returns what was wrong, or nothing."""
    chosen = random.Random(seed)
    way = chosen.choice(["iodev", "iodev", "sysvdev", f"iodev{OWN}", f"iodev{MESSAGES}"])
    program = ranks.PREFIX + "import os\n" + before(way)
    program += f"SEED = {seed}\n" + ranks.source_of(victims)
    command = [sys.executable, "-m", "fastsock.mpj.run", "-n", str(SIZE), "--device", device_of(way), "-c"]
    job = subprocess.Popen([*command, program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert job.stdout is not None
    said: list[str] = []
    begun = 0
    for line in job.stdout:
        said.append(line)
        begun += line.count("begins")  # what two ranks write at once may be on one line
        if begun == SIZE:
            break
    if begun == SIZE:
        processes = dict(re.findall(r"rank (\d) is (\d+)", "".join(said)))
        time.sleep(chosen.random() * LONGEST_MS / 1000)
        os.kill(int(processes[str(chosen.randrange(SIZE))]), signal.SIGKILL)
    try:
        said.append(job.communicate(timeout=PATIENCE_S)[0])
    except subprocess.TimeoutExpired:
        job.kill()
        return f"seed {seed}, {way}: hangs\n{''.join(said)}"
    text = "".join(said)
    if begun < SIZE or "torn" in text or "wrong" in text:
        return f"seed {seed}, {way}: {text}"
    return ""


def programmed(seed: int, many: int) -> str:
    """So many random programs beside arrays, in one job. Returns what was wrong, or nothing."""
    way = DEVICES[seed // BATCH % len(DEVICES)]
    try:
        test_model.check(random.Random(seed).randrange(2, 5), way, range(seed, seed + many), ROUNDS, patience=LONGEST_S)
    except AssertionError as error:
        return f"{way}: {error}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--programs", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="side by side (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    words = parser.parse_args()
    print(f"seed {words.seed}", flush=True)
    tasks: list[Callable[[], str]] = []
    tasks += [partial(killed, words.seed + number) for number in range(words.kills)]
    for number in range(0, words.programs, BATCH):
        tasks.append(partial(programmed, words.seed + number, min(BATCH, words.programs - number)))
    bad = 0
    with ThreadPoolExecutor(words.jobs) as pool:
        for done, wrong in enumerate(pool.map(lambda task: task(), tasks), 1):
            if wrong:
                bad += 1
                print(wrong, flush=True)
            if done % 100 == 0:
                print(f"{done} of {len(tasks)} jobs, {bad} wrong", flush=True)
    print(f"{words.kills} kills, {words.programs} programs in {len(tasks)} jobs, {bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
