"""fastsock.mpj over two hosts: ranks that the runner starts on both, by a command that enters a namespace."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ..helpers.hosts import Hosts
from ..helpers.scripts import ROOT

pytest.importorskip("numpy")

DEADLINE = 60
SILENCE_MS = 2000
LARGEST = 4 << 20  # of the sizes below
PREFIX = """
import faulthandler
faulthandler.dump_traceback_later(50, exit=True)
import numpy as np
from fastsock.mpj import MPI
comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
SIZES = (0, 1, 8, 1000, 1024, 65_536, 131_072, 131_073, 1_000_003, 4 << 20)
def filled(count, seed):
    return (np.arange(count, dtype="i8") * 7 + seed).astype("u1")
"""
POINT_TO_POINT = """
for count in SIZES:
    for other in range(size):
        if other == rank:
            continue
        into = np.zeros(count, "u1")
        comm.Sendrecv(filled(count, rank), other, 1, into, other, 1)
        assert (into == filled(count, other)).all(), (count, other)
    requests, parts = [], {}
    for other in range(size):
        for tag in range(4):
            parts[other, tag] = np.zeros(count, "u1")
            requests.append(comm.Irecv(parts[other, tag], other, tag))
    requests += [comm.Isend(filled(count, rank + tag), other, tag) for other in range(size) for tag in range(4)]
    MPI.Request.Waitall(requests)
    for (other, tag), part in parts.items():
        assert (part == filled(count, other + tag)).all(), (count, other, tag)
assert comm.sendrecv({"from": rank}, (rank + 1) % size, source=(rank - 1) % size) == {"from": (rank - 1) % size}
print(rank, "right")
"""
COLLECTIVES = """
for count in SIZES:
    part = filled(count, 3) if rank == size - 1 else np.zeros(count, "u1")
    comm.Bcast(part, size - 1)
    assert (part == filled(count, 3)).all(), ("bcast", count)
    each = count // size
    mine = filled(each, rank)
    whole = np.concatenate([filled(each, other) for other in range(size)])
    all_of = np.zeros(each * size, "u1")
    comm.Allgather(mine, all_of)
    assert (all_of == whole).all(), ("allgather", count)
    all_of[:] = 0
    comm.Gather(mine, all_of, 0)
    assert rank or (all_of == whole).all(), ("gather", count)
    back = np.zeros(each, "u1")
    comm.Scatter(whole if not rank else None, back, 0)
    assert (back == mine).all(), ("scatter", count)
    comm.Alltoall(whole, all_of)
    assert (all_of == np.concatenate([filled(each, rank)] * size)).all(), ("alltoall", count)
    numbers = np.arange(count // 8, dtype="f8")
    total = np.zeros_like(numbers)
    comm.Allreduce(numbers + rank, total)
    assert (total == size * numbers + size * (size - 1) / 2).all(), ("allreduce", count)
    total[:] = 0
    comm.Reduce(numbers + rank, total, MPI.MAX, size - 1)
    assert rank != size - 1 or (total == numbers + size - 1).all(), ("reduce", count)
    comm.Scan(numbers + rank, total)
    assert (total == (rank + 1) * numbers + rank * (rank + 1) / 2).all(), ("scan", count)
    comm.Ibcast(part, 0).Wait()
    comm.Barrier()
assert comm.allgather(str(rank)) == [str(other) for other in range(size)]
near = comm.Split_type(MPI.COMM_TYPE_SHARED)
assert near.size == size // 2, near.size
print(rank, "right")
"""
# one row a collective: no other algorithm is left to take
TWO_LEVEL = ("allgather", "allreduce", "bcast", "gather", "reduce", "scatter", "barrier")
CUT = """
import time
other = (rank + size // 2) % size
assert comm.sendrecv(rank, other, source=other) == other
print("met", flush=True)
try:
    {call}
    print(rank, "ended without an error", flush=True)
except MPI.Exception as error:
    print(rank, "error:", str(error).replace(chr(10), " "), flush=True)
    raise
"""
RECEIVE = "comm.recv(source=other)"
SEND = "while True: comm.Send(np.zeros(300_000), other)"
REDUCE = "while True: comm.Allreduce(np.ones(1000), np.zeros(1000))"
AFTER_A_SECOND = """
other = (rank + size // 2) % size
total, out = np.zeros(1 << 17), np.zeros(1 << 17)
for number in range(600):
    if number == 20 and not rank:
        print("under way", flush=True)
        input()
    comm.Sendrecv(np.full(1 << 17, float(number + rank)), other, 1, out, other, 1)
    assert (out == number + other).all(), number
    comm.Allreduce(np.full(1 << 17, float(number)), total)
    assert (total == number * size).all(), number
print(rank, "right", flush=True)
"""

DEATH = """
import signal
comm.Barrier()
if rank == 3:
    signal.raise_signal(signal.SIGKILL)
array, total = np.ones(1000), np.zeros(1000)
calls = [comm.Barrier, lambda: comm.allreduce(rank), lambda: comm.Allreduce(array, total)]
for call in (*calls, lambda: comm.Allgather(array[:1], total[:4])):
    try:
        while True:
            call()
    except MPI.Exception as error:
        assert error.Get_error_class() == MPI.ERR_PROC_FAILED and "rank 3" in str(error), error
for other in {0, 1, 2} - {rank}:
    comm.sendrecv(None, other, source=other)
print(rank, "told", flush=True)
"""


@contextlib.contextmanager
def ranks(
    network: Hosts, folder: Path, count: int, text: str, *options: str, **environment: str
) -> Iterator[subprocess.Popen[str]]:
    """A job with as many ranks on each of the hosts; its runner, with these options."""
    names = ["localhost", *map(network.ip, range(1, network.count))]
    (folder / "hosts").write_text("".join(f"{name}:{count // network.count}\n" for name in names))
    (folder / "app.py").write_text(PREFIX + text)
    words = [*network.inside(0), sys.executable, "-m", "fastsock.mpj.run", "--timeout", "50", *options]
    words += ["--hostfile", str(folder / "hosts"), str(folder / "app.py")]
    variables = os.environ | network.remote_start(folder) | {"PYTHONPATH": str(ROOT)} | environment
    pipe = subprocess.PIPE
    with subprocess.Popen(words, env=variables, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as runner:
        try:
            yield runner
        finally:
            runner.kill()


def all_right(runner: subprocess.Popen[str], count: int) -> None:
    output, errors = runner.communicate(timeout=DEADLINE)
    assert runner.returncode == 0, errors
    assert sorted(output.splitlines()) == [f"{rank} right" for rank in range(count)], errors


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("text", [POINT_TO_POINT, COLLECTIVES], ids=["point-to-point", "collectives"])
def test_results_are_right_at_all_sizes(network: Hosts, tmp_path: Path, count: int, text: str) -> None:
    with ranks(network, tmp_path, count, text) as runner:
        all_right(runner, count)
    assert network.received(1) > LARGEST, "the hosts share memory"


def test_hosts_that_share_an_address(network: Hosts, tmp_path: Path) -> None:
    """Each has the bridge of a container engine, say. A rank that is looked for there is not found by mistake."""
    for host in range(2):
        network.add_address(host, "172.17.0.1")
    with ranks(network, tmp_path, 4, COLLECTIVES) as runner:
        all_right(runner, 4)
    assert network.received(1) > LARGEST, "the hosts share memory"


def test_two_level_collectives(network: Hosts, tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.write_text("".join(f"{name} hosts 1 0 two_level\n" for name in TWO_LEVEL))
    with ranks(network, tmp_path, 4, COLLECTIVES, FASTSOCK_MPJ_COLLECTIVES=str(table)) as runner:
        all_right(runner, 4)


@pytest.mark.parametrize("break_it", [Hosts.cut, Hosts.link_down], ids=["silent", "link down"])
@pytest.mark.parametrize("call", [RECEIVE, SEND, REDUCE], ids=["receive", "send", "allreduce"])
def test_a_path_cut_for_ever_ends_the_job(
    network: Hosts, tmp_path: Path, break_it: Callable[[Hosts, int], None], call: str
) -> None:
    """The error names a rank at the other end and its host."""
    text = CUT.format(call=call)
    with ranks(network, tmp_path, 2, text, FASTSOCK_MPJ_SILENCE_MS=str(SILENCE_MS)) as runner:
        assert runner.stdout is not None
        assert [runner.stdout.readline() for _ in range(2)] == ["met\n"] * 2
        break_it(network, 1)
        output, errors = runner.communicate(timeout=DEADLINE)
    assert runner.returncode not in (0, 124), output + errors
    assert re.search(r"0 error: .*rank 1\b", output), output + errors
    assert "without an error" not in output


@pytest.mark.parametrize("count", [2, 4])
def test_a_second_without_a_path_loses_nothing(network: Hosts, tmp_path: Path, count: int) -> None:
    with ranks(network, tmp_path, count, AFTER_A_SECOND) as runner:
        assert runner.stdout is not None and runner.stdin is not None
        assert runner.stdout.readline() == "under way\n"
        network.cut(1)
        runner.stdin.write("\n")
        runner.stdin.flush()
        with contextlib.suppress(subprocess.TimeoutExpired):
            runner.wait(1)  # the fault itself
            raise AssertionError("the ranks ended while there was no path")
        network.mend(1)
        all_right(runner, count)


def test_who_waits_for_a_rank_of_the_same_host_hears_of_a_death_on_another(network: Hosts, tmp_path):
    with ranks(network, tmp_path, 4, DEATH, "--keep-going") as runner:
        output, errors = runner.communicate(timeout=DEADLINE)
    assert sorted(output.splitlines()) == [f"{rank} told" for rank in range(3)], errors
