"""Calls while either end is killed at random moments: no wrong answer, no hang, no object left after its lease.

python -m tests.rmi.kills [--calls 10000] [--path shm] [--seed N]
"""

from __future__ import annotations

import argparse
import contextlib
import mmap
import os
import random
import struct
import sys
import time
from collections.abc import Sequence

import numpy

from fastsock import rmi
from fastsock.testing.process import FarProcess
from tests.helpers.paths import PATHS, preferring

from . import objects
from .conftest import KEY, begin_daemon, fresh_name

MOST = 60  # rounds of calls before a kill
LOOKS = 20_000  # and some milliseconds of the next ones
COUNT = struct.Struct("<q")
HANGS_AFTER = 120.0
LEASES = (0.0, 0.3)  # seconds


def call_once(store, generator):
    """One round of some kind, whose answer is known."""
    kind = generator.randrange(8)
    number = generator.randrange(1 << 40)
    if kind <= 1:
        assert store.add(number, 1) == number + 1
    elif kind == 2:
        array = numpy.full(generator.randrange(200_000), number)
        assert numpy.array_equal(store.same(array), array)
    elif kind == 3:
        counter = store.counter()
        assert [counter.increase(), counter.increase()] == [1, 2]
    elif kind == 4:
        wanted = generator.randrange(1000)
        with store.count_to(wanted) as stream:
            assert [item for item, _ in zip(stream, range(500), strict=False)] == list(range(min(wanted, 500)))
    elif kind == 5:
        assert store.call(rmi.callback(lambda value: value * 2), number) == number * 2
    elif kind == 6:
        store.log("a line")
        with rmi.batch(store) as calls:
            results = [calls.add(number, each) for each in range(20)]
        assert [result.result() for result in results] == [number + each for each in range(20)]
    else:
        began = [rmi.future(store.add)(number, each) for each in range(5)]
        began.pop().cancel()
        assert [future.result() for future in began] == [number + each for each in range(4)]


def work(here, name, seed):
    """Calls until the daemon is lost. The number of calls is written where the test can read it when this one dies."""
    generator = random.Random(seed)
    count = 0
    lost = contextlib.suppress(rmi.LostPeer, rmi.UnknownObject, ConnectionError)
    with lost, rmi.connect(f"rmi:{name}", objects.Store, timeout=HANGS_AFTER) as store:
        while True:
            call_once(store, generator)
            count += 1
            COUNT.pack_into(here.memory, 0, count)
    return count


def await_calls(memory, wanted, working):
    """Until the caller has made so many rounds."""
    until = time.monotonic() + HANGS_AFTER
    while COUNT.unpack_from(memory)[0] < wanted:
        assert not working.done(), working.result()
        assert time.monotonic() < until, "the calls stand still"


def one_kill(generator):
    """Kills one of two ends. Returns how many rounds of calls there were."""
    memory = mmap.mmap(-1, mmap.PAGESIZE)
    with FarProcess(memory=memory) as daemon, FarProcess(memory=memory) as caller:
        name = fresh_name("killed")
        daemon.run(begin_daemon, name, {"lease": generator.choice(LEASES)})
        working = caller.begin(work, name, generator.random())
        await_calls(memory, generator.randrange(MOST), working)
        for _ in range(generator.randrange(LOOKS)):  # anywhere within a call
            COUNT.unpack_from(memory)
        if generator.random() < 0.5:
            daemon.kill()
            daemon.wait()
            working.result(HANGS_AFTER)
        else:
            caller.kill()
            caller.wait()
            with rmi.connect(f"rmi:{name}", objects.Store, timeout=HANGS_AFTER) as store:
                until = time.monotonic() + HANGS_AFTER
                while store.living():
                    assert time.monotonic() < until, "objects of a dead caller are left"
                assert store.add(1, 2) == 3
    return COUNT.unpack_from(memory)[0]


def run(calls, seed):
    """Kills until there were so many rounds of calls, and four kills at least."""
    generator = random.Random(seed)
    kills = total = 0
    while total < calls or kills < 4:
        total += one_kill(generator)
        kills += 1
    return kills, total


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.rmi.kills", description=__doc__)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--path", default="shm", choices=PATHS)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args(arguments)
    os.environ["FASTSOCK_RMI_KEY"] = KEY
    print(f"seed {given.seed}", flush=True)
    with preferring(given.path):
        kills, calls = run(given.calls, given.seed)
    print(f"{calls} rounds of calls, {kills} kills: every answer was right, nothing was left")
    return 0


if __name__ == "__main__":
    sys.exit(main())
