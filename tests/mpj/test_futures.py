"""Calls that other ranks execute: the executors of fastsock.mpj.futures, and the pool over them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path

import pytest

from fastsock.mpj.futures import collect, compose
from fastsock.mpj.futures.aplus import ThenableFuture

from .ranks import run

PROGRAM = Path(__file__).with_name("futures_program.py")


def start(*words, ranks, device="iodev"):
    command = [sys.executable, "-m", "fastsock.mpj.run", "-n", str(ranks), "--device", device, "--timeout", "55"]
    command += ["--as-mpi4py", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=80, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize(("ranks", "device"), [(2, "iodev"), (3, "iodev"), (3, "sysvdev")])
def test_all_but_the_first_rank_work_for_it(ranks, device):
    done = start("-m", "mpi4py.futures", PROGRAM, ranks - 1, ranks=ranks, device=device)
    assert (done.returncode, done.stdout) == (0, "left running\n"), done.stderr


def test_the_status_is_the_programs(tmp_path):
    assert start("-m", "mpi4py.futures", PROGRAM, 1, 5, ranks=2).returncode == 5
    done = start("-m", "mpi4py.futures", "-c", "raise KeyError('the end')", ranks=3)
    assert done.returncode == 1 and "the end" in done.stderr


@pytest.mark.parametrize("ranks", [1, 3])
def test_functions_of_a_command(ranks):
    code = (
        "from mpi4py.futures import MPIPoolExecutor\n"
        "def twice(x): return 2 * x\n"
        "if __name__ == '__main__': print(*MPIPoolExecutor().map(twice, range(5)))\n"
    )
    assert start("-m", "mpi4py.futures", "-c", code, ranks=ranks).stdout == "0 2 4 6 8\n"


def test_a_script_that_makes_executors_when_it_is_imported_is_told(tmp_path):
    script = tmp_path / "app.py"
    script.write_text("from mpi4py.futures import MPIPoolExecutor\nprint(MPIPoolExecutor().submit(abs, -1).result())\n")
    done = start("-m", "mpi4py.futures", script, ranks=2)
    assert done.returncode != 0 and "if __name__ ==" in done.stderr


SPAWNS = """
import os, sys
from mpi4py import MPI
from mpi4py.futures import MPIPoolExecutor, get_comm_workers

def where(colour=None):
    return os.getpid(), get_comm_workers().size, os.environ.get("COLOUR"), CHOSEN

def chosen(value):
    global CHOSEN
    CHOSEN = value

if __name__ == "__main__":
    with MPIPoolExecutor(max_workers=2, initializer=chosen, initargs=(7,), env={"COLOUR": "red"}) as executor:
        assert executor.num_workers == 2
        assert executor.bootup()._pool.size == 2
        found = set(executor.map(where, range(40)))
        assert {pid for pid, *_ in found}.isdisjoint({os.getpid()}) and 1 <= len(found) <= 2
        assert {tuple(rest) for _, *rest in found} == {(2, "red", 7)}
        try:
            executor.submit(divmod, 1, 0).result()
        except ZeroDivisionError as error:
            assert "divmod" in str(error.__cause__) or error.__cause__ is not None
        else:
            raise AssertionError
    other = MPIPoolExecutor(python_args=["-X", "utf8"])
    print(other.num_workers, other.submit(pow, 2, 10).result(), flush=True)
    left = other.submit(print, "left running", flush=True)
"""


@pytest.mark.parametrize("ranks", [0, 1])
def test_an_executor_spawns_its_workers(tmp_path, ranks):
    script = tmp_path / "app.py"
    script.write_text(SPAWNS)
    if ranks:
        done = start(script, ranks=1)
    else:
        code = "-c", "import sys; from fastsock.mpj.runner import aborting; aborting.main()", "--as-mpi4py", str(script)
        done = subprocess.run([sys.executable, *code], capture_output=True, text=True, timeout=80)
    assert (done.returncode, done.stdout) == (0, "1 1024\nleft running\n"), done.stderr


@pytest.mark.parametrize("by", ["service", "port"])
def test_an_executor_finds_the_workers_of_a_server(by):
    if by == "service":
        name = f"fastsock test {os.getpid()}"
        told, service = ["--service", name], repr(name)
    else:
        with socket.create_server(("127.0.0.1", 0)) as free:
            number = free.getsockname()[1]
        told, service = ["--bind", "127.0.0.1", "--port", str(number)], f"('127.0.0.1', {number})"
    code = (
        "import sys, time\n"
        "from mpi4py.futures import MPIPoolExecutor\n"
        f"def ask():\n    with MPIPoolExecutor(service={service}) as executor:\n"
        "        executor.bootup()\n        print(executor.num_workers, *executor.map(abs, range(-3, 0)))\n"
        "ask()\n"
    )
    command = [sys.executable, "-m", "fastsock.mpj.run", "-n", "2", "--as-mpi4py", "--timeout", "55"]
    with subprocess.Popen([*command, "-m", "mpi4py.futures.server", *told]) as server:
        try:
            for _ in range(100):  # until the server is there
                done = start("-c", code, ranks=1)
                if done.returncode == 0:
                    break
            assert done.stdout == "2 3 2 1\n", done.stderr
            assert server.wait(30) == 0
        finally:
            server.terminate()


@pytest.mark.parametrize("device", ["iodev", "smpdev"])
@pytest.mark.parametrize("ranks", [1, 3])
def test_ranks_of_a_communicator(device, ranks):
    def body():
        from fastsock.mpj.futures import MPICommExecutor, get_comm_workers

        root = size - 1  # noqa: F821
        for _ in range(3):
            with MPICommExecutor(comm, root, initializer=abs, initargs=(-1,)) as executor:  # noqa: F821
                if rank == root:  # noqa: F821
                    assert list(executor.map(pow, [2] * 50, range(50))) == [2**n for n in range(50)]
                    assert executor.submit(get_comm_workers).cancel() in (True, False)
                else:
                    assert executor is None
        comm.Barrier()  # noqa: F821
        for bad in (-1, size):  # noqa: F821
            try:
                MPICommExecutor(comm, bad)  # noqa: F821
            except ValueError:
                continue
            raise AssertionError(bad)

    run(body, ranks, device)


def test_sequential_execution():
    def body():
        from fastsock.mpj.util import sync

        for turn in range(20):
            with sync.Sequential(comm):  # noqa: F821
                if rank > 0:  # noqa: F821
                    assert comm.iprobe(rank - 1, 7)  # noqa: F821
                    assert comm.recv(None, rank - 1, 7) == turn  # noqa: F821
                if rank + 1 < size:  # noqa: F821
                    comm.send(turn, rank + 1, 7)  # noqa: F821

    run(body, 3)


@pytest.mark.parametrize(
    ("words", "says"),
    [(["helloworld"], "process 1 of 2"), (["ringtest", "-l", 3], "3 loops"), (["pingpong", "-n", 4, "-l", 2], "4 ")],
)
def test_bench(words, says):
    done = start("-m", "mpi4py.bench", *words, ranks=2)
    assert done.returncode == 0 and says in done.stdout, done.stderr


# ---- futures of futures ----


def test_collected_futures_end_together():
    parts = [Future() for _ in range(3)]
    whole = collect(parts)
    for number, part in enumerate(parts):
        part.set_result(number)
    assert whole.result(0) == [0, 1, 2]
    parts = [Future() for _ in range(3)]
    whole = collect(parts)
    parts[1].set_exception(KeyError())
    assert isinstance(whole.exception(0), KeyError) and parts[0].cancelled() and parts[2].cancelled()


def test_composed_and_chained_futures():
    base = Future()
    composed = compose(base, int)
    base.set_result("42")
    assert composed.result(0) == 42
    first = ThenableFuture()
    last = first.then(lambda x: x + 1).then(lambda x: 1 // (x - 1)).catch(lambda error: type(error).__name__)
    first.set_result(0)
    assert last.result(0) == "ZeroDivisionError"
