"""Random views beside arrays, and ranks that are killed while they write: what was synced is in the file.

python -m tests.mpj.files.soak --views 20000 [--jobs 2] [--seed N]     each a view, an access and a look at all bytes
python -m tests.mpj.files.soak --kills 200
"""

# ruff: noqa: F821  (comm, rank, size, MPI, np, os, name and SEED are the ranks' own)
from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from .. import ranks
from . import test_model
from .test_access import begins

PATIENCE_S = 40.0
SIZE = 3
LONGEST_MS = 60.0
EACH = 100  # views of one job
LENGTH = 4096  # bytes of a rank in a block of `writers`


def writers():
    length = 4096
    print(rank, os.getpid(), flush=True)
    file = MPI.File.Open(comm, name, MPI.MODE_CREATE | MPI.MODE_RDWR)
    run = [8, 512, 4096][SEED % 3]
    columns = MPI.BYTE.Create_vector(length // run, run, run * size).Create_resized(0, length * size).Commit()
    file.Set_view(rank * run, MPI.BYTE, columns)
    comm.Barrier()
    print(rank, "begins", flush=True)
    for number in range(100000):
        data = np.full(length, number % 255 + 1, "u1")
        if SEED % 2:
            file.Write_at_all(number * length, data)
        else:
            file.Iwrite_at(number * length, data).Wait()
        file.Sync()
        print(rank, "synced", number, flush=True)


def killed(seed: int) -> str:
    """One job of which a rank is killed. Returns what was wrong, or nothing."""
    chosen = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        program = ranks.PREFIX + "import os\n" + begins(Path(folder)) + f"SEED = {seed}\n" + ranks.source_of(writers)
        command = [sys.executable, "-m", "fastsock.mpj.run", "-n", str(SIZE), "-c", program]
        job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert job.stdout is not None
        pids: dict[int, int] = {}
        begun = 0
        said: list[str] = []
        for line in job.stdout:
            said.append(line)
            words = line.split()
            if len(words) == 2 and words[1].isdecimal():
                pids[int(words[0])] = int(words[1])
            begun += words[1:] == ["begins"]
            if begun == SIZE:
                break
        if begun < SIZE:
            return "".join(said)
        time.sleep(chosen.random() * LONGEST_MS / 1000)
        os.kill(pids[chosen.randrange(SIZE)], signal.SIGKILL)
        try:
            text = job.communicate(timeout=PATIENCE_S)[0]
        except subprocess.TimeoutExpired:
            job.kill()
            return "hangs"
        lines = [line.split() for line in text.splitlines()]
        synced = [int(words[2]) for words in lines if len(words) == 3 and words[1] == "synced" and words[2].isdecimal()]
        blocks = np.fromfile(Path(folder) / "file", "u1")[: SIZE * LENGTH * (max(synced, default=-1) + 1)]
        blocks = blocks.reshape(-1, SIZE * LENGTH)
        wanted = np.arange(max(synced, default=-1) + 1) % 255 + 1
        if len(blocks) != len(wanted) or (blocks != wanted[:, None]).any():
            return f"synced {max(synced, default=-1)}, but not in the file"
    return ""


def viewed(seed: int) -> str:
    """One job of random views. Returns what was wrong, or nothing."""
    device = ["iodev", "iodev", "sysvdev", "smpdev"][seed % 4]
    hints = test_model.TWO_PHASES if seed % 3 == 0 else {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            test_model.check(1 + seed % 4, device, seed, Path(folder), hints)
        except AssertionError as error:
            return f"{device}: {str(error)[:2000]}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--views", type=int, default=0)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="side by side (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    words = parser.parse_args()
    print(f"seed {words.seed}", flush=True)
    test_model.ROUNDS = EACH
    tasks: list[tuple[Callable[[int], str], int]] = []
    tasks += [(viewed, words.seed + number) for number in range(-(-words.views // EACH))]
    tasks += [(killed, words.seed + number) for number in range(words.kills)]
    bad = 0
    with ThreadPoolExecutor(words.jobs) as pool:
        for (_, seed), wrong in zip(tasks, pool.map(lambda task: task[0](task[1]), tasks), strict=True):
            if wrong:
                bad += 1
                print(f"seed {seed}: {wrong}", flush=True)
    print(f"{len(tasks)} done, {bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
